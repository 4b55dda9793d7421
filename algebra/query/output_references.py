"""Bind HAVING and ORDER BY, which name a result's columns by alias or by expression.

`HAVING sum(added) > 9` refers to the output that is `sum(added)`, whatever its alias.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from projseg.algebra.aggregates.call import AggregateCall, bind_aggregate
from projseg.algebra.aggregates.functions import AGGREGATES, ALIASES
from projseg.algebra.aggregates.text import call_text
from projseg.algebra.expressions.bind import NamedExpression, bind, bind_tree
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.limits import room_to_recurse
from projseg.algebra.expressions.tree import Column, Expression
from projseg.errors import InvalidInputError, ProjsegError


class Outputs(msgspec.Struct, frozen=True):
    """A result's columns, and the expressions they were made from.

    Parameters
    ----------
    schema : pa.Schema
        The result's columns.
    keys : sequence of NamedExpression
        Its keys, or the columns of a row scan.
    aggregates : sequence of AggregateCall
        Its aggregates.
    base : pa.Schema
        The table's columns.
    time_column : str or None
        The table's time column.
    timezone : str
        The time zone of functions of time.
    """

    schema: pa.Schema
    keys: Sequence[NamedExpression]
    aggregates: Sequence[AggregateCall]
    base: pa.Schema
    time_column: str | None
    timezone: str

    def bind(self, text: str) -> Expression:
        """Return the expression of a text over the result's columns.

        Raises
        ------
        InvalidInputError
            If it refers to something that the result does not have.
        """
        with room_to_recurse():
            tree = parse_sql(text).transform(self._replaced)
        try:
            return bind_tree(tree, self.schema, self.timezone)
        except ProjsegError as error:
            if (key := self._key(text)) is not None:
                return key
            raise type(error)(
                error.code, f"'{text}' is not over the result's columns: {error.message}"
            ) from error

    def _key(self, text: str) -> Expression | None:
        """Return the output that equals a text bound over base columns, None if there is none."""
        try:
            wanted = bind(text, self.base, timezone=self.timezone)
        except ProjsegError:
            return None
        names = [named.name for named in self.keys if named.expression == wanted]
        return Column(wanted.type, names[0]) if names else None

    def _replaced(self, node: exp.Expression) -> exp.Expression:
        """Return the output column of an aggregate; other nodes are returned unchanged."""
        call = node.this if isinstance(node, exp.Filter) else node
        name = call.name.casefold() if isinstance(call, exp.Anonymous) else ""
        if name not in AGGREGATES and name not in ALIASES:
            return node
        text = node.sql(dialect="spark")
        wanted = bind_aggregate(
            text, self.base, timezone=self.timezone, time_column=self.time_column
        )
        for found in self.aggregates:
            if replace(found, name="") == replace(wanted, name=""):
                return exp.column(exp.to_identifier(found.name, quoted=True))
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"{call_text(wanted)} is not among the result's columns; add it to aggregators",
        )
