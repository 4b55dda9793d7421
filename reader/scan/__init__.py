"""Row scans: matching rows as record batches."""
