"""What expressions, aggregates, projections and queries mean; no bytes, no Spark."""
