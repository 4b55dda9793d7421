"""What a definition says: its fields, rules and edits; no database, no files."""
