"""The process's one cache: a byte budget, the least recently used entries evicted first.

Everything that outlives a query is kept here and counted: open segments with their dictionaries
and directories, decoded columns, values by dictionary id, merged dictionaries, manifests, plans.
Segments and manifests are immutable, so no entry goes stale.

An entry that keeps another in memory names it as its owner. Using an entry also uses its owners, so
an entry is evicted before its owners, and the bytes of an evicted entry are really free.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

from projseg.memory.forks import hold_while_forking
from projseg.memory.memory_pool import parse_byte_count, quarter_of_memory

BUDGET_SETTING: Final = "PROJSEG_CACHE_BYTES"
BUDGET_BYTES_MAX: Final = 4 << 30  # if no setting says more
ENTRY_BYTES: Final = 512
"""Counted for each entry beside its own bytes: key, record, links, small objects around arrays."""

CacheKey = tuple[Any, ...]
"""The key of an entry: hashable; its first item names the kind of entry."""


class Owner:
    """The identity of one cached value, so that its parts are not taken for another value's."""

    __slots__ = ("key",)

    def __init__(self, key: CacheKey) -> None:
        self.key = key


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """Entries and bytes of the cache, and how often it was used since the process began.

    Parameters
    ----------
    entry_count, byte_count : int
        Entries, and their bytes.
    budget_bytes : int
        The limit on `byte_count`.
    hit_count, miss_count, eviction_count : int
        Since the process began.
    bytes_by_kind : mapping of str to int
        `byte_count` by kind of entry: segment, column, pages, manifest, plan and others.
    """

    entry_count: int
    byte_count: int
    budget_bytes: int
    hit_count: int
    miss_count: int
    eviction_count: int
    bytes_by_kind: Mapping[str, int]


@dataclass(slots=True)
class _Entry:
    key: CacheKey
    value: Any
    byte_count: int
    owners: tuple[Owner, ...]
    stands_for: Owner | None
    parts_bytes_max: int | None
    parts_bytes: int = 0


@dataclass(slots=True)
class _Counters:
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    bytes_by_kind: dict[str, int] = field(default_factory=dict)


