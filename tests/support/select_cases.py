"""Random SELECTs of every shape that is served, in the words of Spark and in those of DuckDB.

They are about tables of `query_cases.SCHEMA` whose times lie about a change of clocks, each row at
a time of its own, so that no answer depends on the order of rows.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import query_cases
from hypothesis import strategies as st
from select_texts import (
    COMPOSED,
    CONDITION,
    HAVING,
    KEYS,
    ONE_CONDITION,
    OTHER_KEYS,
    OUTPUT,
    STORED,
    WHOLE,
    Text,
    both,
    said,
)

SPAN = (datetime.datetime(2024, 3, 8, 20, tzinfo=datetime.UTC), 4 * 24 * 60)
ZONES = ["UTC", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe"]


@dataclass(frozen=True)
class Select:
    """A SELECT in a time zone. The first `keys` outputs, and the last if sets are, name its group.

    peer: None where DuckDB has another meaning for a part. is_ordered: rows come in one order.
    """

    sql: str
    peer: str | None
    zone: str
    keys: int
    is_ordered: bool = False
    has_sets: bool = False
    where: str | None = None


def _joined(texts):
    return said(", ".join(f"{{{n}}}" for n in range(len(texts))), *texts)


def _directions(draw, texts):
    chosen = st.sampled_from(["", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"])
    return _joined([said(f"{{0}}{draw(chosen)}", text) for text in texts])


def _terms(draw, keys):
    """Return what stands after GROUP BY, and whether it has several sets."""
    form = draw(st.sampled_from(["plain", "plain", "ROLLUP", "CUBE", "sets", "after"]))
    if form == "plain" or not keys:
        return _joined(keys) if keys else None, False
    if form in ("ROLLUP", "CUBE"):
        return said(f"{form}({{0}})", _joined(keys)), True
    if form == "after":
        rest = keys[1:] or keys
        return said("{0}, ROLLUP({1})", keys[0], _joined(rest)), True
    subsets = st.lists(st.sampled_from(keys), unique=True, max_size=len(keys))
    chosen = [keys, *draw(st.lists(subsets, min_size=1, max_size=3))]
    sets = [said("({0})", _joined(one)) if one else both("()") for one in chosen]
    return said("GROUPING SETS ({0})", _joined(sets)), True


def _meaning(key):
    return key.peer or key.sql


@st.composite
def groups(draw, keys=KEYS):
    """A SELECT of groups."""
    grouped = draw(st.lists(st.sampled_from(keys), max_size=3, unique_by=_meaning))
    outputs = draw(st.lists(OUTPUT, min_size=1, max_size=3))
    terms, has_sets = _terms(draw, grouped)
    over_keys = [key for key in grouped if key.sql == "channel"]
    outputs += [said("upper({0})", key) for key in over_keys]
    if not has_sets:
        outputs += [said("any_value({0})", key) for key in grouped[:1]]
    listed = [*grouped, *outputs]
    if has_sets:
        listed += [said("grouping({0})", key) for key in grouped[:1]]
        listed.append(said("grouping_id({0})", _joined(grouped)))
    named = [said(f"{{0}} AS o{place}", text) for place, text in enumerate(listed)]
    parts = [said("SELECT {0} FROM edits", _joined(named))]
    condition = draw(st.none() | CONDITION)
    parts += [said("WHERE TRUE AND ({0})", condition)] if condition else []
    parts += [said("GROUP BY {0}", terms)] if grouped else []
    havings = st.none() | HAVING
    if has_sets:
        havings |= st.just(said("grouping({0}) = 0 OR count(*) > 3", grouped[0]))
    having = draw(havings)
    parts += [said("HAVING {0}", having)] if having else []
    is_ordered = bool(grouped) and draw(st.booleans())
    if is_ordered:
        first = draw(st.lists(st.one_of(WHOLE, COMPOSED.filter(_is_exact)), max_size=2))
        last = [said("grouping_id({0})", _joined(grouped))] if has_sets else []
        parts.append(said("ORDER BY {0}", _directions(draw, [*first, *grouped, *last])))
        parts += [both(f"LIMIT {draw(st.integers(0, 9))}")] if draw(st.booleans()) else []
    return _select(draw, parts, len(grouped), is_ordered, has_sets, condition)


def _is_exact(text):
    return "/" not in text.sql and "divide" not in text.sql


@st.composite
def rows(draw, keys=KEYS):
    """A SELECT of rows, each with its time."""
    outputs = [both("time"), *draw(st.lists(st.sampled_from(keys), max_size=3))]
    named = [said(f"{{0}} AS o{place}", text) for place, text in enumerate(outputs)]
    parts = [said("SELECT {0} FROM edits", _joined(named))]
    condition = draw(st.none() | CONDITION | CONDITION)
    parts += [said("WHERE TRUE AND ({0})", condition)] if condition else []
    is_ordered = draw(st.booleans())
    if is_ordered:
        first = draw(st.lists(st.sampled_from(OTHER_KEYS), max_size=2, unique=True))
        parts.append(said("ORDER BY {0}", _directions(draw, [*first, both("time")])))
        parts += [both(f"LIMIT {draw(st.integers(0, 9))}")] if draw(st.booleans()) else []
        parts += [both(f"OFFSET {draw(st.integers(0, 4))}")] if draw(st.booleans()) else []
    return _select(draw, parts, len(outputs), is_ordered, False, condition)


def _select(draw, parts, keys, is_ordered, has_sets, condition):
    whole = said(" ".join(f"{{{n}}}" for n in range(len(parts))), *parts)
    zone = draw(st.sampled_from(ZONES))
    where = condition.peer if condition else None
    return Select(whole.sql, whole.peer, zone, keys, is_ordered, has_sets, where)


def _grouped_projection(keys, aggregates, where):
    listed = [f"{one.sql} AS p{n}" for n, one in enumerate([*keys, *aggregates])]
    filtered = f" WHERE {where.sql}" if where else ""
    return f"SELECT {', '.join(listed)}{filtered} GROUP BY ALL"


def _row_projection(columns, order, where):
    listed = list(dict.fromkeys(["time", *order, *columns]))
    filtered = f" WHERE {where.sql}" if where else ""
    return f"SELECT {', '.join(listed)}{filtered} ORDER BY {', '.join(order)}"


_COLUMN = st.sampled_from(query_cases.SCHEMA.names)
PROJECTION = st.one_of(
    st.builds(
        _grouped_projection,
        st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique_by=_meaning),
        st.lists(STORED, min_size=1, max_size=5, unique_by=lambda one: one.sql),
        st.none() | st.none() | CONDITION,
    ),
    st.builds(
        _row_projection,
        st.lists(_COLUMN, max_size=8, unique=True),
        st.lists(_COLUMN, min_size=1, max_size=2, unique=True),
        st.none() | st.none() | CONDITION,
    ),
)


def _at_times(minutes):
    start, _ = SPAN
    return st.tuples(
        *(
            query_cases.ROW.map(
                lambda row, minute=minute: (
                    row
                    | {
                        "time": start + datetime.timedelta(minutes=minute),
                        "price": None if row["price"] is None else row["price"] + 0.0,
                    }
                )
            )
            for minute in minutes
        )
    ).map(list)


ROWS = st.lists(st.integers(0, SPAN[1]), min_size=1, max_size=50, unique=True).flatmap(_at_times)


def selects(keys, size):
    """Return a strategy of so many SELECTs over a table."""
    return st.lists(groups(keys) | groups(keys) | rows(keys), min_size=size, max_size=size)


@dataclass(frozen=True)
class Stored:
    """Rows, and how tables hold them."""

    rows: list
    projections: list
    granularity: str
    deleted: Text


STORED_ROWS = st.builds(
    Stored,
    ROWS,
    st.lists(PROJECTION, min_size=1, max_size=3),
    st.sampled_from(["hour", "day", "month", "all"]),
    ONE_CONDITION,
)
