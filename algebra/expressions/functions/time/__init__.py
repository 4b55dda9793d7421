"""Functions of dates and timestamps."""
