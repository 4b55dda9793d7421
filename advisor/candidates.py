"""Projections that would serve shapes, though nobody declared them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import ClassVar, Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.parse_aggregate import AggregateCall, call_text
from projseg.algebra.aggregates.state_columns import decompose
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import quoted_name
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.declarations import Projection
from projseg.errors import ProjsegError
from projseg.segment_format.format_limits import name_key
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.renamed_columns import stored_declaration

BUCKETS: Final = (
    "year", "quarter", "month", "week", "day", "six_hour", "hour", "thirty_minute",
    "fifteen_minute", "five_minute", "minute", "second",
)  # fmt: skip
"""Buckets of time that candidates have, the coarsest first."""
CANDIDATES_MAX: Final = 300
_NAME_CHARACTERS_MAX: Final = 60
_KEYS_MAX: Final = 12
_EPOCH_PERIODS: Final = 64  # boundaries of a zone's bucket that are compared with those of UTC


class Need(msgspec.Struct, frozen=True):
    """What a projection of groups must have to serve a query.

    `keys` has texts of grouping expressions, but for buckets of the time column; `bucket` is the
    coarsest of `BUCKETS` that serves, empty if the time is not needed; `count(*)` is among the
    calls.
    """

    keys: frozenset[str]
    bucket: str
    calls: tuple[AggregateCall, ...]

    @property
    def primitives(self) -> frozenset[str]:
        """Texts of the primitives of the aggregates."""
        return frozenset(one.text for call in self.calls for one in decompose(call))

    def serves(self, other: Need) -> bool:
        """Whether a projection for this need would also serve another need."""
        return (
            other.keys <= self.keys
            and _is_finer(self.bucket, other.bucket)
            and other.primitives <= self.primitives
        )

    def with_all_of(self, other: Need) -> Need:
        """Return the need whose groups serve both."""
        bucket = _within_all([one for one in (self.bucket, other.bucket) if one])
        return Need(self.keys | other.keys, bucket, _each_once((*self.calls, *other.calls)))


class GroupsCandidate(msgspec.Struct, frozen=True):
    """A projection of groups that does not exist, as a user writes it and over stored names."""

    need: Need
    projection: Projection
    declaration: ProjectionDeclaration

    kind: ClassVar = "projection"

    @property
    def name(self) -> str:
        """The name that it would have."""
        return self.projection.name

    @property
    def sql(self) -> str:
        """The SELECT of its declaration."""
        outputs = [*self.projection.group_by, *self.projection.aggregators]
        return f"SELECT {', '.join(outputs)} GROUP BY ALL"

    def may_serve(self, query: QuerySpec, need: Need | None) -> bool:
        """Whether it might serve a query of such a need."""
        return need is not None and self.need.serves(need)


def need_of(query: QuerySpec) -> Need | None:
    """Return the groups that serve a query; None if none do."""
    if query.is_row_scan or query.joins:
        return None
    calls = query.aggregates
    if any(one.kind.not_stored for call in calls for one in decompose(call)):
        return None
    filtered = [one for condition in query.conditions for one in _filter_keys(condition)]
    keys: set[str] = set()
    buckets: list[str] = []
    for tree in (*(named.expression for named in query.keys), *filtered):
        granularity = _floor_of(tree, query.time_column)
        bucket = "" if granularity is None else _bucket_for(granularity)
        if bucket:
            buckets.append(bucket)
        elif isinstance(tree, Column) and tree.name == query.time_column:
            return None
        elif tree.columns:
            keys.add(to_sql(tree))
    if query.interval is not None:
        buckets.append(_bucket_of_ends(query.interval))
    if len(keys) > _KEYS_MAX or "" in buckets:
        return None
    return Need(frozenset(keys), _within_all(buckets), _each_once(calls))


def why_no_need(query: QuerySpec) -> str:
    """Return the reason code why no groups serve a query for which `need_of` returned None."""
    if query.joins:
        return "JOINED"
    for call in query.aggregates:
        if any(one.kind.not_stored for one in decompose(call)):
            return f"AGGREGATOR_NOT_STORED {call_text(call)}"
    return "UNALIGNED_INTERVAL" if query.interval is not None else "MISSING_GROUPING_COLUMN"


def union_needs(needs: Sequence[Need]) -> list[Need]:
    """Return the needs, unions of two, and each with its bucket a step finer or coarser."""
    found = dict.fromkeys(needs)
    for one, other in combinations(needs, 2):
        both = one.with_all_of(other)
        if len(both.keys) <= _KEYS_MAX:
            found.setdefault(both)
    for need in list(found):
        if need.bucket:
            place = BUCKETS.index(need.bucket)
            for near in (place - 1, place + 1):
                if 0 <= near < len(BUCKETS):
                    found.setdefault(msgspec.structs.replace(need, bucket=BUCKETS[near]))
    return list(found)


def candidate_of(need: Need, snapshot: Snapshot, taken: Collection[str]) -> GroupsCandidate | None:
    """Return the projection that a need describes; None if there is no such projection."""
    properties = snapshot.properties
    time = properties.time_column
    group_by: list[str] = []
    names: set[str] = set()

    def named(text: str, name: str) -> str:
        free = free_name(name, names)
        names.add(name_key(free))
        return text if free == text else f"{text} AS {free}"

    if need.bucket and time is not None:
        period = Granularity.parse(need.bucket).period_text
        group_by.append(named(f"time_floor({quoted_name(time)}, '{period}')", need.bucket))
    group_by += [named(text, slug(text)) for text in sorted(need.keys)]
    aggregators = [named(call_text(call), slug(call_text(call))) for call in need.calls]
    words = ["by", *([need.bucket] if need.bucket else []), *map(slug, sorted(need.keys))]
    name = "_".join(words)[:_NAME_CHARACTERS_MAX].rstrip("_") if len(words) > 1 else "totals"
    projection = Projection(free_name(name, taken), group_by, aggregators)
    spec = parsed(projection, properties.schema, time)
    if spec is None:
        return None
    return GroupsCandidate(need, projection, stored_declaration(spec, properties))


def parsed(
    projection: Projection, schema: pa.Schema, time_column: str | None
) -> ProjectionSpec | None:
    """Return the checked form of a projection; None if it cannot be declared."""
    try:
        return parse_projection(projection, schema, time_column=time_column)
    except ProjsegError:
        return None


def _each_once(calls: Iterable[AggregateCall]) -> tuple[AggregateCall, ...]:
    """Return calls whose primitives none before them has, and `count(*)`, in one order."""
    count = AggregateCall("count", (), None, (), "count(*)")
    found: list[AggregateCall] = []
    stored: set[str] = set()
    for call in sorted((count, *calls), key=lambda one: (len(decompose(one)), call_text(one))):
        texts = {one.text for one in decompose(call)}
        if not texts <= stored:
            stored |= texts
            found.append(msgspec.structs.replace(call, name=call_text(call)))
    return tuple(found)


def _filter_keys(condition: Expression) -> list[Expression]:
    """Return the keys by which a group decides a condition for all its rows."""
    if isinstance(condition, Call) and condition.function in ("and", "or", "not"):
        return [one for part in condition.arguments for one in _filter_keys(part)]
    if isinstance(condition, Call) and condition.function in ("=", "in"):
        first = condition.arguments[0]
        if isinstance(first, Call) and len(first.columns) == 1:
            return [first]
    columns = {node.name: node for node in condition.walk() if isinstance(node, Column)}
    return list(columns.values())


def _floor_of(tree: Expression, time: str | None) -> Granularity | None:
    """Return the buckets of an expression that is the time column in buckets, or their dates."""
    if isinstance(tree, Call) and tree.function == "cast" and pa.types.is_date32(tree.type):
        (tree,) = tree.arguments
    if not isinstance(tree, Call) or time is None or tree.function != "time_floor":
        return None
    first = tree.arguments[0]
    if not isinstance(first, Column) or first.name != time:
        return None
    found = tree.parameters[0] if tree.parameters else None
    return found if isinstance(found, Granularity) else None


def _bucket_for(granularity: Granularity) -> str:
    """Return the coarsest bucket of UTC whose starts are among those of a granularity."""
    if granularity.is_all or granularity.is_none:
        return ""
    starts: list[int] = []
    for year in (0, 25, 50):  # with the offsets of the seasons of several years
        start = granularity.next_boundary(year * 31_557_600_000_000)
        for _ in range(_EPOCH_PERIODS):
            starts.append(start)
            start = granularity.next_boundary(start + max(granularity.length_micros, 1) // 2)
    return _coarsest(starts)


def _bucket_of_ends(interval: Interval) -> str:
    ends = (interval.start_us, interval.end_us)
    return _coarsest([end for end in ends if MIN_MICROS < end < MAX_MICROS])


def _coarsest(moments: Sequence[int]) -> str:
    for name in BUCKETS:
        granularity = Granularity.parse(name)
        if all(map(granularity.is_boundary, moments)):
            return name
    return ""


def _is_finer(bucket: str, other: str) -> bool:
    """Whether buckets are at least as fine as others, whose starts are among theirs."""
    if not other:
        return True
    if not bucket or BUCKETS.index(bucket) < BUCKETS.index(other):
        return False
    return not (other in ("year", "quarter", "month") and bucket == "week")


def _within_all(buckets: Sequence[str]) -> str:
    """Return the coarsest bucket that lies within each of some; empty: there are none."""
    if not buckets:
        return ""
    return next(one for one in BUCKETS if all(_is_finer(one, other) for other in buckets))


def slug(text: str) -> str:
    """Return a name made of a text's words."""
    return "_".join(re.findall(r"[^\W_]+", text.lower()))[:_NAME_CHARACTERS_MAX] or "x"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name, or one with a number where it is taken."""
    folded = {name_key(one) for one in taken}
    tries = [name, *(f"{name}_{number}" for number in range(2, len(folded) + 3))]
    return next(one for one in tries if name_key(one) not in folded)
