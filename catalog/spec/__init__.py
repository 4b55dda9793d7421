"""Specs of tables, as JSON or Druid's: their fields, rules and edits; no database, no files."""
