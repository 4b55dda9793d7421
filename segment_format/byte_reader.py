"""A cursor over untrusted bytes, which refuses to read past their end."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import CorruptSegmentError
from projseg.segment_format.format_limits import NESTED_VALUES_MAX, require_limit

ALIGNMENT = 8  # every array inside a page starts at a multiple of this many bytes


def corrupt(path: str, part_name: str, problem: str) -> CorruptSegmentError:
    """Return the error for stored bytes that break SPEC.md."""
    return CorruptSegmentError("PROJSEG_CORRUPT_SEGMENT", f"{path}: {part_name}: {problem}")


def padding(byte_count: int) -> int:
    """Return how many zero bytes follow `byte_count` bytes up to the next aligned offset."""
    return -byte_count % ALIGNMENT


class ByteReader:
    """A cursor over one part of a segment file, after checksum and decompression."""

    __slots__ = ("_content", "_offset", "_values_left", "part_name", "path")

    def __init__(self, content: memoryview, *, path: str, part_name: str) -> None:
        self._content, self._offset = content, 0
        self._values_left = NESTED_VALUES_MAX
        self.path, self.part_name = path, part_name

    @property
    def bytes_left(self) -> int:
        """Bytes not taken yet."""
        return len(self._content) - self._offset

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read one fixed layout and step past it."""
        return layout.unpack(self.take(layout.size))

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes, never fewer."""
        start, end = self._offset, self._offset + size
        if not start <= end <= len(self._content):
            self.require(False, f"needs {size} bytes, {self.bytes_left} left")
        self._offset = end
        return self._content[start:end]

    def array(self, dtype: str, count: int) -> NDArray[Any]:
        """Return the next items, dtype[count], as an aligned, read-only array; skip its padding."""
        stored = np.dtype(dtype)
        items = np.frombuffer(self.take(count * stored.itemsize), dtype=stored)
        self.skip_padding(items.nbytes)
        if not items.flags.aligned:
            items = items.copy()
        items.setflags(write=False)
        return items

    def skip_padding(self, byte_count: int) -> None:
        """Step over the zero bytes that follow a part of `byte_count` bytes."""
        self.require(not any(self.take(padding(byte_count))), "padding is not zero")

    def claim(self, value_count: int) -> None:
        """Count values that are about to be decoded, which may take no bytes of the part."""
        self._values_left -= value_count
        claimed = NESTED_VALUES_MAX - self._values_left
        require_limit("number of values of a nested page", claimed, NESTED_VALUES_MAX)

    def finish(self) -> None:
        """Refuse bytes that are left over at the end of the part."""
        self.require(self.bytes_left == 0, f"{self.bytes_left} bytes left over")

    def require(self, condition: bool, problem: str) -> None:
        """Raise a located CorruptSegmentError unless `condition` holds."""
        if not condition:
            raise corrupt(self.path, self.part_name, f"at byte {self._offset}: {problem}")


def padded(*parts: bytes) -> bytes:
    """Return the parts one after the other, each followed by its zero padding."""
    return b"".join(part + bytes(padding(len(part))) for part in parts)
