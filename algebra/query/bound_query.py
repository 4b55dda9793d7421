"""A query bound to a table: its keys, aggregates, filters and order as typed expressions.

Terms of ORDER BY and HAVING are over output columns, and aggregates beside them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from projseg.algebra.aggregates.group_by import GroupScope
from projseg.algebra.aggregates.parse_aggregate import AggregateCall, is_aggregate_tree
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import MergeableAggregate, decompose, mergeable
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.dialect import ParsedText, parse_sql
from projseg.algebra.expressions.joined_values import JOIN_FUNCTIONS
from projseg.algebra.expressions.sql_parameters import refuse_alone
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.proofs.predicate_truth import interval_conditions
from projseg.algebra.query.context import QueryContext
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.memory.forks import cached_property
from projseg.segment_format.logical_types import is_nested, type_name

# What is computed of a query, whatever rows it asks for.
_OF_ALL_ROWS: Final = ("scanned", "primitives_of", "primitives")
_SUFFIX: Final = re.compile(
    r"^(?P<term>.*?)(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?$",
    re.IGNORECASE | re.DOTALL,
)
_ORDINAL: Final = re.compile(r"[+-]?\s*[0-9]+")


class QuerySpec(msgspec.Struct, frozen=True, dict=True):
    """A bound query: with neither keys nor aggregates a row scan of `columns`.

    Keys, aggregates, the filter and columns are over base columns; outputs, HAVING and the order
    are over keys and aggregates by their names. A grouping set has positions of keys. Bounds on
    time are in `interval`; rows outside of it, or without a time, are left out.
    """

    keys: tuple[NamedExpression, ...] = ()
    aggregates: tuple[AggregateCall, ...] = ()
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    outputs: tuple[NamedExpression, ...] = ()
    filter: Expression | None = None
    interval: Interval | None = None
    having: Expression | None = None
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    columns: tuple[NamedExpression, ...] = ()
    time_column: str | None = None
    time_type: pa.DataType | None = None
    context: QueryContext = msgspec.field(default_factory=QueryContext)
    is_partial: bool = False
    declared_casts: tuple[Expression, ...] = ()

    def among(self, condition: Expression | None, interval: Interval | None) -> QuerySpec:
        """Return the same query of the rows that another filter and interval keep."""
        found = replace(self, filter=condition, interval=interval)
        found.__dict__.update((name, getattr(self, name)) for name in _OF_ALL_ROWS)
        return found

    @property
    def is_row_scan(self) -> bool:
        """Whether base rows themselves are asked for."""
        return not self.keys and not self.aggregates

    @property
    def is_divisible(self) -> bool:
        """Whether the answer is the rows of several tasks, each over some of the segments."""
        if self.is_row_scan:
            return self.limit is None and not self.order_by
        return self.is_partial

    @cached_property
    def scanned(self) -> tuple[Expression, ...]:
        """What a row scan reads of each row: its columns, then the time that ties fall to."""
        columns = tuple(named.expression for named in self.columns)
        is_plain = self.limit is None and not self.order_by
        if not self.is_row_scan or is_plain or self.time_column is None or self.time_type is None:
            return columns
        return (*columns, Column(self.time_type, self.time_column))

    @cached_property
    def primitives_of(self) -> dict[str, tuple[Primitive, ...]]:
        """The primitives of each aggregate by its name, as `decompose` returns them."""
        return {call.name: decompose(call) for call in self.aggregates}

    @cached_property
    def primitives(self) -> tuple[Primitive, ...]:
        """The primitives of the aggregates, each once, in order."""
        found = {p.text: p for several in self.primitives_of.values() for p in several}
        return tuple(found.values())

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """The conjuncts of the filter."""
        return conjuncts(self.filter)

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """Every expression over base columns."""
        found = [named.expression for named in (*self.keys, *self.columns)]
        found += [argument for primitive in self.primitives for argument in primitive.arguments]
        found += [c for primitive in self.primitives for c in conjuncts(primitive.filter)]
        return (*found, *self.conditions)

    @cached_property
    def joins(self) -> tuple[Call, ...]:
        """The nodes that read other tables, each after those in its arguments."""
        nodes = (node for expression in self.expressions for node in expression.walk())
        found = [n for n in nodes if isinstance(n, Call) and n.function in JOIN_FUNCTIONS]
        return tuple(dict.fromkeys(reversed(found)))

    @cached_property
    def columns_read(self) -> tuple[Column, ...]:
        """Base columns that the answer depends on, apart from the interval's."""
        found = (node for expression in self.expressions for node in expression.walk())
        return tuple(dict.fromkeys(node for node in found if isinstance(node, Column)))

    @cached_property
    def bounds(self) -> tuple[Call, ...]:
        """The interval as conditions on the time column."""
        if self.interval is None or self.time_type is None or self.time_column is None:
            return ()
        return interval_conditions(self.interval, Column(self.time_type, self.time_column))

    @cached_property
    def mergeable(self) -> tuple[MergeableAggregate, ...]:
        """For a partial answer, each output's states and how they are merged."""
        calls = {call.name: call for call in self.aggregates}
        return tuple(
            mergeable(replace(calls[column.name], name=name))
            for name, column in (_plain_output(output, calls) for output in self.outputs)
        )

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Names and types of the result's columns."""
        outputs = [(named.name, named.expression.type) for named in (*self.keys, *self.columns)]
        if self.is_partial:
            outputs += [(s.name, s.type) for one in self.mergeable for s in one.states]
        else:
            outputs += [(named.name, named.expression.type) for named in self.outputs]
        return pa.schema(outputs)


