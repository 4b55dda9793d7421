"""The values of a dictionary in a file: decoded at once, or of many texts the pages needed.

A filter looks for a few values, and a few groups are returned of many. Ids alone, by which rows are
grouped and counted, need no values.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.segment_format.dictionaries.dictionary import TextValue, order_problem, place_of
from projseg.segment_format.layout.logical_types import is_fixed_width, is_text, type_name
from projseg.segment_format.pages.page_decoder import PageRun, decode_numbers, decode_opaque
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.open_file_memory import HeldBytes

_ARROW_BYTES_MAX: Final = 2**31 - 1  # of one array of texts
_SLACK_BYTES: Final = 1 << 20  # Arrow's bitmaps and last offsets, which no limit counts
_NUMBER_BYTES: Final = 8

# Fewer pages are decoded together; and so are all, once more than this share is needed.
_PAGES_MIN: Final = 4
_PAGE_SHARE_MAX: Final = 0.5


def read_values(
    run: PageRun, arrow_type: pa.DataType, held: HeldBytes, name: str
) -> pa.Array | PagedValues:
    """Return the values of the dictionary `name`: decoded, or a large one's as they were read.

    Parameters
    ----------
    run : PageRun
        All pages.
    arrow_type : pa.DataType
        The values' type.
    held : HeldBytes
        Counts what is held of them.
    name : str
        The dictionary's name there.

    Raises
    ------
    CorruptSegmentError
        If a page is damaged, or the values are no dictionary.
    LimitExceededError
        If they take more memory than a file of this size should.
    """
    if is_text(arrow_type) and len(run.records) >= _PAGES_MIN:
        return PagedValues(run, arrow_type, held, name)
    values = _decoded(run, arrow_type, held)
    least_bytes = 0 if is_text(arrow_type) else _NUMBER_BYTES * len(values)
    held.hold_values(name, max(values.nbytes, least_bytes))
    return values


class PagedValues:
    """The values of one dictionary, read and not yet decoded.

    Parameters
    ----------
    run, arrow_type, held, name
        As of `read_values`; there is a page.
    """

    def __init__(self, run: PageRun, arrow_type: pa.DataType, held: HeldBytes, name: str) -> None:
        self.type = arrow_type
        self._run, self._held, self._name = run, held, name
        self._starts = np.cumsum([0, *run.records["row_count"].tolist()])
        self._stored_bytes = int(run.records["stored_bytes"].sum())
        self._pages: dict[int, pa.Array] = {}
        if run.records["null_count"][1:].any():
            raise run.fail("holds a null other than the first value")
        self._count()

    def __len__(self) -> int:
        return self._run.row_count

    @property
    def has_null(self) -> bool:
        """Whether the first value is null."""
        return bool(self._run.records["null_count"][0])

    @property
    def nbytes(self) -> int:
        """Bytes held: of the pages as they are stored, and of those that are decoded."""
        decoded_bytes: int = sum(page.nbytes for page in tuple(self._pages.values()))
        return self._stored_bytes + decoded_bytes

    def all(self) -> pa.Array:
        """Decode all values; pages that were decoded before are no longer held."""
        self._pages = {}
        self._count()
        values = _decoded(self._run, self.type, self._held)
        self._held.hold_values(self._name, self._stored_bytes + values.nbytes)
        return values

    def take(self, ids: NDArray[Any]) -> pa.Array | None:
        """Return the values of `ids`, uint[n], in that order; None if all are better decoded."""
        page_of_each = np.searchsorted(self._starts, ids, side="right") - 1
        wanted = np.flatnonzero(np.bincount(page_of_each, minlength=1))
        needed = self._pages.keys() | set(wanted.tolist())
        if len(needed) > _PAGE_SHARE_MAX * len(self._run.records):
            return None
        if not len(wanted):
            return pa.nulls(0, self.type)
        order = np.argsort(page_of_each, kind="stable")
        places = (ids - self._starts[page_of_each])[order]
        ends = np.cumsum(np.bincount(page_of_each)[wanted])
        parts = np.split(places, ends[:-1])
        taken = [
            self._page(number).take(primitive_array(part))
            for number, part in zip(wanted.tolist(), parts, strict=True)
        ]
        return pa.concat_arrays(taken).take(primitive_array(np.argsort(order)))

    def id_of(self, value: TextValue) -> int | None:
        """Return the id of a text, None if it is not among the values."""
        later = range(1, len(self._run.records))
        number = bisect_right(later, value, key=lambda one: self._page(one)[0].as_py())
        place = place_of(value, self._page(number))
        return None if place is None else int(self._starts[number]) + place

    def _page(self, number: int) -> pa.Array:
        page = self._pages.get(number)
        if page is None:
            decoded = _decoded(self._run.part(number, number + 1), self.type, self._held)
            page = self._pages.setdefault(number, decoded)
            self._count()
        return page

    def _count(self) -> None:
        self._held.hold_values(self._name, self.nbytes)


def _decoded(run: PageRun, arrow_type: pa.DataType, held: HeldBytes) -> pa.Array:
    """Decode values and prove that they are in order, each once."""
    try:
        if is_fixed_width(arrow_type):
            values = decode_numbers(run, arrow_type).to_arrow()
        else:
            most = min(held.values_left + _SLACK_BYTES, _ARROW_BYTES_MAX)
            values = decode_opaque(run, arrow_type, most)
    except (pa.ArrowException, ValueError) as error:
        raise run.fail(f"not {type_name(arrow_type)}: {error}") from error
    if problem := order_problem(values):
        raise run.fail(problem)
    return values
