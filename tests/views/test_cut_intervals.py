"""An interval that cuts parts is answered by whole buckets of them and by rows at its edges."""

import pytest
from viewed_tables import answer, in_duckdb, is_from_parts, new_viewed_table, row, rows

SEVERAL = [row(hour, minute, "ab"[hour % 2], 1, hour, 100)
           for hour in range(72) for minute in (5, 25, 45)]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a table of three days from 2024-02-27, with a daily part of each."""
    table = new_viewed_table(str(tmp_path_factory.mktemp("cut") / "t"), SEVERAL)
    sql = "SELECT k, date_trunc('HOUR', time) AS h, sum(n) AS n FROM t GROUP BY ALL"
    table.create_view("v", sql, chunk="day")
    assert table.view("v").parts().num_rows == 3
    return table


@pytest.mark.parametrize(
    ("start", "end", "edges"),
    [
        ("02-26 23:30", "03-01 00:30", 0),  # beyond both ends, which no boundary is at
        ("02-27 00:05", "02-29 23:46", 0),  # at the first and just after the last row
        ("02-27 00:06", "03-01 00:30", 1),
        ("02-27 05:30", "02-29 00:00", 1),
        ("02-28 05:30", "03-02 00:00", 1),
        ("02-26 00:00", "02-28 17:30", 1),
        ("02-26 00:00", "02-29 23:45", 1),
        ("02-27 05:30", "02-29 17:30", 2),
        ("02-28 00:00", "02-29 00:00", 0),
    ],
)
def test_edges_alone_are_read_as_rows(table, start, end, edges):
    asked = (
        f"SELECT k, sum(n) AS n FROM t WHERE time >= TIMESTAMP '2024-{start}:00' "
        f"AND time < TIMESTAMP '2024-{end}:00' GROUP BY k"
    )
    assert answer(table, asked, useView="v") == in_duckdb(asked, rows(SEVERAL))
    assert is_from_parts(table, asked, useView="v")
    sources = table.explain(asked, context={"useView": "v"}).sources
    assert sum(count for name, count in sources.items() if name != "view:v") == edges, sources
