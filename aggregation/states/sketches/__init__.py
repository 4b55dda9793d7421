"""States of sketches, and the hashes that they fold."""
