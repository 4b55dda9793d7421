"""Declare generated projections on a table, and ask it generated queries."""

import rows_oracle

import projseg


def declare(table, name, projection):
    """Declare a `query_cases.ProjectionCase`."""
    table.add_projection(
        projseg.Projection(
            name,
            [f"{key.sql} AS k{n}" for n, key in enumerate(projection.keys)],
            [f"{a.sql} AS a{n}" for n, a in enumerate(projection.aggregates)],
            where=None if projection.condition is None else projection.condition.sql,
        )
    )


def ask(table, query, **context):
    """Return {key tuple: values} of a `query_cases.QueryCase`."""
    result = table.query(
        group_by=[f"{key.sql} AS k{n}" for n, key in enumerate(query.keys)],
        aggregators=[f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)],
        filter=None if query.condition is None else query.condition.sql,
        interval=query.interval,
        having=None if query.having is None else query.having.sql,
        context=context,
    )
    return keyed(result, len(query.keys))


def keyed(table, width):
    """Return {key tuple: values} of an answer whose first `width` columns are keys."""
    rows = [tuple(row.values()) for row in table.to_pylist()]
    answer = {tuple(map(rows_oracle.normal, row[:width])): row[width:] for row in rows}
    assert len(answer) == len(rows), "a group stands twice in the answer"
    return answer
