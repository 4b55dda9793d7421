"""Values in the place of those that a log hides, so that its queries can be planned again.

A value comes from where it stands: what a column is compared with lies among its values. It is
never null, as a null would let every plan look free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from projseg.advisor.workload import Shape
from projseg.algebra.aggregates.parse_aggregate import is_aggregate_tree
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.dialect import parse_sql, sql_of
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import ProjsegError
from projseg.reader.plan.version_facts import VersionFacts
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot

_MARK: Final = re.compile(r"('(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`)|\?")
_ORDER: Final = re.compile(r"(?i)(\s+(asc|desc))?(\s+nulls\s+(first|last))?$")
_LISTS: Final = ("group_by", "aggregators", "columns", "order_by")
_TEXTS: Final = ("filter", "having")
_TRIES_MAX: Final = 200
_DAY: Final = timedelta(days=1)


class HiddenValues:
    """What hidden values are filled with: values and times like those of a segment."""

    def __init__(self, snapshot: Snapshot, entry: SegmentEntry) -> None:
        self._schema = snapshot.properties.schema
        self._time_column = snapshot.properties.time_column
        self._facts = VersionFacts(snapshot).of(entry)
        low, high = entry.min_time_us, entry.max_time_us
        self._middle_us = 0 if low is None or high is None else (low + high) // 2
        self._start_us = 0 if low is None or high is None else low + (high - low) // 3

    def bound(self, shape: Shape) -> Iterator[QuerySpec]:
        """Yield a shape's query with values, bound, the likeliest first.

        Nothing is yielded if the table lacks a column that the query names.
        """
        try:
            numbered, hidden = _numbered(shape.query)
            numbered.setdefault("interval", self._interval(shape))
            tries = self._tries(hidden)
            for values in tries:
                query = Query(**numbered, args=values or None)
                with suppress(ProjsegError):
                    yield bind_query(self._schema, self._time_column, query.in_zone(shape.zone))
        except (ProjsegError, TypeError, ValueError, ArithmeticError, RecursionError):
            return

    def _interval(self, shape: Shape) -> tuple[datetime, datetime] | None:
        """Return an interval of the shape's length that begins within the segment."""
        if not shape.aligned or self._time_column is None:
            return None
        granularity = (
            Granularity.NONE
            if shape.aligned == "none"
            else Granularity.parse(shape.aligned, shape.zone)
        )
        start = granularity.floor_one(self._start_us)
        length = round((shape.length or 86_400.0) * 1e6)
        if granularity.is_none:
            start += 1_234_567  # ends that lie on no bucket
            end = start + length
        else:
            end = granularity.next_boundary(start + max(length - 1, 0))
        found = Interval(start, max(end, start + 1))
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return (
            epoch + timedelta(microseconds=found.start_us),
            epoch + timedelta(microseconds=found.end_us),
        )

    def _tries(self, hidden: Sequence[tuple[str, exp.Expression]]) -> Iterator[dict[str, Any]]:
        """Yield combinations of values to try.

        The likeliest combination comes first, then those with one value replaced.
        """
        choices = {name: self._choices(node) for name, node in hidden}
        first = {name: several[0] for name, several in choices.items()}
        yield first
        tried = 1
        for name, several in choices.items():
            for value in several[1:]:
                if tried >= _TRIES_MAX:
                    return
                tried += 1
                yield {**first, name: value}
        kinds = max((len(several) for several in choices.values()), default=0)
        for place in range(1, kinds):
            yield {name: several[min(place, len(several) - 1)] for name, several in choices.items()}

    def _choices(self, node: exp.Expression) -> list[Any]:
        """Return values for a parameter, the likeliest first."""
        parent = node.parent
        while isinstance(parent, exp.Paren):
            node, parent = parent, parent.parent
        found: list[Any] = []
        if isinstance(parent, exp.Like | exp.ILike | exp.RegexpLike):
            values = self._like(parent.this if parent.this is not node else parent.expression)
            found += [f"{str(value)[:2]}%" for value in values]
        elif isinstance(parent, exp.In):
            found += [[value] for value in self._like(parent.this)]
        elif isinstance(parent, exp.Binary):
            other = parent.expression if parent.this is node else parent.this
            found += self._like(other)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._middle_us)
        return [*found, 1, "a", moment, moment.date(), 1.0, Decimal(1), True, _DAY]

    def _like(self, tree: exp.Expression) -> list[Any]:
        """Return values that an expression may have, one between its bounds first."""
        try:
            text = sql_of(tree)
            expression = bind(text, self._schema)
        except ProjsegError:
            return []
        columns = self._facts.columns
        bounds = columns.get(text.strip("`"))
        low = None if bounds is None else bounds.minimum
        high = None if bounds is None else bounds.maximum
        between = _value(expression.type, low, high, self._middle_us)
        ends = [end for end in (low, high) if type(end) is type(between) and end != between]
        return [between, *ends]


