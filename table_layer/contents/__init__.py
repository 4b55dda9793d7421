"""What a table's files hold: changes, projections built, metadata tables."""
