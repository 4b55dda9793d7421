"""A table's metadata: snapshots, manifests and segment entries."""
