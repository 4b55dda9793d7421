"""Files of others that hold the base rows of our tables: their lists, identities and columns."""
