"""Rows in whatever form a caller has them, as Arrow batches.

pandas and polars are not imported: their frames are recognised by their attributes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import normal_type_of, type_name

RowsLike: TypeAlias = Any
"""A pa.Table, RecordBatch, RecordBatchReader or another object with `__arrow_c_stream__` (polars,
DuckDB), a pandas frame, a mapping of column names to values, or an iterable of batches or of
mappings from column names to a row's values."""

_NUMPY_FLOATS: Final = ("float64", "float32")
_ROWS_A_BATCH: Final = 1 << 16
_FORMS: Final = (
    "give a pyarrow Table, a frame of pandas or polars, a dict of lists, a list of dicts, or an "
    "iterable of RecordBatches"
)


def batches_of(rows: RowsLike, schema: pa.Schema | None) -> Iterable[pa.RecordBatch]:
    """Return rows as batches; columns and types are still the caller's.

    Python values get the type that Arrow infers from them; only numbers take the floating type of
    the table's column. So 1.5 is not cut for an integer column, and a time without a zone is not
    taken for one in UTC. Memory is bounded if the rows are an iterator or a stream.

    Raises InvalidInputError: PROJSEG_BAD_ROWS if they are in no form that holds rows,
    PROJSEG_SCHEMA_MISMATCH if a value does not fit its column.
    """
    batches: Iterable[pa.RecordBatch]
    if isinstance(rows, pa.RecordBatchReader):
        batches = rows  # not by its stream, which would lose the class of an error in it
    elif isinstance(rows, pa.Table):
        batches = rows.to_reader()  # its stream would refuse runs within other arrays
    elif isinstance(rows, pa.RecordBatch):
        batches = [rows]
    elif _is_pandas(rows):
        batches = [_from_columns(_columns_of_pandas(rows, schema), schema, len(rows))]
    elif hasattr(rows, "__arrow_c_stream__"):
        batches = _from_stream(rows)
    elif isinstance(rows, Mapping):
        batches = [_from_columns(rows.items(), schema)]
    elif isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise _no_rows(rows)
    else:
        batches = _from_items(iter(rows), schema)
    return batches


def rows_with_schema(rows: RowsLike) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return the columns of rows in the table's types, and the rows as batches.

    A column that is null in all rows of the first batch becomes a string, as in an import. Raises
    the errors of `batches_of`, PROJSEG_BAD_ROWS if there are no columns, and
    PROJSEG_UNSUPPORTED_TYPE.
    """
    batches = batches_of(rows, None)
    found = getattr(batches, "schema", None)
    if found is None:
        batches = iter(batches)
        first = next(batches, None)
        found = pa.schema([]) if first is None else first.schema
        batches = chain(() if first is None else (first,), batches)
    if not found.names:
        raise InvalidInputError(
            "PROJSEG_BAD_ROWS", "the rows have no columns to make a table of; give a schema"
        )
    fields = [(field.name, normal_type_of(field)) for field in found]
    return pa.schema([(name, pa.string() if t == pa.null() else t) for name, t in fields]), batches


def _from_stream(rows: Any) -> Iterable[pa.RecordBatch]:
    """Return the batches of an Arrow stream, with its `schema`."""
    # Polars hands out objects of Python as their addresses in memory.
    objects = [
        name for name, kind in zip(*_names_and_kinds(rows), strict=True) if str(kind) == "Object"
    ]
    if objects:
        raise InvalidInputError(
            "PROJSEG_BAD_ROWS",
            f"column '{objects[0]}' holds objects of Python; cast it to a type, or leave it out",
        )
    try:
        return _Stream(pa.RecordBatchReader.from_stream(rows))
    except pa.ArrowException as error:
        raise _unreadable(rows, error) from error


class _Stream:
    """The batches of a foreign stream, whose errors are ours."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.schema = reader.schema
        self._reader = reader

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._reader
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(
                "PROJSEG_BAD_ROWS", f"the stream of rows ended with an error: {error}"
            ) from error


def _names_and_kinds(rows: Any) -> tuple[list[Any], list[Any]]:
    """Return the columns of a frame and their types as it has them; nothing of another stream."""
    names, kinds = getattr(rows, "columns", None), getattr(rows, "dtypes", None)
    if isinstance(names, list) and isinstance(kinds, list) and len(names) == len(kinds):
        return names, kinds
    return [], []


def _unreadable(rows: Any, error: pa.ArrowException) -> InvalidInputError:
    """Return why a stream cannot be read; of a frame, which column it is."""
    if hasattr(rows, "to_frame"):
        return _no_rows(rows)
    what = type(rows).__name__
    for name, kind in zip(*_names_and_kinds(rows), strict=True):
        try:
            pa.RecordBatchReader.from_stream(rows[[name]])
        except (pa.ArrowException, TypeError, ValueError):
            what = f"column '{name}' of type {kind}"
            break
    return InvalidInputError(
        "PROJSEG_BAD_ROWS",
        f"{what} gives no columns of Arrow's types ({str(error).splitlines()[0]}); cast it, or "
        + _FORMS,
    )


