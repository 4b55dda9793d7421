"""The schema of a small table, and short ways to declare projections, queries and segments."""

from datetime import UTC, datetime

import pyarrow as pa

from projseg.algebra.planning.planner import SourceChoice, choose
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.segment_facts import ColumnFacts, ProjectionFacts, SegmentFacts
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("channel", pa.string()),
        ("page", pa.string()),
        ("user", pa.string()),
        ("added", pa.int64()),
        ("deleted", pa.int64()),
        ("delta", pa.float64()),
        ("robot", pa.bool_()),
        ("day", pa.date32()),
    ]
)
BASE_ROWS = 1_000_000
PROJECTION_ROWS = 1_000


def spec(name="p", group_by=(), aggregators=(), where=None, schema=SCHEMA):
    """Return a checked projection over SCHEMA."""
    declaration = {"name": name, "group_by": list(group_by), "aggregators": list(aggregators)}
    if where is not None:
        declaration["where"] = where
    return parse_projection(declaration, schema, time_column="time")


def query(**parts) -> QuerySpec:
    """Return a bound query over SCHEMA."""
    return bind_query(SCHEMA, "time", Query(**parts))


def instant(text: str) -> datetime:
    """Return a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def micros(text: str) -> int:
    """Return a UTC time in microseconds."""
    return round(instant(text).timestamp() * 1_000_000)


def facts(
    *specs: ProjectionSpec,
    start="2024-03-10T00:00:30",
    end="2024-03-10T23:59:30",
    columns=None,
    without=(),
    **more,
) -> SegmentFacts:
    """Return a segment of one day that stores `specs`; `columns` overrides facts of columns."""
    known = {
        "time": ColumnFacts(instant(start), instant(end)),
        "channel": ColumnFacts("#ar", "#zh", null_count=3),
        "page": ColumnFacts("A", "Z", is_exact=False),
        "user": ColumnFacts("a", "z", null_count=5),
        "added": ColumnFacts(0, 9_000),
        "deleted": ColumnFacts(0, 500, null_count=7),
        "delta": ColumnFacts(-1.0, 1.0, null_count=1, has_nan=True),
        "robot": ColumnFacts(False, True),
        "day": ColumnFacts(instant(start).date(), instant(end).date()),
    }
    known |= columns or {}
    for name in without:
        del known[name]
    more.setdefault("row_count", BASE_ROWS)
    return SegmentFacts(
        name="segment-1",
        columns=known,
        column_bytes=dict.fromkeys(known, 4 * more["row_count"]),
        time_minimum_us=micros(start),
        time_maximum_us=micros(end),
        projections=tuple(
            ProjectionFacts(one, PROJECTION_ROWS, 16 * PROJECTION_ROWS) for one in specs
        ),
        **more,
    )


def chosen(question: QuerySpec, segment: SegmentFacts, declared=()) -> SourceChoice:
    """Return the choice for one segment."""
    return choose(question, segment, declared)


def only_plan(question: QuerySpec, segment: SegmentFacts) -> SourcePlan:
    """Return the one plan of a segment that is answered from one source."""
    (plan,) = choose(question, segment).plans
    return plan


def reason(question: QuerySpec, one: ProjectionSpec, segment: SegmentFacts | None = None) -> str:
    """Return why a projection does not serve, `serves` if it does; by default on three days."""
    choice = choose(question, segment or facts(one, end="2024-03-12T23:59:30"))
    return str(choice.rejected.get(one.name, "serves"))
