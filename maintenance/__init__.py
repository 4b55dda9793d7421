"""Work on whole tables: verification."""