class Cache:
    """A thread-safe map with a byte budget, which a callable gives at the first use."""

    def __init__(self, budget_bytes: int | Callable[[], int]) -> None:
        self._budget = budget_bytes
        self._entries: OrderedDict[CacheKey, _Entry] = OrderedDict()
        self._inherited: dict[CacheKey, _Entry] = {}
        self._byte_count = 0
        self._counters = _Counters()
        # Reentrant: freeing an entry may call the cache again.
        self._lock = RLock()
        hold_while_forking(self._lock)

    @property
    def budget_bytes(self) -> int:
        """The limit on the bytes of all entries."""
        if callable(self._budget):
            self._budget = self._budget()
        return self._budget

    def __contains__(self, key: CacheKey) -> bool:
        with self._lock:
            return self._entry_of(key) is not None

    def get(self, key: CacheKey) -> Any | None:
        """Return the value of `key`, or None."""
        with self._lock:
            entry = self._entry_of(key)
            if entry is None:
                self._counters.misses += 1
                return None
            self._counters.hits += 1
            self._touch(entry)
            return entry.value

    def has_room(self, byte_count: int) -> bool:
        """Whether `byte_count` more bytes fit without evicting anything."""
        with self._lock:
            return self._byte_count + byte_count + ENTRY_BYTES <= self.budget_bytes

    def put(
        self,
        key: CacheKey,
        value: Any,
        byte_count: int,
        *,
        owners: tuple[Owner, ...] = (),
        stands_for: Owner | None = None,
        parts_bytes_max: int | None = None,
    ) -> Any:
        """Keep a value unless its key has one or there is no room; return the one to be used.

        The value is not None, and ENTRY_BYTES are added to its bytes. `owners` are values that it
        keeps in memory: it is cached only if they are; `parts_bytes_max` limits the bytes of all
        their parts.
        """
        with self._lock:
            if (known := self._entry_of(key)) is not None:
                self._touch(known)
                return known.value
            held = byte_count + ENTRY_BYTES
            if held <= self.budget_bytes and all(self._takes(owner, held) for owner in owners):
                entry = _Entry(key, value, 0, owners, stands_for, parts_bytes_max)
                self._entries[key] = entry
                self._resize(entry, held)
            return value

    def replace(self, key: CacheKey, value: Any, byte_count: int) -> None:
        """Keep a value, which no other entry belongs to, and drop the key's old value."""
        with self._lock:
            self._drop(key)
            self.put(key, value, byte_count)

    def resize(self, owner: Owner, byte_count: int) -> None:
        """Change the bytes counted for the value of `owner`, if it is cached."""
        with self._lock:
            if (entry := self._owning(owner)) is not None:
                self._resize(entry, byte_count + ENTRY_BYTES)

    def get_or_load(
        self,
        key: CacheKey,
        load: Callable[[], Any],
        byte_count_of: Callable[[Any], int],
        *,
        owners: tuple[Owner, ...] = (),
    ) -> Any:
        """Return a value, loading it first if need be; two threads may both load it."""
        value = self.get(key)
        if value is not None:
            return value
        value = load()
        return self.put(key, value, byte_count_of(value), owners=owners)

    def clear(self) -> None:
        """Forget all entries."""
        with self._lock:
            for key in list(self._entries):
                self._drop(key)
            self._inherited.clear()
            self._byte_count = 0  # inherited entries that grew were counted by their growth

    def keep_inherited(self, process_count: int) -> None:
        """Keep inherited entries for good, and share the parent's unused budget with others.

        Memory that processes share is not freed by forgetting it, so it is neither counted here
        nor evicted. The budget becomes this process's part of the parent's rest, of which there
        is a quarter of the parent's budget at least.
        """
        with self._lock:
            rest = max(self.budget_bytes - self._byte_count, self.budget_bytes // 4)
            self._budget = rest // process_count
            self._inherited |= self._entries
            self._entries.clear()
            self._byte_count = 0
            self._counters = _Counters()

    def statistics(self) -> CacheStatistics:
        """Return the cache's size, and how often it was used."""
        with self._lock:
            counters = self._counters
            return CacheStatistics(
                len(self._entries),
                self._byte_count,
                self.budget_bytes,
                counters.hits,
                counters.misses,
                counters.evictions,
                {kind: count for kind, count in counters.bytes_by_kind.items() if count},
            )

    def _entry_of(self, key: CacheKey) -> _Entry | None:
        return self._entries.get(key) or self._inherited.get(key)

    def _owning(self, owner: Owner) -> _Entry | None:
        entry = self._entry_of(owner.key)
        return entry if entry is not None and entry.stands_for is owner else None

    def _takes(self, owner: Owner, byte_count: int) -> bool:
        entry = self._owning(owner)
        if entry is None:
            return False
        most = entry.parts_bytes_max
        return most is None or entry.parts_bytes + byte_count <= most

    def _touch(self, entry: _Entry) -> None:
        """Make an entry the most recently used, and its owners more recent still."""
        if entry.key not in self._entries:
            return  # inherited, and so are its owners
        self._entries.move_to_end(entry.key)
        for owner in entry.owners:
            if (owning := self._owning(owner)) is not None:
                self._touch(owning)

    def _resize(self, entry: _Entry, byte_count: int) -> None:
        self._count(entry, byte_count - entry.byte_count)
        entry.byte_count = byte_count
        self._touch(entry)
        while self._byte_count > self.budget_bytes and self._entries:
            self._drop(next(iter(self._entries)))
            self._counters.evictions += 1

    def _count(self, entry: _Entry, byte_count: int) -> None:
        self._byte_count += byte_count
        kind = str(entry.key[0])
        by_kind = self._counters.bytes_by_kind
        by_kind[kind] = by_kind.get(kind, 0) + byte_count
        for owner in entry.owners:
            if (owning := self._owning(owner)) is not None:
                owning.parts_bytes += byte_count

    def _drop(self, key: CacheKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._count(entry, -entry.byte_count)
        self._inherited.pop(key, None)


def _budget_of_environment() -> int:
    text = os.environ.get(BUDGET_SETTING)
    if text is None:
        return min(BUDGET_BYTES_MAX, quarter_of_memory())
    return parse_byte_count(text, BUDGET_SETTING)


KEPT: Final = Cache(_budget_of_environment)
"""The process's cache."""


def cache_statistics() -> CacheStatistics:
    """Return the size of the process's cache, and how often it was used.

    `PROJSEG_CACHE_BYTES` sets the budget: a number of bytes, or one with a suffix, such as 4G. If
    it is not set, the budget is a quarter of the memory that the control group may take, at most 4
    GiB.

    Returns
    -------
    CacheStatistics
        The figures of this moment.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION, if the setting is no size.
    """
    return KEPT.statistics()
