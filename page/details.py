"""The views of a table's parts: projections, segments, and versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from projseg.algebra.time.interval import Interval
from projseg.doors.plain_values import plain_mapping
from projseg.errors import InvalidInputError
from projseg.page.columns_view import describe_segment
from projseg.page.queries_view import Use, use_of_sources
from projseg.page.table_view import decoded
from projseg.table.table_version import TableVersion
from projseg.table_layer.metadata.known_properties import scope_of
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata_tables import METADATA_TABLES, segment_label, segment_rows

_PAGE: Final = 100
_PLAIN: Final = re.compile(r"\w+")
_SINCE: Final = "30 days"  # of the log, for the use of projections
_SORTS: Final[Mapping[str, Callable[[SegmentEntry], Any]]] = {
    "time": lambda one: (one.min_time_us is None, one.min_time_us or 0, one.file),
    "rows": lambda one: (-one.live_row_count, one.file),
    "bytes": lambda one: (-one.byte_count, one.file),
    "deleted": lambda one: (-one.deleted_row_count, one.file),
}


class ProjectionsRecord(msgspec.Struct):
    """What is stored beside the base rows, with the names of `Table`'s facts.

    These are `projection_stats` with each definition, `indexes` and `views`.
    """

    name: str
    version: int
    rows: int
    bytes: int
    projections: list[dict[str, Any]]
    indexes: list[dict[str, Any]]
    views: list[dict[str, Any]]


class SegmentsRecord(msgspec.Struct, rename={"from_": "from"}):
    """The segments of a window, one part of them, and the sums of all.

    `sort` is time, rows, bytes or deleted; pages begin with 1; segments are as in `Table.segments`.
    """

    name: str
    version: int
    from_: str | None
    to: str | None
    sort: str
    page: int
    pages: int
    count: int
    rows: int
    bytes: int
    deleted_rows: int
    segments: list[dict[str, Any]]


class SegmentRecord(msgspec.Struct):
    """One segment, as `projseg inspect` shows it."""

    name: str
    version: int
    segment: dict[str, Any]
    tables: list[dict[str, Any]]
    columns: list[dict[str, Any]]


class HistoryRecord(msgspec.Struct):
    """The versions that are kept, newest first, and the tags."""

    name: str
    version: int
    versions: list[dict[str, Any]]
    tags: dict[str, int]


def projections_record(
    name: str, version: TableVersion, log: str | None = None
) -> ProjectionsRecord:
    """Return a version's projections, indexes and views, and their use by the queries of a log."""
    snapshot, properties = version.snapshot, version.properties.properties
    uses = {} if log is None else use_of_sources(version.properties.table_id, log, _SINCE)

    def use(source: str) -> dict[str, Any]:
        found = uses.get(source, Use())
        return {
            "queries": None if log is None else found.queries,
            "last_used": found.last,
            "rejections": dict(found.rejections.most_common()),
        }

    decoded(snapshot.segments)
    definitions = {row["name"]: row for row in version.projections().to_pylist()}
    projections = [
        {
            **plain_mapping(row),
            **use(row["projection"]),
            "definition": definition_text(definitions[row["projection"]]),
            "scope": _scope(properties, row["projection"]),
            "share_of_rows": row["rows"] / row["base_rows"] if row["base_rows"] else None,
            "share_of_bytes": row["bytes"] / snapshot.data_bytes if snapshot.data_bytes else 0,
        }
        for row in version.projection_stats().to_pylist()
    ]
    return ProjectionsRecord(
        name,
        version.version,
        snapshot.row_count,
        snapshot.data_bytes,
        projections,
        [
            plain_mapping(row) | use(f"index:{row['name']}")
            for row in METADATA_TABLES["indexes"].rows(version.snapshot).to_pylist()
        ],
        [
            plain_mapping(row) | use(f"view:{row['name']}")
            for row in version.views().to_pylist(maps_as_pydicts="lossy")
        ],
    )


def _scope(properties: Mapping[str, str], projection: str) -> dict[str, str]:
    """Return which segments a projection is built in, by the last words of the properties."""
    stated = scope_of(properties, projection).to_properties(projection)
    return {key.rpartition(".")[2]: value for key, value in stated.items()}


