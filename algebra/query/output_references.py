"""Bind HAVING and ORDER BY, which name a result's columns, or aggregates beside them."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.aggregates.call import AggregateCall, is_aggregate_tree
from projseg.algebra.aggregates.group_scope import GroupScope
from projseg.algebra.expressions.binding.bind import NamedExpression
from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.algebra.expressions.tree import Column, Expression
from projseg.errors import InvalidInputError, ProjsegError


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
