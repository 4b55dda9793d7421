"""The memory of an open segment file: counted in the cache, and bounded for its dictionaries."""

from __future__ import annotations

from projseg.memory.cache import KEPT, Owner


class HeldBytes:
    """Bytes held by one open file.

    Parameters
    ----------
    owner : Owner or None
        The file's cache entry; None if it is not cached.
    total : int
        What it holds from the start.
    values_max : int
        Most bytes of the values of all its dictionaries. A small file may claim gigabytes.
    """

    def __init__(self, owner: Owner | None, total: int, values_max: int) -> None:
        self.owner, self.total = owner, total
        self._values_max = values_max
        self._values: dict[str, int] = {}  # by dictionary

    @property
    def values_left(self) -> int:
        """Bytes left for values that are not decoded yet."""
        return self._values_max - sum(tuple(self._values.values()))

    def add(self, byte_count: int) -> None:
        """Count something else that is held from now on."""
        self.total += byte_count
        if self.owner is not None:
            KEPT.resize(self.owner, self.total)

    def hold_values(self, name: str, byte_count: int) -> None:
        """Count what a dictionary's values take now."""
        held = self._values.get(name, 0)
        self._values[name] = byte_count
        self.add(byte_count - held)
