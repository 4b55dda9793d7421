"""Which files are still needed: vacuum, removed values, versions that hold a file."""
