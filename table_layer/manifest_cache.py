"""Loaded manifests of this process, by name and checksum, within a byte budget.

Manifests are immutable, so an entry is never stale; it is only dropped for room.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from projseg.table_layer.manifest import Manifest, ManifestReference, load_manifest
from projseg.table_layer.storage_contract import Storage

_DECODED_PER_STORED: Final = 5
"""Bytes an entry takes decoded for each byte of its JSON (measured: 5.2 for 20 columns)."""


class ManifestCache:
    """A least-recently-used cache of manifests; safe to share between threads."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._manifests: OrderedDict[tuple[str, str], tuple[Manifest, int]] = OrderedDict()
        self._used_bytes = 0

    def load(self, storage: Storage, reference: ManifestReference) -> Manifest:
        """Return the manifest a snapshot lists, read at most once while it fits.

        Raises
        ------
        CorruptTableError
            If it is missing or damaged.
        """
        key = (reference.name, reference.checksum)
        with self._lock:
            found = self._manifests.get(key)
        manifest = load_manifest(storage, reference) if found is None else found[0]
        self._keep(key, manifest, _held_bytes(manifest, reference))
        return manifest

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._manifests.clear()
            self._used_bytes = 0

    def _keep(self, key: tuple[str, str], manifest: Manifest, cost: int) -> None:
        """Make this the newest entry; its cost has grown if entries were decoded since."""
        with self._lock:
            _, before = self._manifests.pop(key, (manifest, 0))
            self._used_bytes += cost - before
            self._manifests[key] = (manifest, cost)
            while self._used_bytes > self.budget_bytes:
                _, (_, dropped) = self._manifests.popitem(last=False)
                self._used_bytes -= dropped


def _held_bytes(manifest: Manifest, reference: ManifestReference) -> int:
    share = manifest.decoded_count / max(1, len(manifest))
    return int(reference.byte_count * (1 + _DECODED_PER_STORED * share))


MANIFESTS: Final = ManifestCache(budget_bytes=2**30)
"""The process's cache."""
