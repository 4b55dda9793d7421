"""One small adapter for each engine; `engine_comparison` lists them."""
