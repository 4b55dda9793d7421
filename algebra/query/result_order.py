"""The order of a result and its HAVING: terms over output columns, and aggregates beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.aggregates.call import AggregateCall, is_aggregate_tree
from projseg.algebra.aggregates.group_scope import GroupScope
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.sql_parameters import refuse_alone
from projseg.algebra.expressions.tree import Column, Expression
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.layout.logical_types import is_nested, type_name


class Outputs:
    """A result's columns, and the expressions they were made from.

    Parameters
    ----------
    keys : tuple of NamedExpression
        The grouping columns, or the columns of a row scan.
    outputs : tuple of NamedExpression
        The columns after them, over grouping columns and calls.
    calls : mapping of str to AggregateCall
        The calls by their names; those that only HAVING and ORDER BY have are added.
    base : pa.Schema
        The table's columns.
    time_column : str or None
        The table's time column.
    timezone : str
        The time zone of functions of time.
    is_row_scan : bool
        Whether there are rows instead of groups.
    has_sets : bool
        Whether groups are of several grouping sets.
    """

    def __init__(
        self,
        keys: tuple[NamedExpression, ...],
        outputs: tuple[NamedExpression, ...],
        calls: dict[str, AggregateCall],
        *,
        base: pa.Schema,
        time_column: str | None,
        timezone: str,
        is_row_scan: bool,
        has_sets: bool,
    ) -> None:
        own = tuple(NamedExpression(k.name, Column(k.expression.type, k.name)) for k in keys)
        self._scope = GroupScope(
            base, keys, timezone, time_column, (*own, *outputs), has_sets=has_sets
        )
        self._is_row_scan = is_row_scan
        self.calls = dict(calls)

    def bind(self, text: str) -> Expression:
        """Return the expression of a text, over grouping columns and calls by their names.

        Raises
        ------
        InvalidInputError
            If it refers to something that the result does not have.
        """
        tree = parse_sql(text)
        tree = tree.this if isinstance(tree, exp.Alias) else tree
        if self._is_row_scan:
            _refuse_aggregates(tree, text)
        try:
            found = self._scope.bind(tree)
        except ProjsegError as error:
            raise type(error)(
                error.code, f"'{text}' is not over the result's columns: {error.message}"
            ) from error
        self.calls |= {call.name: call for call in found.calls}
        return found.expression


def _refuse_aggregates(tree: exp.Expression, text: str) -> None:
    for node in tree.walk():
        if is_aggregate_tree(node):
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                f"'{text}' has the aggregate {node.sql(dialect='spark')}, and a row scan has none; "
                "give group_by or aggregators",
            )


_SUFFIX: Final = re.compile(
    r"^(?P<term>.*?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?$",
    re.IGNORECASE | re.DOTALL,
)
_ORDINAL: Final = re.compile(r"[+-]?\s*[0-9]+")


class OrderTerm(msgspec.Struct, frozen=True):
    """One term of ORDER BY.

    Parameters
    ----------
    expression : Expression
        What is ordered by, over output columns.
    is_descending : bool
        Whether the largest value comes first.
    nulls_first : bool
        Whether nulls come first; by default they do if ascending, and do not if descending.
    """

    expression: Expression
    is_descending: bool = False
    nulls_first: bool = True


def bind_order(texts: Sequence[str], outputs: Outputs) -> tuple[OrderTerm, ...]:
    """Return the terms of texts such as `edits DESC NULLS LAST`.

    Raises
    ------
    InvalidInputError
        If a text is not an expression over the outputs, or its type has no order.
    """
    return tuple(_bind_term(text, outputs) for text in texts)


def ascending(outputs: Sequence[NamedExpression]) -> tuple[OrderTerm, ...]:
    """Return the order of a result by some of its columns, each ascending and nulls first."""
    return tuple(OrderTerm(Column(o.expression.type, o.name)) for o in outputs)


def is_ordinal(text: str) -> bool:
    """Whether a text is a bare number, which in SQL is a position among the outputs."""
    return _ORDINAL.fullmatch(text.strip()) is not None


def split_direction(text: str) -> tuple[str, str]:
    """Return a term's expression, and what follows it: ` DESC NULLS LAST`, or nothing."""
    parts = _SUFFIX.match(text.strip())
    assert parts is not None
    return parts["term"], text.strip()[parts.end("term") :]


def _bind_term(text: str, outputs: Outputs) -> OrderTerm:
    parts = _SUFFIX.match(text.strip())
    assert parts is not None
    refuse_alone(parts["term"], "order_by")
    if is_ordinal(parts["term"]):
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"cannot order by '{text.strip()}': a position names no output here; give its name",
        )
    expression = outputs.bind(parts["term"])
    if is_nested(expression.type):
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY", f"cannot order by '{text}' of type {type_name(expression.type)}"
        )
    is_descending = (parts["way"] or "").casefold() == "desc"
    nulls = (parts["nulls"] or "").casefold()
    return OrderTerm(expression, is_descending, nulls == "first" if nulls else not is_descending)


def check_limit(limit: object) -> int | None:
    """Return a limit, which must be a count of rows or None.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_QUERY, if it is anything else.
    """
    is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
    if limit is None or is_count:
        return limit  # type: ignore[return-value]  # narrowed by is_count
    raise InvalidInputError("PROJSEG_BAD_QUERY", f"limit is {limit!r}; it takes a count of rows")
