"""Parameters of SQL texts, and the values given for them."""
