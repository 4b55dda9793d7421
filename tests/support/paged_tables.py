"""What the tests of the page know: its token and host, names that try to break it, and a table."""

import random

import pyarrow as pa

import projseg

TOKEN = "a token of thirty-two characters"
HOST = "127.0.0.1:8642"
HOSTILE = '<img src=x onerror="alert(1)">'
TURNED = "left\u202eright"


def hours(first, count):
    return pa.array([h * 3_600_000_000 for h in range(first, first + count)]).cast(
        pa.timestamp("us", "UTC")
    )


def make_edits(path):
    """A table of 40 days with everything that goes half right."""
    drawn = random.Random(3)

    def rows(first, count):
        return pa.table(
            {
                "time": hours(first, count),
                "country": [drawn.choice(["de", "fr", None, "pl"]) for _ in range(count)],
                "added": pa.array([drawn.randrange(1000) for _ in range(count)], pa.int32()),
                TURNED: [drawn.choice(["x", "y"]) for _ in range(count)],
            }
        )

    table = projseg.Table.create(
        path,
        rows(0, 1).schema,
        time_column="time",
        segment_granularity="day",
        projections=[
            projseg.Projection("hourly", ["date_trunc('HOUR', time)", "country"], ["sum(added)"])
        ],
    )
    table.append(rows(0, 480))
    table.add_projection(projseg.Projection("late", ["country"], ["count(*)"]))
    # It divides by zero where a row has fewer than 7.
    risky = projseg.Projection("risky", ["country", "1 / (added - added % 7) AS r"], ["count(*)"])
    table.add_projection(risky)
    table.append(rows(480, 240))
    table.add_index({"name": "by_country", "kind": "bloom", "columns": ["country"]})
    table.append(rows(720, 120))
    table.create_view(
        "daily",
        "SELECT date_trunc('DAY', time) AS d, sum(added) AS s FROM t GROUP BY ALL",
        refresh="deferred",
    )
    table.view("daily").refresh()
    table.tag("before", table.version)
    table.append(rows(840, 120))
    table.delete("added = 5 OR added = 6")
    return table
