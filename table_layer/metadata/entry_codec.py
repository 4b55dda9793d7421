"""Segment entries as few bytes to travel, and checked against themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import zstandard

from projseg.errors import InvalidInputError, LimitExceededError
from projseg.segment_format.format_limits import (
    DELETED_ROWS_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_ROWS_MAX,
    VECTOR_BYTES_MAX,
)
from projseg.table_layer.metadata.metadata_limits import METADATA_BYTES_MAX
from projseg.table_layer.metadata.segment_entry import Bound, ColumnZone, SegmentEntry
from projseg.table_layer.storage.paths import parse_vector_name

LOGGER: Final = logging.getLogger("projseg.table")

_ENTRIES: Final = msgspec.json.Decoder(list[SegmentEntry])


def packed(entries: Sequence[SegmentEntry]) -> bytes:
    """Return entries as zstandard over JSON.

    Raises
    ------
    LimitExceededError
        If `unpacked` would not take them.
    """
    text = msgspec.json.encode(list(entries))
    if len(text) > METADATA_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_METADATA_TOO_LARGE",
            f"a task has {len(entries)} segments, {len(text)} bytes to list and at most "
            f"{METADATA_BYTES_MAX} are read; write with more tasks or larger segments",
        )
    return zstandard.compress(text)


def unpacked(entries: bytes) -> list[SegmentEntry]:
    """Return entries, checked as far as their types go.

    Raises
    ------
    LimitExceededError
        Before memory is taken for more than `METADATA_BYTES_MAX`.
    InvalidInputError
        PROJSEG_BAD_COMMIT_ENTRY if these are not bytes of `packed`.
    """
    try:
        # zstandard allocates what the frame declares; one that declares nothing says 2**64 - 1.
        declared = zstandard.get_frame_parameters(entries).content_size
        if declared > METADATA_BYTES_MAX:
            raise LimitExceededError(
                "PROJSEG_METADATA_TOO_LARGE",
                f"a task's commit message declares {declared} bytes; at most "
                f"{METADATA_BYTES_MAX} are read: write again",
            )
        return _ENTRIES.decode(zstandard.decompress(entries))
    except (zstandard.ZstdError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_COMMIT_ENTRY",
            f"a task's commit message cannot be read: {error}; write again, with one release "
            "of projseg on all executors",
        ) from error


def warn_of_releases(releases: Iterable[str]) -> None:
    """Say so if several releases wrote."""
    if len(set(releases)) > 1:
        LOGGER.warning("executors run different releases of projseg; install one everywhere")


# Check a segment entry against itself, when it is listed and when it is read.
#
# Planning computes with these numbers (rows less nulls, shares of a time range), so they have to
# fit each other before anything is planned.


def entry_problem(entry: SegmentEntry) -> str | None:
    """Return why an entry contradicts itself or the limits of segments, or None if it does not."""
    if entry.row_count > SEGMENT_ROWS_MAX or entry.byte_count > SEGMENT_BYTES_MAX:
        return (
            f"states {entry.row_count} rows and {entry.byte_count} bytes, more than a segment has"
        )
    problem = _time_problem(entry) or _vector_problem(entry)
    if problem is not None:
        return problem
    for name, zone in entry.columns.items():
        if (problem := _zone_problem(zone, entry.row_count)) is not None:
            return f"states of column '{name}' {problem}"
    names = [projection.name for projection in entry.projections]
    if len(set(names)) != len(names):
        return "embeds two projections of one name"
    if any(projection.row_count > entry.row_count for projection in entry.projections):
        return "embeds a projection of more rows than it has itself"
    return None


def _vector_problem(entry: SegmentEntry) -> str | None:
    vector = entry.deletion_vector
    if vector is None:
        return None
    if parse_vector_name(vector.file) is None:
        return f"names {vector.file[:200]!r}, which is no name of a deletion vector"
    if not 0 < vector.row_count < entry.row_count:
        return f"has {vector.row_count} deleted rows of {entry.row_count}"
    if vector.row_count > DELETED_ROWS_MAX or vector.byte_count > VECTOR_BYTES_MAX:
        return f"has a deletion vector of {vector.row_count} rows and {vector.byte_count} bytes"
    return None


def _time_problem(entry: SegmentEntry) -> str | None:
    smallest, largest, interval = entry.min_time_us, entry.max_time_us, entry.interval
    if interval is not None and interval[0] >= interval[1]:
        return "has an interval that ends before it starts"
    if smallest is None and largest is None:
        return None
    if smallest is None or largest is None:
        return "states one end of its time range only"
    start, end = interval or (smallest, largest + 1)
    return None if start <= smallest <= largest < end else "has times outside its interval"


def _zone_problem(zone: ColumnZone, row_count: int) -> str | None:
    if zone.null_count > row_count:
        return f"{zone.null_count} nulls in {row_count} rows"
    if _is_above(zone.min, zone.max):
        return f"the minimum {zone.min!r} above the maximum {zone.max!r}"
    return None


def _is_above(low: Bound, high: Bound) -> bool:
    if isinstance(low, str):
        return isinstance(high, str) and low > high
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high
