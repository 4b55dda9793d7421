"""Find a source's matching rows: page zones first, then bitmaps, then the values themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import Expression
from projseg.algebra.time.interval import Interval
from projseg.errors import CorruptionError, LimitExceededError
from projseg.evaluation.by_postings import truth_by_postings
from projseg.evaluation.masks import allowed_ids, mask_by_all, value_range
from projseg.evaluation.rows import MaskedRows, RowIds, RowRange, Rows
from projseg.reader.segment_source import SegmentSource
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.column_view import ColumnView
from projseg.segment_format.file.postings import StoredPostings, column_postings
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.logical_types import MICROS_A_DAY, arrow_to_numbers, is_text
from projseg.segment_format.vectors import Ids, Numbers

LOGGER: Final = logging.getLogger("projseg.table")

# Row ids from a bitmap pay while they are at most this share of the rows.
_BITMAP_SHARE_MAX: Final = 0.05

Pages = NDArray[np.bool_]


def select_rows(
    source: SegmentSource,
    row_range: RowRange,
    *,
    condition: Expression | None,
    interval: Interval | None,
    time_column: str | None,
    uses_postings: bool = False,
    narrowed: Callable[[Rows], Rows] | None = None,
) -> MaskedRows:
    """Return the rows of `row_range` that lie in `interval` and for which `condition` is true.

    Deleted rows are left out before conditions are evaluated, which might raise an error on them.
    Pages whose zone maps prove that no row matches are never decoded. `narrowed` returns which of
    some rows may be wanted: others are left out, also before conditions are evaluated.
    """
    if condition is None and interval is None:
        rows = Rows(source, row_range)
        return source.live(rows if narrowed is None else narrowed(rows))
    parts = () if condition is None else conjuncts(condition)
    pages = _every_page(source)
    if interval is not None and time_column is not None:
        pages &= _pages_in_interval(source, time_column, interval)
    residual = []
    row_ids: NDArray[np.uint32] | None = None
    for part in parts:
        if uses_postings:
            _search_postings(source, part)
        found = _rows_by_bitmap(source, part)
        if found is None:
            pages &= _pages_that_may_match(source, part)
            residual.append(part)
        else:
            row_ids = found if row_ids is None else np.intersect1d(row_ids, found)
    rows = _initial_rows(source, row_range, pages, row_ids)
    if interval is not None and time_column is not None:
        is_sorted = source.is_sorted_by(time_column)
        rows = rows_in_interval(rows, time_column, interval, is_sorted=is_sorted)
    if narrowed is not None:
        rows = narrowed(rows)
    return mask_by_all(source.live(rows), residual)


def _search_postings(source: SegmentSource, condition: Expression) -> None:
    """Find the values for which a condition is true by postings; the dictionary remembers them."""
    found = _postings_of(source, condition)
    if found is not None:
        name, dictionary, postings = found
        search = partial(truth_by_postings, name=name, dictionary=dictionary, postings=postings)
        allowed_ids([condition], name, dictionary, search)


def postings_used(source: SegmentSource, condition: Expression) -> set[str]:
    """Return the definition hashes of the postings that name values of a source's columns."""
    used: set[str] = set()
    for part in conjuncts(condition):
        found = _postings_of(source, part)
        if found is None:
            continue
        name, dictionary, postings = found
        alone = [one for one in postings if _is_named(part, name, dictionary, (one,))]
        if not alone and _is_named(part, name, dictionary, postings):
            alone = list(postings)
        used.update(one.definition.definition_hash for one in alone)
    return used


def _is_named(
    condition: Expression,
    name: str,
    dictionary: Dictionary,
    postings: tuple[StoredPostings, ...],
) -> bool:
    try:
        return truth_by_postings(condition, name, dictionary, postings) is not None
    except (ArithmeticError, TextsTooLargeError):
        return False


def _postings_of(
    source: SegmentSource, condition: Expression
) -> tuple[str, Dictionary, tuple[StoredPostings, ...]] | None:
    """Return a condition's column, its dictionary and postings; None if it has none."""
    if len(condition.columns) != 1:
        return None
    (name,) = condition.columns
    dictionary, segment = source.dictionary(name), source.segment
    if dictionary is None or not is_text(dictionary.type):
        return None
    assert isinstance(segment, SegmentFile | ColumnView), "no other has a dictionary"
    try:
        role: Role = "base" if source.table_name == BASE_TABLE else "grouping"
        postings = column_postings(segment, source.table_name, role, name)
    except (CorruptionError, LimitExceededError) as error:
        LOGGER.warning("a query goes on without postings: %s", error)
        return None
    return (name, dictionary, postings) if postings else None


def deleted_rows_of(
    source: SegmentSource,
    row_ids: NDArray[np.uint32],
    *,
    condition: Expression | None,
    interval: Interval | None,
    time_column: str | None,
) -> MaskedRows:
    """Return those of a source's deleted rows, uint32[k], that a query would have asked for."""
    rows = Rows(source, RowIds(row_ids))
    if interval is not None and time_column is not None:
        rows = rows_in_interval(rows, time_column, interval)
    return mask_by_all(MaskedRows(rows), conjuncts(condition))


