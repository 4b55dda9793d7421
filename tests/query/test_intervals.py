"""An interval keeps the rows that Python keeps, whether rows are in time order or not."""

import datetime
import tempfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg

START = datetime.datetime(2024, 5, 1)
TYPES = [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()]
# Few times and many, far apart and near: they are stored as ids, and as numbers of any width.
STEPS = st.sampled_from([1, 60, 3_600, 86_400, 40_000_000])
PROJECTION = projseg.Projection("hours", ["date_trunc('HOUR', t) AS hour"], ["count(*) AS n"])


def written(seconds):
    return (START + datetime.timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize("arrow_type", TYPES, ids=str)
@pytest.mark.parametrize("order", [(), ("n", "t")])
@settings(max_examples=tries(500, 6))
@given(
    places=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    step=STEPS,
    ends=st.lists(
        st.tuples(st.integers(-1, 10), st.sampled_from([0, 1, -1])), min_size=2, max_size=2
    ),
)
def test_rows_of_an_interval(arrow_type, order, places, step, ends):
    if arrow_type == pa.date32():
        step = max(step, 86_400) // 86_400 * 86_400
    seconds = [place * step for place in places]
    times = [START + datetime.timedelta(seconds=second) for second in seconds]
    times = pa.array(times, pa.timestamp("us")).cast(arrow_type)
    rows = pa.table({"t": times, "n": pa.array(range(len(places)))})
    start, end = sorted(place * step + more for place, more in ends)
    kept = sorted(n for n, second in enumerate(seconds) if start <= second < end)
    with tempfile.TemporaryDirectory() as folder:
        table = projseg.Table.create(
            folder + "/t",
            rows.schema,
            time_column="t",
            cluster_by=order,
            projections=[] if arrow_type == pa.date32() else [PROJECTION],
        )
        table.append(rows)
        interval = f"{written(start)}/{written(end)}"
        found = [n for batch in table.scan("n", interval=interval) for n in batch["n"].to_pylist()]
        assert sorted(found) == kept
        counted = table.query(aggregators="count(*) AS n", interval=interval)
        assert counted["n"].to_pylist() == [len(kept)]
        by_n = table.query("n", "count(*) AS c", filter=f"n % 2 = {step % 2}", interval=interval)
        assert sorted(by_n["n"].to_pylist()) == [n for n in kept if n % 2 == step % 2]
        low, high = start // 3_600 * 3_600, -(-end // 3_600) * 3_600
        whole = f"{written(low)}/{written(high)}"
        hours = table.query(aggregators="count(*) AS n", interval=whole)["n"].to_pylist()
        assert hours == [sum(low <= second < high for second in seconds)]
