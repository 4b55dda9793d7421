"""Functions that read sketches."""
