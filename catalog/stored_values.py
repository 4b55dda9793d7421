"""Rows that are written by name, cast as Spark's ANSI mode assigns values to columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.query.declared_columns import DeclaredColumn, DeclaredColumns
from projseg.catalog.store.table_metadata import TableMetadata
from projseg.errors import EvaluationError, InvalidInputError, ProjsegError, did_you_mean
from projseg.segment_format.logical_types import is_nested, normal_type, type_name

OwnType = Callable[[DeclaredColumn], pa.DataType]


def may_assign(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark's ANSI store assignment writes values of one type into a column of another."""
    if found == wanted or pa.types.is_null(found):
        return True
    if is_nested(found) or is_nested(wanted):
        # Items are matched, and checked one by one, as of rows that are written by path.
        return bool(found.id == wanted.id)
    if wanted == pa.string():
        return True
    return any(kind(found) and kind(wanted) for kind in (_is_number, _is_time))


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(kind(type_) for kind in kinds)


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def check_names(found: pa.Schema, declared: DeclaredColumns, definition: TableMetadata) -> None:
    """Refuse columns that rows may not have.

    Raises
    ------
    InvalidInputError
        PROJSEG_HIDDEN_COLUMN, PROJSEG_SEALED_TABLE, PROJSEG_SCHEMA_MISMATCH.
    """
    spec = definition.spec
    visible = {one.name.casefold() for one in declared.columns}
    own = {column.name.casefold() for column in spec.columns}
    for name in found.names:
        folded = name.casefold()
        if folded in spec.hidden:
            raise InvalidInputError(
                "PROJSEG_HIDDEN_COLUMN",
                f"column '{name}' is hidden by definition '{definition.full_name}'; leave it out, "
                "unhide it, or write by path",
            )
        if spec.layout.sealed is True and folded not in own:
            raise InvalidInputError(
                "PROJSEG_SEALED_TABLE",
                f"'{definition.full_name}' is sealed, and does not declare column '{name}'"
                f"{did_you_mean(name, (column.name for column in spec.columns))}; declare it, or "
                "leave it out",
            )
        if folded not in visible:
            names = (one.name for one in declared.columns)
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{name}' is neither declared nor in the table{did_you_mean(name, names)}; "
                "declare it, or leave it out",
            )


def assigned(
    batches: Iterable[pa.RecordBatch],
    declared: DeclaredColumns,
    own_type: OwnType,
    definition: TableMetadata,
) -> Iterator[pa.RecordBatch]:
    """Yield rows under the table's names: cast to the declared types, then to the stored ones.

    Parameters
    ----------
    batches : iterable of pa.RecordBatch
        Rows under declared names, in any case.
    declared : DeclaredColumns
        The columns; each that rows have is in the table.
    own_type : callable
        The type in which the table stores a column.
    definition : TableMetadata
        Which columns may be written.

    Raises
    ------
    InvalidInputError
        PROJSEG_SCHEMA_MISMATCH for a type that is not assignable; PROJSEG_DECLARED_TYPE if it is to
        the declared type, and that is not to the stored one; and as of `check_names`.
    EvaluationError
        If a value is not one of the type.
    """
    by_name = {one.name.casefold(): one for one in declared.columns}
    for batch in batches:
        check_names(batch.schema, declared, definition)
        columns, names = [], []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            column = by_name[name.casefold()]
            assert column.stored is not None, "declared columns are added before rows are written"
            columns.append(_column(array, column, declared, own_type(column)))
            names.append(column.stored)
        yield pa.record_batch(columns, names=names)


def _column(
    array: pa.Array, column: DeclaredColumn, declared: DeclaredColumns, own: pa.DataType
) -> pa.Array:
    if isinstance(array.type, pa.DictionaryType):
        array = array.dictionary_decode()
    wanted, found = declared.schema.field(column.name).type, normal_type(array.type)
    if not may_assign(found, wanted):
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{column.name}' is declared as {column.type}, and a {type_name(found)} is not "
            "assigned to it; cast it before it is written",
        )
    shown = cast(array, found, wanted)
    if wanted == own:
        return shown
    problem = (
        f"column '{column.name}' is declared as {column.type} and stored as {type_name(own)}, "
        "which does not hold {}; write with the stored type, or overwrite the table with other "
        "columns (overwriteSchema)"
    )
    if not may_assign(wanted, own):
        raise InvalidInputError("PROJSEG_DECLARED_TYPE", problem.format("such values"))
    try:
        return cast(shown, wanted, own)
    except EvaluationError as error:
        raise InvalidInputError(
            "PROJSEG_DECLARED_TYPE", problem.format(f"each value ({error.message})")
        ) from error


def cast(array: pa.Array, found: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return values in another type, as Spark's ANSI `CAST` has them.

    Raises
    ------
    EvaluationError
        If a value is not one of the type.
    """
    if found == wanted or is_nested(found) or pa.types.is_null(found):
        return array  # what the writer makes of it
    try:
        expression = bind(f"CAST(x AS {type_name(wanted)})", pa.schema([("x", found)]))
    except ProjsegError as error:
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"a {type_name(found)} is never cast to {type_name(wanted)}: {error.message}",
        ) from error
    return evaluate(expression, {"x": array.cast(found)}, len(array))