def definition_text(row: Mapping[str, Any]) -> str:
    """Return a projection's definition as a SELECT."""
    keys = row["group_by"] or ()
    outputs = [*keys, *(row["aggregators"] or ()), *(row["columns"] or ())]
    parts = [_output_text(*one.rpartition(" AS ")[::2]) for one in outputs]
    text = f"SELECT {', '.join(parts)}"
    if row["filter"]:
        text += f" WHERE {row['filter']}"
    if keys:
        text += " GROUP BY ALL"
    if row["order_by"]:
        text += f" ORDER BY {', '.join(map(str, row['order_by']))}"
    return text


def _output_text(expression: str, name: str) -> str:
    """Return an output of a SELECT; a name that its expression gives it is left out."""
    is_plain = _PLAIN.fullmatch(name) is not None
    return f"{expression} AS {name}" if is_plain and name != expression else expression


def segments_record(
    name: str,
    version: TableVersion,
    window: Interval | None,
    sort: str,
    page: int,
    asked: tuple[str | None, str | None],
) -> SegmentsRecord:
    """Return the segments with rows in a window."""
    if sort not in _SORTS:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"sort is {sort!r}; give one of {', '.join(_SORTS)}"
        )
    snapshot = version.snapshot
    if window is None:
        entries = decoded(snapshot.segments)
    else:
        entries = snapshot.segments_between(window.start_us, window.end_us)
    entries.sort(key=_SORTS[sort])
    pages = max(-(-len(entries) // _PAGE), 1)
    page = min(max(page, 1), pages)
    return SegmentsRecord(
        name,
        version.version,
        *asked,
        sort,
        page,
        pages,
        len(entries),
        sum(one.live_row_count for one in entries),
        sum(one.byte_count for one in entries),
        sum(one.deleted_row_count for one in entries),
        _rows_of(entries[(page - 1) * _PAGE : page * _PAGE]),
    )


def _rows_of(entries: Sequence[SegmentEntry]) -> list[dict[str, Any]]:
    rows = segment_rows(entries).to_pylist(maps_as_pydicts="lossy")
    return [plain_mapping(row) for row in rows]


def segment_record(name: str, version: TableVersion, file: str) -> SegmentRecord:
    """Return what is in a segment of a version; PROJSEG_UNKNOWN_VERSION if it lists none such."""
    entries = decoded(version.snapshot.segments)
    entry = next((one for one in entries if segment_label(one) == file), None)
    if entry is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VERSION",
            f"version {version.version} lists no segment {file!r}; look it up among its segments",
        )
    (row,) = _rows_of([entry])
    if not entry.has_file:
        return SegmentRecord(name, version.version, row, [], [])
    described = describe_segment(version, entry)
    visible = set(version.schema.names)
    columns = [
        {
            "table": "base rows" if table is described.tables[0] else table.name,
            "role": one.role,
            "column": one.name,
            "type": one.type,
            "dictionary": one.dictionary,
            "encodings": one.pages.encodings,
            "pages": one.pages.page_count,
            "nulls": one.null_count,
            "bytes": one.pages.stored_bytes,
            "bitmap_bytes": one.bitmap_bytes,
        }
        for table in described.tables
        for one in table.columns
        if table is not described.tables[0] or one.name in visible
    ]
    tables = [
        {
            "table": "base rows" if table is described.tables[0] else table.name,
            "rows": table.row_count,
            "bytes": table.byte_count,
        }
        for table in described.tables
    ]
    return SegmentRecord(name, version.version, row, tables, columns)


def history_record(name: str, version: TableVersion) -> HistoryRecord:
    """Return the versions that are kept, with what each did to rows and bytes."""
    rows = version.history().to_pylist(maps_as_pydicts="lossy")
    for row, before in zip(rows, [*rows[1:], None], strict=True):
        row["rows_change"] = None if before is None else row["rows"] - before["rows"]
        row["bytes_change"] = None if before is None else row["bytes"] - before["bytes"]
    return HistoryRecord(
        name, version.version, [plain_mapping(row) for row in rows], dict(version.snapshot.tags)
    )
