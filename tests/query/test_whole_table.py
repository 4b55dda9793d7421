"""Counts of rows and the ends of time of whole tables: manifests state them, and rows agree."""

import datetime as dt
import random

import pyarrow as pa
import pytest

import projseg
from projseg.memory.cache import KEPT

SCHEMA = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
FIRST = dt.datetime(2024, 2, 28, tzinfo=dt.UTC)
TOTALS = ("count(*) AS n", "min({time}) AS first", "max({time}) AS last")


def rows(drawn, day, count):
    start = FIRST + dt.timedelta(days=day)
    times = [start + dt.timedelta(seconds=drawn.randrange(86_400)) for _ in range(count)]
    keys = [drawn.choice(["a", "b", None]) for _ in range(count)]
    return pa.table([times, keys, [drawn.randrange(9) for _ in range(count)]], SCHEMA)


def opened(table):
    KEPT.clear()
    return projseg.Table(table.location)


def check(table, time="time"):
    """Compare totals with those of the rows, in whichever order they are asked for."""
    asked = [text.format(time=time) for text in TOTALS]
    for wanted in (asked, asked[:1], asked[1:], [asked[2], *asked[:2], asked[0] + "2"]):
        by_rows = opened(table).query(aggregators=wanted, context={"noProjections": True})
        assert opened(table).query(aggregators=wanted).equals(by_rows), wanted


@pytest.mark.parametrize("seed", range(3))
def test_totals_are_those_of_the_rows_through_a_table_s_life(tmp_path, seed):
    drawn = random.Random(seed)
    options = {"segment_granularity": "day"} if seed else {"target_segment_rows": 7}
    table = projseg.Table.create(tmp_path / "t", SCHEMA, time_column="time", **options)
    check(table)
    table.append(pa.concat_tables([rows(drawn, day, drawn.randrange(1, 30)) for day in range(6)]))
    check(table)
    table.rename_column("time", "at")
    check(table, "at")
    table.rename_column("at", "time")
    table.add_column("w", "double")
    first, last = (
        opened(table).query(aggregators=f"{f}(time) AS t")["t"][0] for f in ("min", "max")
    )
    table.delete(f"v = {drawn.randrange(9)}")
    check(table)
    for end in (first, last):
        table.delete(f"time = TIMESTAMP '{end.as_py():%Y-%m-%d %H:%M:%S}+00:00'")
        check(table)
    table.append(rows(drawn, 9, 5).append_column("w", pa.array([1.5] * 5)))
    check(table)
    table.compact()
    check(table)
    table.delete("true")
    check(table)


def test_no_entry_is_decoded_until_a_plan_is_looked_at(tmp_path):
    table = projseg.Table.create(tmp_path / "t", SCHEMA, time_column="time", target_segment_rows=5)
    table.append(rows(random.Random(1), 0, 50))
    table = opened(table)
    wanted = [text.format(time="time") for text in TOTALS]
    assert table.query(aggregators=wanted)["n"].to_pylist() == [50]
    (manifest,) = table.snapshot.load_all()
    assert (len(manifest), manifest.decoded_count) == (10, 0)
    explained = table.explain(aggregators=wanted)
    assert explained.sources == {"metadata": 10}
    assert manifest.decoded_count == 10
