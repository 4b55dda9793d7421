"""The columns of a source: the union of its files' columns, each in the widest of their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import pyarrow as pa

from projseg.errors import ProjsegError
from projseg.segment_format.format_limits import name_key, name_problem
from projseg.segment_format.logical_types import normal_type, parse_type_name, type_name
from projseg.segment_format.page_directory import may_widen
from projseg.table_layer.foreign.parquet_file import ParquetFooter, ParquetRows, fits
from projseg.table_layer.foreign.source_files import ListedFile, bad_source
from projseg.table_layer.metadata.stored_columns import Forms
from projseg.table_layer.storage.store_location import StorageOptions


class FileColumns(msgspec.Struct, frozen=True):
    """The columns of one file in the types of tables, and why others are left out."""

    path: str
    types: dict[str, pa.DataType]
    left_out: dict[str, str]


class MergedSchema(msgspec.Struct, frozen=True):
    """The columns of several files, and why others are left out.

    `example` has a file for each column in which it has its type.
    """

    types: dict[str, pa.DataType]
    left_out: dict[str, str]
    example: dict[str, str]


def schema_of_file(file: ListedFile, footer: ParquetFooter) -> FileColumns:
    """Return the columns of a file by its footer."""
    types: dict[str, pa.DataType] = {}
    left_out: dict[str, str] = {}
    for field in footer.fields.values():
        problem = name_problem(field.name)
        if problem is not None:
            left_out[field.name] = f"its name {problem}"
        elif pa.types.is_uint64(field.type):
            left_out[field.name] = "unsigned numbers of 64 bits have no type here"
        else:
            try:
                types[field.name] = normal_type(field.type)
                type_name(types[field.name])
            except ProjsegError as error:
                types.pop(field.name, None)
                left_out[field.name] = error.message
    return FileColumns(file.path, types, left_out)


def merged_schema(several: Sequence[FileColumns], wanted: Forms | None) -> MergedSchema:
    """Return the union of columns by name, or those that are wanted, in their types.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if two files have a column in types of which none
    holds the other, or a wanted column is in no file and no path, or in a type that its own does
    not hold.
    """
    merged = MergedSchema({}, {}, {})
    names: dict[str, str] = {}
    for one in several:
        for name, arrow_type in one.types.items():
            _merge(merged, names.setdefault(name_key(name), name), arrow_type, one.path)
        merged.left_out.update(one.left_out)
    for name, arrow_type in list(merged.types.items()):
        if arrow_type == pa.null():
            del merged.types[name]
            merged.left_out[name] = "it is null in all files, and of no type"
    for name in [name for name in merged.left_out if name in merged.types]:
        raise bad_source(
            f"column '{name}' has a type in {merged.example[name]} that it has not in other files: "
            f"{merged.left_out[name]}"
        )
    return merged if wanted is None else _only(merged, names, wanted)


def require_columns(
    wanted: Forms,
    files: Sequence[tuple[ListedFile, ParquetFooter]],
    stated: Mapping[str, pa.DataType],
) -> None:
    """Refuse a wanted column that no file, no path and no list has: PROJSEG_BAD_SOURCE."""
    present = {name_key(name) for name in stated}
    for file, footer in files:
        present |= {*footer.fields, *(name_key(name) for name, _ in file.partition)}
    for column in wanted:
        if name_key(column.name) not in present:
            raise bad_source(
                f"no file has a column '{column.name}', which columns= names; leave it out"
            )


def stated_schema(stated: Mapping[str, pa.DataType], wanted: Forms | None) -> MergedSchema:
    """Return the columns that a source states, or those that are wanted, in their types."""
    types: dict[str, pa.DataType] = {}
    left_out: dict[str, str] = {}
    for name, arrow_type in stated.items():
        try:
            types[name] = normal_type(arrow_type)
        except ProjsegError as error:
            left_out[name] = error.message
    merged = MergedSchema(types, left_out, dict.fromkeys(types, "the source"))
    return merged if wanted is None else _only(merged, {name_key(n): n for n in types}, wanted)


def _merge(merged: MergedSchema, name: str, arrow_type: pa.DataType, path: str) -> None:
    known = merged.types.get(name)
    if known is None or known == pa.null() or may_widen(known, arrow_type):
        merged.types[name], merged.example[name] = arrow_type, path
    elif arrow_type not in (known, pa.null()) and not may_widen(arrow_type, known):
        raise bad_source(
            f"column '{name}' is {type_name(arrow_type)} in {path} and {type_name(known)} in "
            f"{merged.example[name]}, and neither holds the other; write them with one type, or "
            "choose the files by the pattern"
        )


def _only(merged: MergedSchema, names: dict[str, str], wanted: Forms) -> MergedSchema:
    types: dict[str, pa.DataType] = {}
    for column in wanted:
        declared = parse_type_name(column.type)
        own = names.get(name_key(column.name))
        found = None if own is None else merged.types.get(own)
        if found is not None and not fits(found, declared):
            raise bad_source(
                f"column '{column.name}' is {type_name(found)} in {merged.example[own or '']}, "
                f"which is not held by {column.type}, as columns= says; name a wider type"
            )
        types[column.name] = declared
    return MergedSchema(types, {}, merged.example)


def too_fine(
    files: Sequence[tuple[ListedFile, ParquetFooter]], options: StorageOptions
) -> dict[str, str]:
    """Return columns of nanoseconds with a value that is no whole microsecond, and why."""
    found: dict[str, str] = {}
    for file, footer in files:
        for field in footer.fields.values():
            is_fine = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
            if not is_fine or field.name in found:
                continue
            rows = ParquetRows(file, footer, (0, len(footer.row_counts)), options)
            read = partial(rows.vector, field.name, normal_type(field.type))
            try:
                for group in range(len(footer.row_counts)):
                    read(group, group + 1)
            except ProjsegError as error:
                if error.code != "PROJSEG_BAD_SOURCE":
                    raise
                found[field.name] = "some of its nanoseconds are no whole microseconds"
    return found
