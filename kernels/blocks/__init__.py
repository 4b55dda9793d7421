"""The machine for block programs: simple steps over a block of rows."""