def _plain_output(output: NamedExpression, calls: Container[str]) -> tuple[str, Column]:
    """Return the name of an output and the call's column that it is."""
    if not isinstance(output.expression, Column) or output.expression.name not in calls:
        raise UnsupportedFeatureError(
            "PROJSEG_NOT_MERGEABLE",
            f"'{output.name}' is no aggregate but computed, and has no states of its own; ask for "
            "the aggregates in it, or for a final answer",
        )
    return output.name, output.expression


class Outputs:
    """A result's columns over keys and calls, of which HAVING and ORDER BY add some."""

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
        """Return the expression of a text, over grouping columns and calls by their names."""
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


class OrderTerm(msgspec.Struct, frozen=True):
    """One term of ORDER BY, over output columns."""

    expression: Expression
    is_descending: bool = False
    nulls_first: bool = True


def bind_order(texts: Sequence[str], outputs: Outputs) -> tuple[OrderTerm, ...]:
    """Return the terms of texts such as `edits DESC NULLS LAST`."""
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
    term = parts["term"]
    if isinstance(text, ParsedText):
        term = ParsedText(term, text.tree.this)
    return term, text.strip()[parts.end("term") :]


def directed(term: str, direction: str) -> ParsedText:
    """Return a term of ORDER BY, which `split_direction` takes apart."""
    return ParsedText(term + direction, exp.Ordered(this=parse_sql(term)))


def _bind_term(text: str, outputs: Outputs) -> OrderTerm:
    term, direction = split_direction(text)
    refuse_alone(term, "order_by")
    if is_ordinal(term):
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"cannot order by '{text.strip()}': a position names no output here; give its name",
        )
    expression = outputs.bind(term)
    if is_nested(expression.type):
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY", f"cannot order by '{text}' of type {type_name(expression.type)}"
        )
    words = direction.casefold().split()
    is_descending = "desc" in words
    nulls_first = words[-1] == "first" if "nulls" in words else not is_descending
    return OrderTerm(expression, is_descending, nulls_first)


def check_limit(limit: object) -> int | None:
    """Return a limit, which must be a count of rows or None."""
    is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
    if limit is None or is_count:
        return limit  # type: ignore[return-value]  # narrowed by is_count
    raise InvalidInputError("PROJSEG_BAD_QUERY", f"limit is {limit!r}; it takes a count of rows")
