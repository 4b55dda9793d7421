"""Columns of files that are found by the ids of fields, whatever the files call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET

from projseg.table_layer.foreign.parquet_file import ParquetFooter
from projseg.table_layer.foreign.source_files import ListedFile, bad_source
from projseg.table_layer.metadata.table_properties import TableProperties

_ID: Final = b"PARQUET:field_id"


def has_field_ids(footer: ParquetFooter) -> bool:
    """Whether a file states ids of its columns."""
    return any(_ID in (field.metadata or {}) for field in footer.fields.values())


def with_names(
    file: ListedFile,
    footer: ParquetFooter,
    properties: TableProperties,
    mapping: Mapping[str, int] | None,
) -> ListedFile:
    """Return a file with its names of a table's columns, or as it is if columns have no ids.

    `mapping` has ids by names, for files that state none. A partition's value stands for a column
    that the file lacks. Raises InvalidInputError (PROJSEG_BAD_SOURCE) if the file has no ids and
    nothing maps its names, or has an id twice.
    """
    source = properties.source
    if source is UNSET or source.field_ids is UNSET:
        return file
    held = _columns_by_id(file, footer, mapping)
    values = dict(file.partition)
    names: list[tuple[str, str]] = []
    partition: list[tuple[str, str | None]] = []
    for stored, number in source.field_ids.items():
        if number in held:
            names.append((stored, held[number]))
        elif str(number) in values:
            partition.append((stored, values[str(number)]))
    return file._replace(names=tuple(sorted(names)), partition=tuple(sorted(partition)))


def _columns_by_id(
    file: ListedFile, footer: ParquetFooter, mapping: Mapping[str, int] | None
) -> dict[int, str]:
    states_ids = has_field_ids(footer)
    if not states_ids and mapping is None:
        raise bad_source(
            f"{file.path} has no ids of columns, and the table no schema.name-mapping.default; "
            "give it one, or write the file anew"
        )
    found: dict[int, str] = {}
    for field in footer.fields.values():
        stated = (field.metadata or {}).get(_ID)
        number = int(stated) if stated is not None else None
        if not states_ids and mapping is not None:
            number = _mapped(file, field.name, mapping)
        if number is None:
            continue
        if number in found:
            raise bad_source(
                f"{file.path} has columns '{found[number]}' and '{field.name}' of the one id "
                f"{number}; write it anew"
            )
        found[number] = field.name
    return found


def _mapped(file: ListedFile, name: str, mapping: Mapping[str, int]) -> int | None:
    number = mapping.get(name)
    if number is not None and number < 0:
        raise bad_source(
            f"schema.name-mapping.default gives '{name}' the ids of several columns, or none, and "
            f"{file.path} states none of its own; correct it, or write the file anew"
        )
    return number