def _initial_rows(
    source: SegmentSource, row_range: RowRange, pages: Pages, row_ids: NDArray[np.uint32] | None
) -> Rows:
    if row_ids is not None:
        inside = (row_ids >= row_range.start) & (row_ids < row_range.end)
        inside &= pages[row_ids // PAGE_ROWS_MAX]
        return Rows(source, RowIds(row_ids[inside]))
    page_ids = np.arange(row_range.start // PAGE_ROWS_MAX, -(-row_range.end // PAGE_ROWS_MAX))
    kept = page_ids[pages[page_ids]]
    if len(kept) == 0:
        return Rows(source, RowRange(row_range.start, row_range.start))
    starts = np.maximum(kept * PAGE_ROWS_MAX, row_range.start)
    ends = np.minimum((kept + 1) * PAGE_ROWS_MAX, row_range.end)
    if len(kept) == kept[-1] - kept[0] + 1:
        return Rows(source, RowRange(int(starts[0]), int(ends[-1])))
    runs = [np.arange(a, b, dtype=np.uint32) for a, b in zip(starts, ends, strict=True)]
    return Rows(source, RowIds(np.concatenate(runs)))


def _pages_in_interval(source: SegmentSource, time_column: str, interval: Interval) -> Pages:
    zones = source.zones(time_column)
    if zones is None:
        return _every_page(source)
    low, high = zones.minimum, zones.maximum
    dictionary = source.dictionary(time_column)
    if dictionary is not None:
        times = _times_by_id(dictionary)
        low, high = times[low], times[high]
    elif time_column in source.schema.names and pa.types.is_date32(
        source.schema.field(time_column).type  # a projection's buckets are timestamps
    ):
        low, high = low * MICROS_A_DAY, high * MICROS_A_DAY
    may_match: Pages = (high >= interval.start_us) & (low < interval.end_us) & zones.has_bounds
    return may_match


def rows_in_interval(
    rows: Rows, time_column: str, interval: Interval, *, is_sorted: bool = False
) -> Rows:
    """Return the rows whose time lies in an interval; a null does not.

    With `is_sorted` the source's rows ascend by time, nulls first.
    """
    if len(rows) == 0:
        return rows
    vector = rows.vector(time_column)
    values: NDArray[Any]
    if isinstance(vector, Ids):
        times = _times_by_id(vector.dictionary)
        low, high = np.searchsorted(times, (interval.start_us, interval.end_us)).tolist()
        values, validity = vector.ids, None
    else:
        assert isinstance(vector, Numbers)
        unit = MICROS_A_DAY if pa.types.is_date32(vector.type) else 1
        low = -(-interval.start_us // unit) - vector.base
        high = -(-interval.end_us // unit) - vector.base
        values, validity = vector.values, vector.validity
    if is_sorted and validity is None and isinstance(rows.selection, RowRange):
        return rows.slice(_first_at_least(values, low), _first_at_least(values, high))
    inside = np.ones(len(rows), np.bool_) if validity is None else validity.copy()
    bounds = np.iinfo(values.dtype)
    if low > bounds.min:
        inside &= values >= low if low <= bounds.max else False
    if high <= bounds.max:
        inside &= values < high if high > bounds.min else False
    return rows.where(inside)


def _first_at_least(values: NDArray[Any], bound: int) -> int:
    """Return the place of the first of ascending integers that is no less, else their number."""
    bounds = np.iinfo(values.dtype)
    if bound <= bounds.min:
        return 0
    if bound > bounds.max:
        return len(values)
    return int(np.searchsorted(values, values.dtype.type(bound)))


def _times_by_id(dictionary: Dictionary) -> NDArray[np.int64]:
    """Return the instants of a time column's dictionary, int64[ids] in microseconds.

    A null is earlier than any interval. They are computed once and kept with the dictionary.
    """

    def compute() -> NDArray[np.int64]:
        values, validity = arrow_to_numbers(dictionary.values)
        micros = values * MICROS_A_DAY if pa.types.is_date32(dictionary.type) else values
        return micros if validity is None else np.where(validity, micros, np.iinfo(np.int64).min)

    return dictionary.memo(("times by id",), compute, lambda micros: micros.nbytes)


def _every_page(source: SegmentSource) -> Pages:
    return np.ones(source.page_count, np.bool_)


def _pages_that_may_match(source: SegmentSource, condition: Expression) -> Pages:
    if len(condition.columns) != 1 or source.page_count <= 1:
        return _every_page(source)
    (name,) = condition.columns
    zones = source.zones(name)
    if zones is None:
        return _every_page(source)
    allowed = _allowed_ids(source, name, condition)
    if allowed is not None:
        kept = np.flatnonzero(allowed)
        first = np.searchsorted(kept, zones.minimum, side="left")
        may_match: Pages = np.searchsorted(kept, zones.maximum, side="right") > first
        return may_match
    number_range = value_range(condition)
    if number_range is None or source.is_opaque(name):
        return _every_page(source)
    may_match = number_range.may_match(zones.minimum, zones.maximum) & zones.has_bounds
    may_match |= zones.holds_wide()
    # NaN is greater than every number, so only an upper bound excludes it.
    return may_match | zones.has_nan if number_range.high is None else may_match


def _allowed_ids(
    source: SegmentSource, name: str, condition: Expression
) -> NDArray[np.bool_] | None:
    """Return which dictionary ids satisfy a condition on one column; None without dictionary."""
    dictionary = source.dictionary(name)
    return None if dictionary is None else allowed_ids([condition], name, dictionary)


def _rows_by_bitmap(source: SegmentSource, condition: Expression) -> NDArray[np.uint32] | None:
    if len(condition.columns) != 1:
        return None
    (name,) = condition.columns
    # Comparing ids in memory is faster than reading bitmaps; of a source that is read in batches
    # all row ids would be found anew for each.
    if source.is_cached(name) or not source.is_whole(name):
        return None
    index = source.bitmap_index(name)
    if index is None:
        return None
    allowed = _allowed_ids(source, name, condition)
    if allowed is None:
        return None
    ids = np.flatnonzero(allowed)
    if index.count(ids) > source.row_count * _BITMAP_SHARE_MAX:
        return None
    return index.row_ids(ids)
