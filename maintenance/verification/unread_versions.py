"""Files later than the newest version: the only trace that a version above it may have been lost.

Whether the newest snapshot was deleted cannot be known from a table. Its deletion leaves a manifest
that is later than every snapshot and that no snapshot lists. A writer that was killed before it
published leaves the same, and so does one that is about to publish. So this is a hint, not a
finding.
"""

from __future__ import annotations

from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import (
    MANIFEST_PREFIX,
    SNAPSHOT_PREFIX,
    is_temporary,
    snapshot_name,
)


def later_manifests(snapshot: Snapshot) -> list[str]:
    """Return the manifests written after the newest version `snapshot`, which no version lists.

    Parameters
    ----------
    snapshot : Snapshot
        The newest version; of an older one, the manifests of its successors would be returned.
    """
    storage = snapshot.storage
    own_name = snapshot_name(snapshot.version)
    moments = {file.name: file.modified_us for file in storage.list_names(SNAPSHOT_PREFIX)}
    published_us = moments.get(own_name)
    if published_us is None:
        return []
    listed = {reference.name for reference in snapshot.file.manifests}
    return sorted(
        file.name
        for file in storage.list_names(MANIFEST_PREFIX)
        if file.modified_us > published_us
        and file.name not in listed
        and not is_temporary(file.name)
    )