def _value(type_: pa.DataType, low: Any, high: Any, middle_us: int) -> Any:
    """Return a value of a type, between bounds where these are known."""
    moment = datetime(1970, 1, 1) + timedelta(microseconds=middle_us)
    if pa.types.is_timestamp(type_):
        return moment.replace(tzinfo=UTC) if type_.tz else moment
    if pa.types.is_date(type_):
        return moment.date()
    for is_kind, python_type, otherwise in _KINDS:
        if is_kind(type_):
            is_bound = type(low) is python_type and type(high) is python_type
            if not is_bound or python_type in (str, bytes, bool):
                return low if type(low) is python_type and low else otherwise
            return (low + high) // 2 if python_type is int else (low + high) / 2
    return "a"


_KINDS: Final[tuple[tuple[Any, type, Any], ...]] = (
    (pa.types.is_boolean, bool, True),
    (pa.types.is_integer, int, 1),
    (pa.types.is_floating, float, 1.0),
    (pa.types.is_decimal, Decimal, Decimal(1)),
    (pa.types.is_binary, bytes, b"a"),
    (pa.types.is_string, str, "a"),
)


class _Numbering:
    """Gives the hidden values of a query's texts names, and knows where each stands."""

    def __init__(self) -> None:
        self.hidden: list[tuple[str, exp.Expression]] = []
        self._count = 0

    def named(self, text: str) -> str:
        """Return a text with `:v0` for the first `?` and so on."""
        start = self._count
        written = _MARK.sub(self._name, text)
        if self._count > start:
            term = _ORDER.sub("", written)
            nodes = parse_sql(term).find_all(exp.Placeholder)
            self.hidden += [(str(node.this), node) for node in nodes]
        return written

    def _name(self, found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        self._count += 1
        return f":v{self._count - 1}"


def _numbered(
    query: Mapping[str, Any],
) -> tuple[dict[str, Any], list[tuple[str, exp.Expression]]]:
    """Return a query with `:v0` for its first `?` and so on, and where each stands."""
    numbering = _Numbering()
    found: dict[str, Any] = {}
    for part in _LISTS:
        if query.get(part):
            found[part] = [numbering.named(str(text)) for text in query[part]]
    for part in _TEXTS:
        if query.get(part):
            found[part] = numbering.named(str(query[part]))
    if query.get("limit") is not None:
        found["limit"] = query["limit"] if isinstance(query["limit"], int) else 100
    if query.get("interval"):
        found["interval"] = query["interval"]
    if query.get("aggregation"):
        found["aggregation"] = query["aggregation"]
    return found, numbering.hidden


def hides_literals(query: Mapping[str, Any]) -> bool:
    """Whether a log hides a constant of what a query groups by or aggregates."""
    try:
        for text in query.get("group_by") or ():
            if any(found[1] is None for found in _MARK.finditer(str(text))):
                return True
        outputs = {"aggregators": query.get("aggregators") or ()}
        for _, node in _numbered(outputs)[1]:
            above = node.parent
            while above is not None:
                if is_aggregate_tree(above) or isinstance(above, exp.Filter):
                    return True
                above = above.parent
    except ProjsegError:
        return True
    return False
