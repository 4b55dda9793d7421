"""The view of columns: their values, how these are stored, and what reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from projseg.algebra.expressions.tree import Expression
from projseg.doors.plain_values import plain_value
from projseg.errors import ProjsegError
from projseg.memory.deadline import check_deadline
from projseg.page.table_view import decoded, store_of_views
from projseg.segment_format.file.description import SegmentDescription, describe
from projseg.segment_format.logical_types import parse_type_name
from projseg.table.table_version import TableVersion
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.metadata.column_bounds import bound_decoder
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema, named_schema, stored_schema
from projseg.table_layer.metadata_tables import METADATA_TABLES
from projseg.table_layer.renamed_columns import named_spec

_SAMPLED_MAX: Final = 8


class ColumnsRecord(msgspec.Struct):
    """The columns of a table, as in `Table.columns` with what segments say of them.

    Files of `sampled` segments were read for encodings (pages by encoding), dictionary_entries and
    dictionary_bytes (of the largest). Besides, columns have stored_names, min, max, exact (whether
    both are values of the column) and read_by.
    """

    name: str
    version: int
    rows: int
    segments: int
    sampled: int
    columns: list[dict[str, Any]]


def columns_record(name: str, version: TableVersion) -> ColumnsRecord:
    """Return a version's columns, and what reads each."""
    snapshot = version.snapshot
    entries, schema = decoded(snapshot.segments), named_schema(snapshot.properties)
    readers, visible = _readers(version, schema), set(version.schema.names)
    looked_at = list(_sampled(version, entries))
    return ColumnsRecord(
        name,
        version.version,
        snapshot.row_count,
        len(entries),
        len(looked_at),
        [
            {
                **row,
                "stored_names": [form.name for form in schema.forms.get(row["column"], ())]
                or [row["column"]],
                **_bounds(schema, entries, row["column"]),
                "read_by": readers.get(row["column"], []),
                **_stored(schema, looked_at, row["column"]),
            }
            for row in version.columns().to_pylist()
            if row["column"] in visible
        ],
    )


def describe_segment(version: TableVersion, entry: SegmentEntry) -> SegmentDescription:
    """Return what is in the file of a segment.

    Raises ProjsegError or OSError if it is missing, damaged or another file.
    """
    schema = stored_schema(version.snapshot.properties)
    return describe(open_checked(version.snapshot.storage, entry, schema))


def _sampled(
    version: TableVersion, entries: Iterable[SegmentEntry]
) -> Iterator[SegmentDescription]:
    """Yield what is in some segments that are spread over all; unreadable ones are left out."""
    there = [entry for entry in entries if entry.has_file]
    step = max(-(-len(there) // _SAMPLED_MAX), 1)
    for entry in there[::step]:
        check_deadline()
        with suppress(ProjsegError, OSError):
            yield describe_segment(version, entry)


def _bounds(schema: TableSchema, entries: Iterable[SegmentEntry], name: str) -> dict[str, Any]:
    """Return the least and the greatest value; None if there is none, or one is not known."""
    lows, highs, is_exact = [], [], True
    for entry in entries:
        stored = schema.stored_name(name, entry.columns)
        zone = None if stored is None else entry.columns[stored]
        if stored is None or zone is None or zone.null_count == entry.row_count:
            continue
        decode = bound_decoder(parse_type_name(schema.stored_types[stored]))
        lows.append(decode(zone.min))
        highs.append(decode(zone.max))
        is_exact = is_exact and zone.exact
    try:
        low, high = min(lows), max(highs)  # type: ignore[type-var]
    except (TypeError, ValueError):
        return {"min": None, "max": None, "exact": False}
    return {"min": plain_value(low), "max": plain_value(high), "exact": is_exact}


def _stored(
    schema: TableSchema, segments: Iterable[SegmentDescription], name: str
) -> dict[str, Any]:
    """Return how a column is stored in segments."""
    encodings: Counter[str] = Counter()
    values = sizes = 0
    for segment in segments:
        columns = {one.name: one for one in segment.tables[0].columns}
        column = columns.get(schema.stored_name(name, columns) or "")
        if column is None:
            continue
        encodings.update(column.pages.encodings)
        for one in segment.dictionaries:
            if one.name == column.dictionary:
                values, sizes = max(values, one.cardinality), max(sizes, one.byte_count)
    return {
        "encodings": dict(encodings.most_common()),
        "dictionary_entries": values or None,
        "dictionary_bytes": sizes or None,
    }


def _readers(version: TableVersion, schema: TableSchema) -> Mapping[str, list[str]]:
    """Return the projections, indexes and views that read each column."""
    properties = version.snapshot.properties
    found: dict[str, list[str]] = {}

    def note(reader: str, columns: Iterable[str]) -> None:
        for column in dict.fromkeys(columns):
            found.setdefault(column, []).append(reader)

    for declared in properties.projections:
        spec = named_spec(declared.name, declared.definition, properties)
        if not isinstance(spec, str):
            parts = [*(one.expression for one in spec.grouping), *spec.order, spec.filter]
            for call in spec.aggregators:
                parts += [*call.arguments, call.filter]
            note(f"projection {declared.name}", _columns_of(parts))
    for row in METADATA_TABLES["indexes"].rows(version.snapshot).to_pylist():
        note(f"index {row['name']}", [row["column"]])
    store = store_of_views(version)
    names = {form.name: name for name, forms in schema.forms.items() for form in forms}
    for view in () if store is None else store.views.values():
        stored = (*view.group_columns, *view.state_columns)
        note(f"view {view.name}", (names.get(one, one) for one in stored))
    return found


def _columns_of(expressions: Iterable[Expression | None]) -> Iterator[str]:
    for one in expressions:
        if one is not None:
            yield from one.columns
