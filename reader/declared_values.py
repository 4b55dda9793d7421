"""Errors of values that are not of the type that a definition declares for their column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import EvaluationError
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.storage.storage_contract import Storage


@contextmanager
def declared_columns_named(storage: Storage, query: QuerySpec) -> Iterator[None]:
    """Name the column and the table in the error of a cast that a definition declares."""
    try:
        yield
    except EvaluationError as error:
        types = {name: cast.type for cast in query.declared_casts for name in cast.columns}
        if error.column not in types:
            raise
        raise EvaluationError(
            error.code,
            f"column '{error.column}' of the table at {storage.location} is declared as "
            f"{type_name(types[error.column])}, and not all of its values are; declare "
            f"the type that is stored, and cast in queries: {error.message}",
        ) from error
