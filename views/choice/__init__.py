"""What the choice of a view knows of many views before it reads any part."""
