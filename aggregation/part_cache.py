"""What queries keep in memory up to a byte budget, least recently used out first.

Decoded parts of segments, which were checksummed when they were decoded, and what was computed from
them alone: values of expressions by dictionary id, merged dictionaries. Segments are immutable, so
no entry goes stale.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

BUDGET_BYTES_DEFAULT: Final = 4 << 30


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What the cache holds and how often it helped since the process began."""

    entry_count: int
    byte_count: int
    budget_bytes: int
    hit_count: int
    miss_count: int
    eviction_count: int


class PartCache:
    """A thread-safe map from part to decoded value with a byte budget."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._byte_count = 0
        self._hits = self._misses = self._evictions = 0
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._entries

    def get(self, key: Hashable) -> Any | None:
        """Return a part, or None if it is not here."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return entry[0]

    def has_room(self, byte_count: int) -> bool:
        """Whether so many bytes fit without putting anything out."""
        with self._lock:
            return self._byte_count + byte_count <= self._budget_bytes

    def put(self, key: Hashable, value: Any, byte_count: int) -> None:
        """Keep a part; one larger than the whole budget is not kept."""
        with self._lock:
            if byte_count > self._budget_bytes or key in self._entries:
                return
            self._entries[key] = (value, byte_count)
            self._byte_count += byte_count
            while self._byte_count > self._budget_bytes:
                _, (_, freed) = self._entries.popitem(last=False)
                self._byte_count -= freed
                self._evictions += 1

    def get_or_load(
        self, key: Hashable, load: Callable[[], Any], byte_count_of: Callable[[Any], int]
    ) -> Any:
        """Return a part, loading it first if need be; two threads may both load it."""
        value = self.get(key)
        if value is None:
            value = load()
            self.put(key, value, byte_count_of(value))
        return value

    def statistics(self) -> CacheStatistics:
        """Return what the cache holds and how often it helped."""
        with self._lock:
            return CacheStatistics(
                len(self._entries),
                self._byte_count,
                self._budget_bytes,
                self._hits,
                self._misses,
                self._evictions,
            )


PARTS: Final = PartCache(int(os.environ.get("PROJSEG_CACHE_BYTES", BUDGET_BYTES_DEFAULT)))


def cache_statistics() -> CacheStatistics:
    """Return what the process keeps of decoded segments; `PROJSEG_CACHE_BYTES` sets the budget."""
    return PARTS.statistics()
