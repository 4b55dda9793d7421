"""Loaded manifests by name and checksum, in the one cache of the process.

Manifests are immutable, so an entry is never stale; it is only dropped for room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from projseg.memory.cache import KEPT, Cache, Owner
from projseg.memory.request_pool import side_by_side
from projseg.table_layer.metadata.manifest import Manifest, ManifestReference, load_manifest
from projseg.table_layer.storage.storage_contract import Storage

_KIND: Final = "manifest"
_DECODED_PER_STORED: Final = 5
"""Bytes an entry takes decoded for each byte of its JSON (measured: 5.2 for 20 columns)."""


class ManifestCache:
    """Manifests kept in a byte budget; safe to share between threads."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def load(self, storage: Storage, reference: ManifestReference) -> Manifest:
        """Return the manifest a snapshot lists, read at most once while it fits.

        Raises
        ------
        CorruptTableError
            If it is missing or damaged.
        """
        key = (_KIND, reference.name, reference.checksum)
        known: tuple[Manifest, Owner] | None = self._cache.get(key)
        if known is not None:
            manifest, owner = known
            # Entries may have been decoded since it was kept.
            self._cache.resize(owner, _held_bytes(manifest, reference))
            return manifest
        loaded, owner = load_manifest(storage, reference), Owner(key)
        byte_count = _held_bytes(loaded, reference)
        kept: tuple[Manifest, Owner] = self._cache.put(
            key, (loaded, owner), byte_count, stands_for=owner
        )
        return kept[0]

    def load_all(
        self, storage: Storage, references: Iterable[ManifestReference]
    ) -> Iterator[Manifest]:
        """Yield manifests in order, read side by side where each read is a round trip."""
        load = partial(self.load, storage)
        if storage.is_remote:
            yield from side_by_side(load, references)
        else:
            yield from map(load, references)


def _held_bytes(manifest: Manifest, reference: ManifestReference) -> int:
    share = manifest.decoded_count / max(1, len(manifest))
    return int(reference.byte_count * (1 + _DECODED_PER_STORED * share))


MANIFESTS: Final = ManifestCache(KEPT)
"""The process's manifests."""
