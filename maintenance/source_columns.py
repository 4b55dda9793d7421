"""The columns of a table as its source has them now: followed by name, or by the ids of fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import parse_type_name, type_name
from projseg.segment_format.page_directory import may_widen
from projseg.table_layer.column_changes import ColumnChanges, projections_reading, with_changes
from projseg.table_layer.foreign.foreign_schema import (
    merged_schema,
    schema_of_file,
    stated_schema,
)
from projseg.table_layer.foreign.parquet_file import ParquetFooter
from projseg.table_layer.foreign.source_files import ListedFile, bad_source
from projseg.table_layer.foreign.source_list import SourceList
from projseg.table_layer.indexed_columns import indexes_reading
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration
from projseg.table_layer.metadata.table_properties import StoredSource, TableProperties
from projseg.table_layer.metadata.table_schema import stored_by_name

ReadFile: TypeAlias = tuple[ListedFile, ParquetFooter]
"""A file that a source lists, and its footer."""


def with_ids(properties: TableProperties, listed: SourceList) -> TableProperties:
    """Return a new declaration with the ids of its columns, where the source has such."""
    source, ids = properties.source, listed.field_ids
    assert source is not UNSET
    if ids is None:
        return properties
    by_key = {name_key(name): number for name, number in ids.items()}
    stored = stored_by_name(properties)
    found = {stored[column.name]: by_key[name_key(column.name)] for column in properties.columns}
    return replace(properties, source=_with_ids(source, found, listed))


def _with_ids(source: StoredSource, found: dict[str, int], listed: SourceList) -> StoredSource:
    mapping = listed.name_mapping
    mapped = UNSET if mapping is None else dict(mapping)
    return replace(source, field_ids=found, name_mapping=mapped)


def _followed_by_id(properties: TableProperties, listed: SourceList) -> TableProperties:
    """Return the declaration of a table over a source whose columns have ids.

    Columns that were asked for by name keep these names, whatever the source calls them later.
    """
    source = properties.source
    assert source is not UNSET
    assert source.field_ids is not UNSET
    assert listed.types is not None
    assert listed.field_ids is not None
    stated = stated_schema(listed.types, None)
    present = {listed.field_ids[name]: (name, one) for name, one in stated.types.items()}
    ids = {c: source.field_ids[form] for c, form in stored_by_name(properties).items()}
    for column in properties.columns:
        declared = parse_type_name(column.type)
        found = present.get(ids[column.name])
        if found is None or not _is_alike(found[1], declared):
            properties = _without(properties, column.name, column.type)
            del ids[column.name]
    if source.columns is None:
        names = {name: present[number][0] for name, number in ids.items()}
        properties = _renamed(properties, {a: b for a, b in names.items() if a != b})
        ids = {names[name]: number for name, number in ids.items()}
    for column in properties.columns:
        name, found_type = present[ids[column.name]]
        if may_widen(parse_type_name(column.type), found_type):
            if source.columns is not None:
                raise bad_source(
                    f"column '{name}' is {type_name(found_type)} by now, which {column.type}, as "
                    "columns= says, does not hold; attach the table anew with a wider type"
                )
            wide = ColumnDeclaration(column.name, type_name(found_type))
            properties = _widened(properties, wide)
    if source.columns is None:
        new = {n: one for n, one in present.items() if n not in ids.values()}
        add = tuple(ColumnDeclaration(name, type_name(one)) for name, one in new.values())
        properties = with_changes(properties, ColumnChanges(add=add))
        ids |= {name: number for number, (name, _) in new.items()}
        source = replace(source, left_out={**listed.left_out, **stated.left_out})
    found_ids = {form: ids[name] for name, form in stored_by_name(properties).items()}
    return replace(properties, source=_with_ids(source, found_ids, listed))


def _is_alike(found: pa.DataType, declared: pa.DataType) -> bool:
    return found == declared or may_widen(found, declared) or may_widen(declared, found)


def _renamed(properties: TableProperties, names: dict[str, str]) -> TableProperties:
    """Return a declaration with other names of columns, which may be exchanged."""
    taken = {name_key(column.name) for column in properties.columns}
    taken |= set(map(name_key, names.values()))
    between: dict[str, str] = {}
    for number, name in enumerate(names):
        free = f"column {number}"
        while name_key(free) in taken:
            free += "'"
        taken.add(name_key(free))
        between[name] = free
    steps = [*between.items(), *((between[name], new) for name, new in names.items())]
    return with_changes(properties, ColumnChanges(rename=tuple(steps)))


def _without(properties: TableProperties, name: str, kind: str) -> TableProperties:
    """Return a declaration without a column that the source has no more, nor what reads it."""
    if name == properties.time_column:
        raise bad_source(
            f"no file has the time column '{name}' any more as {kind}; attach a table with another "
            "time column"
        )
    properties = _without_readers(properties, name)
    return with_changes(properties, ColumnChanges(drop=(name,)))


def followed(
    properties: TableProperties,
    kept: Sequence[SegmentEntry],
    new: Sequence[ReadFile],
    listed: SourceList,
) -> TableProperties:
    """Return what a table declares once it follows a list: the union of the files' columns.

    Projections and indexes of a column that no file has any more in its type are not declared.
    """
    source = properties.source
    assert source is not UNSET
    source = replace(source, version=listed.version)
    properties = replace(properties, source=source)
    if listed.field_ids is not None:
        return _followed_by_id(properties, listed)
    if listed.types is not None:
        merged, kept = stated_schema(listed.types, source.columns), ()
    elif new or not kept:
        merged = merged_schema([schema_of_file(*one) for one in new], source.columns)
    else:
        return _without_gone(properties, kept, {})
    properties = _without_gone(properties, kept, merged.types)
    held = {name_key(column.name): column for column in properties.columns}
    add = []
    for name, arrow_type in merged.types.items():
        present = held.get(name_key(name))
        if present is None:
            add.append(ColumnDeclaration(name, type_name(arrow_type)))
            continue
        declared = parse_type_name(present.type)
        if arrow_type == declared or may_widen(arrow_type, declared):
            continue
        if not may_widen(declared, arrow_type):
            raise bad_source(
                f"column '{name}' is {type_name(arrow_type)} in {merged.example[name]}, and "
                f"{present.type} in files that were there before; write them with one type"
            )
        properties = _widened(properties, ColumnDeclaration(present.name, type_name(arrow_type)))
    left_out = {**source.left_out, **merged.left_out}
    left_out = {name: why for name, why in left_out.items() if name_key(name) not in held}
    changed = with_changes(properties, ColumnChanges(add=tuple(add)))
    return replace(changed, source=replace(source, left_out=left_out))


def _without_gone(
    properties: TableProperties, kept: Sequence[SegmentEntry], new: dict[str, pa.DataType]
) -> TableProperties:
    """Return a declaration without the columns that no file has, or none has in their type."""
    stored = properties.stored_columns
    forms = [(c,) for c in properties.columns] if stored is UNSET else stored.columns
    present = {name for entry in kept for name in entry.columns}
    types = {name_key(name): found for name, found in new.items()}
    for column, names in zip(properties.columns, forms, strict=True):
        found = types.get(name_key(column.name))
        declared = parse_type_name(column.type)
        fits = found is not None and _is_alike(found, declared)
        if fits or any(form.name in present for form in names):
            continue
        properties = _without(properties, column.name, column.type)
    return properties


def _widened(properties: TableProperties, column: ColumnDeclaration) -> TableProperties:
    """Return a declaration with a wider column, without what cannot read it."""
    change = ColumnChanges(widen=(column,))
    try:
        return with_changes(properties, change)
    except InvalidInputError as error:
        if error.code != "PROJSEG_COLUMN_IN_USE":
            raise
        return with_changes(_without_readers(properties, column.name), change)


def _without_readers(properties: TableProperties, name: str) -> TableProperties:
    """Return a declaration without projections and indexes that read a column."""
    reading = set(projections_reading(properties, [name]))
    projections = tuple(p for p in properties.projections if p.name not in reading)
    gone = set(indexes_reading(properties.declared_indexes, [name], properties))
    indexes = tuple(index for index in properties.declared_indexes if index.name not in gone)
    return replace(properties, projections=projections, indexes=indexes or UNSET)
