"""One small adapter for each engine; `registry` lists them."""