def _from_items(items: Iterator[Any], schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    for first in items:
        if isinstance(first, Mapping):
            rows = list(islice(chain([first], items), _ROWS_A_BATCH))
            yield _from_row_mappings(rows, schema)
        elif isinstance(first, pa.RecordBatch):
            yield first
        elif isinstance(first, pa.Table):
            yield from first.to_batches()
        else:
            raise _no_rows(first, "an iterable of ")


def _from_row_mappings(rows: Sequence[Any], schema: pa.Schema | None) -> pa.RecordBatch:
    names: dict[str, None] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            raise _no_rows(row, "an iterable of mappings and ")
        names.update(dict.fromkeys(row))
    columns = [(name, [row.get(name) for row in rows]) for name in names]
    return _from_columns(columns, schema, len(rows))


def _from_columns(
    columns: Iterable[tuple[Any, Any]], schema: pa.Schema | None, row_count: int = 0
) -> pa.RecordBatch:
    """Return columns as a batch; without columns, `row_count` rows of nulls."""
    types = {name_key(field.name): field.type for field in schema or ()}
    arrays: dict[str, pa.Array] = {}
    for name, values in columns:
        if (text := str(name)) in arrays:
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{text}' stands twice in the rows; rename one of the two, or leave it out",
            )
        arrays[text] = _array(text, values, types.get(name_key(text)))
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = (end(lengths, key=lengths.__getitem__) for end in (min, max))
        raise InvalidInputError(
            "PROJSEG_BAD_ROWS",
            f"column '{shortest}' has {lengths[shortest]} values and column '{longest}' "
            f"{lengths[longest]}; give every column a value for each row, None for none",
        )
    if not arrays:
        return pa.record_batch([pa.nulls(row_count)], names=[""]).select([])
    try:
        return pa.record_batch(list(arrays.values()), names=list(arrays))
    except pa.ArrowInvalid as error:
        raise InvalidInputError("PROJSEG_BAD_ROWS", f"a column is damaged: {error}") from error


def _array(name: str, values: Any, target: pa.DataType | None) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInputError(
            "PROJSEG_BAD_ROWS",
            f"column '{name}' holds a {type(values).__name__} where a list of values belongs; one "
            "row is written [{'column': value}]",
        )
    try:
        return _converted(values, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = "one type" if target is None else type_name(target)
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{name}' holds values that are not all of {kind}: "
            f"{str(error).splitlines()[0]}",
        ) from error


def _converted(values: Any, target: pa.DataType | None) -> pa.Array:
    """Return values in the type inferred from them, or in the table's where that is safe.

    Given a type, Arrow cuts 1.5 to an integer, so a type is given only where Arrow checks values.
    """
    is_pandas = _is_pandas(values)
    if target is None:
        return pa.array(values, from_pandas=is_pandas)
    if "map<" in type_name(target):
        return pa.array(values, type=target, from_pandas=is_pandas)
    if pa.types.is_integer(target) and str(getattr(values, "dtype", "")) in _NUMPY_FLOATS:
        # How pandas keeps integers of which some are missing.
        return pa.array(values, type=target, from_pandas=is_pandas)
    values = values if hasattr(values, "__len__") else list(values)
    found = pa.array(values, from_pandas=is_pandas)
    if pa.types.is_binary(found.type) and any(isinstance(value, str) for value in values):
        raise TypeError("a text stands among binary values, which Arrow would take as its bytes")
    is_number = pa.types.is_integer(found.type) or pa.types.is_floating(found.type)
    if not pa.types.is_floating(target) or not is_number:
        return found
    numbers = found.cast(target)
    if pc.sum(pc.is_inf(numbers)) != pc.sum(pc.is_inf(found)):
        raise ValueError(f"a number is too large for {type_name(target)}")
    return numbers


def _is_pandas(value: object) -> bool:
    """Whether a value is a frame, series or index of pandas, which is not imported for this."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index))


def _columns_of_pandas(frame: Any, schema: pa.Schema | None) -> list[tuple[Any, Any]]:
    """Return a frame's columns, and those levels of its index that are columns of the table.

    Without a schema these are the levels with a name.
    """
    if not hasattr(frame, "columns"):
        raise _no_rows(frame)
    levels = [frame.index.get_level_values(number) for number in range(frame.index.nlevels)]
    named = [(level.name, level) for level in levels if level.name is not None]
    if schema is not None:
        known = {name_key(name) for name in schema.names}
        named = [(name, level) for name, level in named if name_key(str(name)) in known]
    columns = list(frame.items())
    return [(name, level) for name, level in named if name not in frame.columns] + columns


def _no_rows(found: object, within: str = "") -> InvalidInputError:
    ways = (way for way in ("to_frame", "toArrow", "collect") if hasattr(found, way))
    remedy = f"give its {way}()" if (way := next(ways, None)) else _FORMS
    return InvalidInputError(
        "PROJSEG_BAD_ROWS", f"{within}{type(found).__name__} holds no rows; {remedy}"
    )
