"""Which segments make up a table, atomically: storage, manifests, snapshots, commits."""
