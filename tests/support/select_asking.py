"""Tables of mixed sources for `select_cases`, and the comparison of their answers with a peer's."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager

import pyarrow as pa
import rows_oracle
from answers_agree import same
from query_cases import SCHEMA

import projseg

CONTEXTS = ({}, {"noProjections": True})


@contextmanager
def tables_of(stored, data: pa.Table):
    """Yield two tables of the rows of a `select_cases.Stored`.

    All segments of the first have the projections. Of the second one part has them, one the first
    only, and one none; and rows are deleted.
    """
    projections = [{"name": f"p{n}", "sql": sql} for n, sql in enumerate(stored.projections)]
    with tempfile.TemporaryDirectory() as folder:
        whole = _table(f"{folder}/whole", stored, projections)
        _append(whole, data)
        mixed, third = _table(f"{folder}/mixed", stored, []), len(data) // 3
        _append(mixed, data.slice(0, third))
        mixed.add_projection(projections[0])
        _append(mixed, data.slice(third, third))
        for projection in projections[1:]:
            mixed.add_projection(projection)
        _append(mixed, data.slice(2 * third))
        mixed.delete(stored.deleted.sql)
        yield whole, mixed


def _table(location, stored, projections):
    return projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity=stored.granularity,
        projections=projections,
    )


def _append(table, data):
    if len(data):
        table.append(data)


def assert_answers(table, select, expected):
    """Compare what projections and what base rows answer with a peer's rows."""
    for context in CONTEXTS:
        found = table.sql(select.sql, context={**context, "timezone": select.zone})
        assert_same_rows(rows_of(found), expected, select)


def rows_of(answer: pa.Table):
    """Return rows of values that compare alike: instants as microseconds, sets sorted."""
    return [list(row) for row in zip(*map(_values, answer.columns), strict=True)]


def _values(column):
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    values = column.to_pylist()
    return [sorted(one) if isinstance(one, list) else one for one in values]


def assert_same_rows(found, expected, select):
    """Compare rows, in their order if the SELECT says one."""
    if not select.is_ordered:
        found, expected = (sorted(rows, key=_group_of(select)) for rows in (found, expected))
    assert len(found) == len(expected), (found, expected)
    for row, other in zip(found, expected, strict=True):
        assert all(map(_same, row, other)), (row, other)


def _group_of(select):
    def group(row):
        named = row[: select.keys] + (row[-1:] if select.has_sets else [])
        return repr([rows_oracle.normal(value) for value in named])

    return group


def _same(value, other):
    return value == other if isinstance(value, list) else same(value, other)
