"""Many small segment files read side by side: footers compared by shape, pages decoded together.

It opens and decodes what `SegmentFile` would, with the same proofs. What it does not take, a
`SegmentFile` reads, or refuses with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from projseg.errors import ProjsegError
from projseg.kernels.split_footers import split_footers
from projseg.segment_format.layout.footer import Role
from projseg.segment_format.layout.footer_checks import ReadRange, read_exactly
from projseg.segment_format.layout.footer_shape import FooterShape, shape_of
from projseg.segment_format.layout.frame import FILE_ID_BYTES, TAIL_LAYOUT, Tail, parse_tail
from projseg.segment_format.layout.logical_types import parse_type_name
from projseg.segment_format.layout.page_directory import PAGE_DTYPE
from projseg.segment_format.layout.part_checksum import file_seed
from projseg.segment_format.pages.compression import NONE, decompress_page
from projseg.segment_format.pages.page_batch import (
    NotTogetherError,
    PageBatch,
    require,
    require_sound,
)
from projseg.segment_format.vectors.vectors import Numbers

_OF_PAGES: Final = ("file_offset", "stored_bytes", "raw_bytes", "compression", "checksum")


class Ending(NamedTuple):
    """The last bytes of a file, and what reads others."""

    content: bytes
    byte_count: int
    path: str
    read_range: ReadRange


class _Split(NamedTuple):
    """A footer whose checksum is right: its file, and its numbers."""

    file: int
    tail: Tail
    numbers: NDArray[np.int64]


class SmallFile(NamedTuple):
    """A file whose footer is proved.

    Parameters
    ----------
    ending : Ending
        Its bytes.
    seed : int
        Of its checksums.
    pages_end : int
        What no page passes.
    shape : FooterShape
        Its footer's.
    numbers : int64[k]
        The numbers of its footer.
    """

    ending: Ending
    seed: int
    pages_end: int
    shape: FooterShape
    numbers: NDArray[np.int64]

    @property
    def row_counts(self) -> list[int]:
        """Rows of each table."""
        found: list[int] = self.numbers[self.shape.row_counts].tolist()
        return found


class StackedIds(NamedTuple):
    """Ids of files with a dictionary each.

    Parameters
    ----------
    ids : int64[n]
        Places among `values`.
    values : pa.Array
        The values of all dictionaries, one after the other.
    """

    ids: NDArray[np.int64]
    values: pa.Array


class FileBatch:
    """Files read together.

    Parameters
    ----------
    endings : sequence of Ending
        At least a tail each.

    Raises
    ------
    CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
        As of `SegmentFile.open` of one of them.
    """

    def __init__(self, endings: Sequence[Ending]) -> None:
        self.files: list[SmallFile | None] = [None] * len(endings)
        footers, found = list[memoryview](), list[tuple[int, Tail]]()
        for number, (content, size, path, _) in enumerate(endings):
            whole = memoryview(content)
            tail, checksum = parse_tail(whole[-TAIL_LAYOUT.size :], size, path)
            start = tail.footer_offset - (size - len(content))
            footer = whole[max(start, 0) : -TAIL_LAYOUT.size]
            if start >= 0 and tail.checksum(footer) == checksum:
                footers.append(footer)
                found.append((number, tail))
        self._footers = np.frombuffer(b"".join(footers), np.uint8)
        starts = np.array([*accumulate(map(len, footers), initial=0)], np.int64)
        by_shape: dict[FooterShape, list[_Split]] = {}
        split = zip(found, footers, split_footers(self._footers, starts), strict=True)
        for (number, tail), footer, (content, numbers) in split:
            shape = shape_of(footer, tail, endings[number].path, content)
            if shape is not None:
                by_shape.setdefault(shape, []).append(_Split(number, tail, numbers))
        for shape, several in by_shape.items():
            self._accept(endings, shape, several)

    def _accept(
        self, endings: Sequence[Ending], shape: FooterShape, several: Sequence[_Split]
    ) -> None:
        """Take the files of one shape whose footers are sound."""
        together = np.stack([one.numbers for one in several])
        ends = np.array([one.tail.footer_offset for one in several], np.int64)
        is_good, places = shape.accepts(together, ends).tolist(), shape.file_ids(together)
        for (number, tail, numbers), is_sound, place in zip(several, is_good, places, strict=True):
            if is_sound:
                seed = file_seed(self._footers[place : place + FILE_ID_BYTES].tobytes())
                made = SmallFile(endings[number], seed, tail.footer_offset, shape, numbers)
                self.files[number] = made

    def column(
        self, files: Sequence[SmallFile], table: str, role: Role, name: str
    ) -> Numbers | StackedIds | None:
        """Return a column of several files; None if it is to be decoded file by file.

        Parameters
        ----------
        files : sequence of SmallFile
            Some of `files`, at least one.
        table, role, name
            The column; each file has it.
        """
        try:
            return self._column(files, table, role, name)
        except (NotTogetherError, ProjsegError, pa.ArrowException, ValueError):
            return None

    def _column(
        self, files: Sequence[SmallFile], table: str, role: Role, name: str
    ) -> Numbers | StackedIds:
        shapes = {file.shape: file.shape.column(table, role, name) for file in files}
        kinds = {(entry.kind, entry.type) for entry, *_ in shapes.values()}
        kind, type_name = kinds.pop()
        require(not kinds and kind != "opaque")
        arrow_type, places = parse_type_name(type_name), [shapes[file.shape] for file in files]
        pages = self._pages(files, [place for _, place, _ in places])
        if kind == "numbers":
            return pages.numbers(arrow_type)
        dictionaries = self._pages(files, [place for _, _, place in places])
        ids = pages.ids(np.diff(dictionaries.row_starts))
        shifts = pages.each_row(dictionaries.row_starts[:-1])
        return StackedIds(ids + shifts, dictionaries.values(arrow_type))

    def _pages(self, files: Sequence[SmallFile], places: Sequence[tuple[int, int]]) -> PageBatch:
        """Return the only page of each file whose directory is at a place."""
        numbers = [
            (file.numbers[at], file.numbers[at + 1], file.numbers[rows])
            for file, (at, rows) in zip(files, places, strict=True)
        ]
        starts, sizes, row_counts = np.array(numbers).T
        require((sizes == PAGE_DTYPE.itemsize).all())
        spread = self._footers[starts[:, None] + np.arange(PAGE_DTYPE.itemsize)]
        records: NDArray[Any] = spread.view(PAGE_DTYPE).ravel()
        require_sound(records, row_counts, np.array([file.pages_end for file in files]))
        fields = (records[name].tolist() for name in _OF_PAGES)
        pages = [_page(*one) for one in zip(files, *fields, strict=True)]
        return PageBatch.of(records, pages)


def _page(
    file: SmallFile, offset: int, stored: int, raw: int, compression: int, checksum: int
) -> bytes | memoryview:
    """Return the bytes of a page, proved and decompressed."""
    content, size, path, read_range = file.ending
    start = offset - (size - len(content))
    if start >= 0:
        page = content[start : start + stored]
    else:
        page = read_exactly(read_range, offset, stored, path)
    require(xxhash.xxh3_64_intdigest(page, seed=file.seed ^ offset) == checksum)
    if compression == NONE and stored == raw:
        return page
    return decompress_page(memoryview(page), compression, raw, path=path, part_name="page")
