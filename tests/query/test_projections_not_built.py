import numpy as np
import pyarrow as pa

import projseg


def test_a_state_that_the_format_cannot_hold_gives_up_its_projection_only(tmp_path):
    count = 4_300_000  # a list of so many distinct values passes LIST_ITEMS_MAX
    rows = pa.table({"channel": ["#a"] * count, "user": np.arange(count) * 7919})
    table = projseg.Table.create(
        tmp_path / "t",
        rows.schema,
        target_segment_rows=count,
        projections=[
            projseg.Projection("users", ["channel"], ["count(DISTINCT user)"]),
            projseg.Projection("edits", ["channel"], ["count(*)", "sum(user)"]),
        ],
    )
    table.append(rows)
    (segment,) = table.segments().to_pylist()
    assert segment["projections"] == ["edits"]
    assert "PROJSEG_LIMIT_EXCEEDED" in dict(segment["not_built"])["users"]
    answer = table.query(aggregators="count(DISTINCT user) AS users, sum(user) AS total")
    assert answer.to_pylist() == [{"users": count, "total": 7919 * count * (count - 1) // 2}]
    assert table.verify() == []


def test_dictionaries_keep_apart_whatever_columns_are_called(tmp_path):
    rows = pa.table({"projection/0": ["b", "a"] * 5, "x": [3, 4] * 5})
    by_upper = projseg.Projection("projection", ["upper(`projection/0`) AS u"], ["sum(x) AS s"])
    table = projseg.Table.create(tmp_path / "t", rows.schema, projections=[by_upper])
    table.append(rows)
    found = table.query("upper(`projection/0`) AS u", "sum(x) AS s", order_by="u").to_pylist()
    assert found == [{"u": "A", "s": 20}, {"u": "B", "s": 15}]
    assert table.segments()["projections"].to_pylist() == [["projection"]]
