"""A table's metadata: versions as snapshots, manifests of segment entries, declared properties.

Sealed as JSON with a checksum, within limits, and changed by commits; columns have a schema, stored
names and bounds.
"""
