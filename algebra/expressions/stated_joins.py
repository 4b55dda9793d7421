"""`join_value` and `join_found` read from text, as definitions of views have them.

A text names a table by its id. What the id means is stated around the binding: the table at some
version, or one that cannot be read, of which only the columns' types are known. No text of a user
is bound in such a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.joined_values import (
    JoinPath,
    LookedUpRows,
    join_found,
    join_value,
)
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Column, Expression
from projseg.segment_format.logical_types import parse_type_name


class StatedTable(msgspec.Struct, frozen=True):
    """The table of an id in texts, at a version or absent.

    `columns` has stored names and types of those that texts mention.
    """

    dimension: Any  # structs check no protocols
    columns: tuple[tuple[str, str], ...]

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema([(name, parse_type_name(type_)) for name, type_ in self.columns])


class AbsentDimension(msgspec.Struct, frozen=True):
    """A table whose rows are not those that are wanted: equal to no version of it."""

    table_id: str

    def rows(self) -> LookedUpRows:
        """Refuse: nothing that is planned reads it."""
        raise AssertionError(f"table {self.table_id} is read, and no version of it is wanted")


StatedTables: TypeAlias = tuple[StatedTable, ...]
Function = TypeVar("Function", bound=Callable[..., Any])
_Bind: TypeAlias = Callable[[exp.Expression], Expression]
_KEPT: Final = 4096
_NAMES: Final = frozenset(("join_value", "join_found"))
_stated: ContextVar[StatedTables] = ContextVar("stated tables", default=())


@contextmanager
def tables_stated(tables: StatedTables) -> Iterator[None]:
    """Let texts name tables within the block."""
    token = _stated.set(tables)
    try:
        yield
    finally:
        _stated.reset(token)


def kept_by_tables(function: Function) -> Function:
    """Keep what a function of texts returns, for each meaning of the tables that they name."""

    @lru_cache(maxsize=_KEPT)
    def cached_value(_: StatedTables, *given: Any) -> Any:
        return function(*given)

    @wraps(function)
    def value_of(*given: Any) -> Any:
        return cached_value(_stated.get(), *given)

    return cast("Function", value_of)


def is_stated_join(name: str) -> bool:
    """Whether a function's name is that of a node that reads another table, and may stand here."""
    return name in _NAMES and bool(_stated.get())


def stated_join(
    name: str,
    parts: Sequence[exp.Expression],
    bind: _Bind,
    bind_over: Callable[[pa.Schema], _Bind],
) -> Expression:
    """Return the node of `name('table_id', 'key', ..., 'column', argument, ..., 'condition')`.

    Of `join_found` no column is named; `bind` is for arguments over the fact, `bind_over` for keys.
    Raises PROJSEG_BAD_EXPRESSION if the table or a column is not stated.
    """
    words = [str(p.this) if isinstance(p, exp.Literal) and p.is_string else None for p in parts]
    column_count = 1 if name == "join_value" else 0
    has_condition = (len(words) - 1 - column_count) % 2 == 1
    key_count = (len(words) - 1 - column_count - has_condition) // 2
    table = next((t for t in _stated.get() if words and t.dimension.table_id == words[0]), None)
    first = 1 + key_count + column_count
    texts = [*words[1:first], *words[first + key_count :]]
    if table is None or key_count < 1 or None in texts:
        raise bad_expression(f"{name} reads table {str(words[:1])[:64]}, which is not stated")
    arguments = tuple(canonical(bind(part)) for part in parts[first : first + key_count])
    schema = table.schema

    def over_table(text: str) -> Expression:
        return canonical(bind_over(schema)(parse_sql(text)))

    names = tuple(map(str, words[1 : 1 + key_count]))
    keys = tuple(
        _key(text, argument, schema, over_table)
        for text, argument in zip(names, arguments, strict=True)
    )
    condition = over_table(str(words[-1])) if has_condition else None
    path = JoinPath(
        table.dimension, keys, names, condition, None if condition is None else to_sql(condition)
    )
    if not column_count:
        return join_found(path, arguments)
    wanted = str(words[1 + key_count])
    if wanted not in schema.names:
        raise bad_expression(f"{name} reads column {wanted[:64]!r}, which is not stated")
    return join_value(path, arguments, wanted, schema.field(wanted).type)


def _key(
    text: str,
    argument: Expression,
    schema: pa.Schema,
    over_table: Callable[[str], Expression],
) -> Expression:
    """Return a key in the type of what it is compared with."""
    if text not in schema.names:
        return over_table(text)
    column = Column(schema.field(text).type, text)
    return canonical(cast_to(column, argument.type, "UTC"))
