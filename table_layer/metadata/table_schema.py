"""A table's columns as users name them, or as segments do, and where a segment has each."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from projseg.memory.forks import cached_property
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.metadata.segment_entry import ColumnZone, SegmentEntry
from projseg.table_layer.metadata.stored_columns import Forms, StoredColumns
from projseg.table_layer.metadata.table_properties import TableProperties, schema_of_columns


class TableSchema(msgspec.Struct, frozen=True, dict=True):
    """Columns, and the names under which segments hold their values.

    `forms` has the stored names of each column, the oldest first, but for columns that are missing;
    if it is empty, each column is stored under its own name. `every` has all stored names that were
    ever given, and is empty if they are those of `columns`. `source_names` has differing names in
    the source of the rows.
    """

    columns: pa.Schema
    forms: Mapping[str, Forms] = msgspec.field(default_factory=dict)
    every: Forms = ()
    source_names: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.columns.names)

    def field(self, name: str) -> pa.Field:
        """Return a column's name and type."""
        return self.columns.field(name)

    def __iter__(self) -> Iterator[pa.Field]:
        return iter(self.columns)

    @cached_property
    def stored_types(self) -> dict[str, str]:
        """The type of each stored name that was ever given."""
        if self.every:
            return {form.name: form.type for form in self.every}
        return {field.name: type_name(field.type) for field in self.columns}

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """A hashable key: schemas of equal keys give a segment's values the same names."""
        columns = tuple((field.name, type_name(field.type)) for field in self.columns)
        return columns, tuple(self.forms.items())

    def stored_name(self, name: str, present: Container[str]) -> str | None:
        """Return the stored name of a column in a segment with the columns `present`, if any."""
        forms = self.forms.get(name)
        if forms is None:
            return name if name in present else None
        return next((form.name for form in reversed(forms) if form.name in present), None)

    def zones(self, entry: SegmentEntry) -> Mapping[str, ColumnZone]:
        """Return the zones of the columns that a segment has, by their names here."""
        known = entry.columns
        if not self.forms:
            if known.keys() <= self.stored_types.keys():
                return known
            return {name: zone for name, zone in known.items() if name in self.stored_types}
        found = ((name, self.stored_name(name, known)) for name in self.columns.names)
        return {name: known[stored] for name, stored in found if stored is not None}

    def zone(self, entry: SegmentEntry, name: str) -> ColumnZone | None:
        """Return the zone of one column; None if the segment does not have it."""
        stored = self.stored_name(name, entry.columns)
        return None if stored is None else entry.columns.get(stored)


def named_schema(properties: TableProperties) -> TableSchema:
    """Return a table's columns under the names that users know."""
    return _named(properties.columns, properties.stored_columns)


@lru_cache(maxsize=1024)
def _named(columns: Forms, stored: StoredColumns | UnsetType) -> TableSchema:
    schema = schema_of_columns(columns)
    if stored is UNSET:
        return TableSchema(schema)
    forms = zip(columns, stored.columns, strict=True)
    return TableSchema(schema, {column.name: names for column, names in forms}, stored.every)


def stored_schema(properties: TableProperties) -> TableSchema:
    """Return every column that a segment of the table may hold, under stored names.

    Columns that were dropped, and the narrower forms of others, are columns of their own. A
    narrower form has the values of those before it, as it had when it was the newest.
    """
    stored = properties.stored_columns
    if stored is UNSET:
        return named_schema(properties)
    forms = {
        form.name: names[: place + 1]
        for names in stored.columns
        for place, form in enumerate(names)
    }
    own_names: dict[str, str] = {}
    if properties.source is not UNSET:
        pairs = zip(properties.columns, stored.columns, strict=True)
        own_names = {form.name: column.name for column, names in pairs for form in names}
    return TableSchema(schema_of_columns(stored.every), forms, stored.every, own_names)


def in_stored_names(properties: TableProperties) -> TableProperties:
    """Return a table's declaration under stored names: what new segments are to hold."""
    stored = properties.stored_columns
    if stored is UNSET:
        return properties
    names = stored_by_name(properties)
    time = properties.time_column
    return replace(
        properties,
        columns=stored.newest,
        stored_columns=UNSET,
        time_column=None if time is None else names[time],
        cluster_by=tuple(names[name] for name in properties.cluster_by),
    )


def stored_by_name(properties: TableProperties) -> dict[str, str]:
    """Return the name under which new segments store each column."""
    stored = properties.stored_columns
    newest = properties.columns if stored is UNSET else stored.newest
    return {c.name: form.name for c, form in zip(properties.columns, newest, strict=True)}


def live_stored_names(properties: TableProperties) -> frozenset[str]:
    """Return every name under which segments may store a column that the table has."""
    stored = properties.stored_columns
    if stored is UNSET:
        return frozenset(column.name for column in properties.columns)
    return frozenset(form.name for forms in stored.columns for form in forms)
