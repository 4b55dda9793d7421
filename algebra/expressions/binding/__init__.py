"""From sqlglot's tree to a typed expression over a schema."""
