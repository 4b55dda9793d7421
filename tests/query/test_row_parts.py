"""Parts of a segment's rows, as tasks share them: one after the other they are the whole scan."""

import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scale import tries

import projseg
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.memory.cache import KEPT
from projseg.reader import row_scan, segment_source
from projseg.reader.answer import answer
from projseg.reader.plan.query_plan import plan_query
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.spark_engine.warehouse import set_properties
from projseg.table_layer.metadata.known_properties import MAX_DELETED_RATIO

ROWS = 5 * PAGE_ROWS_MAX + 1234
START = int(datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC).timestamp() * 1e6)
CONDITIONS = [
    None,
    "city = 'City 7'",
    "city IS NULL OR few > 3",
    "rising BETWEEN 70000 AND 140000",
    "noise % 3 = 0",
    "length(name) > 8 AND NOT flag",
    "day > DATE'2024-05-03'",
    "noise = 12345",
]
INTERVALS = [None, "2024-05-01T11:06:40Z/PT14H"]
COLUMNS = [
    ("*",),
    ("rising", "city", "few"),
    ("noise + 1 AS more", "upper(city) AS shout"),
    ("name", "tags"),
    ("price", "real", "added_later"),
]


def made_rows():
    """Return rows whose columns take every kind of encoding: runs, steps, ids, texts, lists."""
    random = np.random.default_rng(11)
    number = np.arange(ROWS)
    city = random.integers(0, 40, ROWS)
    return pa.table(
        {
            "time": pa.array(START + number * 500_000, pa.timestamp("us", "UTC")),
            "rising": pa.array(number),
            "one": pa.array(np.full(ROWS, 7, np.int16)),
            "runs": pa.array(number // 9_000),
            "few": pa.array(random.integers(0, 7, ROWS), mask=city == 5),
            "noise": pa.array(random.integers(-(2**60), 2**60, ROWS)),
            "real": pa.array(np.where(city == 1, np.nan, random.random(ROWS)), mask=city == 2),
            "price": pa.array(random.integers(0, 10**6, ROWS)).cast(pa.decimal128(21, 2)),
            "flag": pa.array(city % 2 == 0, mask=city == 9),
            "day": pa.array((19844 + number // 60_000).astype(np.int32)).cast(pa.date32()),
            "city": pa.array([None if c == 0 else f"City {c}" for c in city.tolist()]),
            "name": pa.array([f"name {n * 7919 % ROWS}" for n in range(ROWS)]),
            "bytes": pa.array([bytes([c, n % 251]) for n, c in enumerate(city.tolist())]),
            "tags": pa.array([[f"t{c % 3}"] if c % 4 else None for c in city.tolist()]),
        }
    )


@pytest.fixture(scope="module", params=["all rows", "some rows deleted"])
def table(request, tmp_path_factory):
    rows = made_rows()
    location = tmp_path_factory.mktemp("parts") / "t"
    table = projseg.Table.create(location, rows.schema, time_column="time")
    table.append(rows)
    table.add_column("added_later", "bigint")
    if request.param == "some rows deleted":
        set_properties(table, {MAX_DELETED_RATIO: "0.5"})
        table.delete(f"rising % 50 = 3 OR rising BETWEEN {PAGE_ROWS_MAX} AND {2 * PAGE_ROWS_MAX}")
        assert table.snapshot.segments[0].deletion_vector is not None
    assert len(table.snapshot.segments) == 1
    return table


def plan_of(table, **asked):
    properties = table.snapshot.properties
    query = Query(context={"noProjections": True, "timezone": "UTC"}, **asked)
    return plan_query(table.snapshot, bind_query(properties.schema, "time", query))


def parts_of(plan, cuts):
    """Yield a plan for each part of its only segment between neighbouring rows."""
    (segment,) = plan.segments
    for start, end in pairwise(cuts):
        choice = segment.choice.part(start, end)
        yield replace(plan, segments=() if choice.is_empty else (replace(segment, choice=choice),))


def scanned(table, plan, threads=1):
    batches = row_scan.scan(table.snapshot.storage, plan, plan.segments, threads)
    return pa.Table.from_batches(batches, plan.query.output_schema)


def bits(table):
    """Return doubles as their bits, as NaN equals nothing."""
    for index, field in enumerate(table.schema):
        if field.type == pa.float64():
            chunks = [chunk.view(pa.int64()) for chunk in table.column(index).chunks]
            column = pa.chunked_array(chunks, pa.int64())
            table = table.set_column(index, field.name, column)
    return table.combine_chunks()


rows_of_pages = st.integers(1, ROWS // PAGE_ROWS_MAX).map(lambda page: page * PAGE_ROWS_MAX)


@settings(max_examples=tries(60))
@given(
    cuts=st.sets(st.one_of(rows_of_pages, st.integers(1, ROWS - 1)), max_size=5),
    columns=st.sampled_from(COLUMNS),
    condition=st.sampled_from(CONDITIONS),
    interval=st.sampled_from(INTERVALS),
    threads=st.sampled_from([1, 2]),
    forgets=st.booleans(),
)
@example({PAGE_ROWS_MAX, 3 * PAGE_ROWS_MAX}, ("*",), None, None, 1, True)
def test_parts_are_the_whole_scan_in_its_order(
    table, cuts, columns, condition, interval, threads, forgets
):
    asked = {} if columns == ("*",) else {"columns": columns}
    plan = plan_of(table, filter=condition, interval=interval, **asked)
    whole = scanned(table, plan)
    KEPT.clear()
    found = []
    for part in parts_of(plan, [0, *sorted(cuts), ROWS]):
        found.append(scanned(table, part, threads))
        if forgets:
            KEPT.clear()
    assert bits(pa.concat_tables(found)).equals(bits(whole))


def test_a_part_decodes_no_page_outside(table, monkeypatch):
    decoded = {}
    column = SegmentFile.column

    def recorded(self, table, role, name, *pages):
        decoded.setdefault(name, []).append(pages)
        return column(self, table, role, name, *pages)

    monkeypatch.setattr(SegmentFile, "column", recorded)
    plan = plan_of(table, columns=("runs", "city", "name"), filter="noise <> 1")
    KEPT.clear()
    scanned(table, next(parts_of(plan, [PAGE_ROWS_MAX, 4 * PAGE_ROWS_MAX])))
    assert decoded == {name: [(1, 4)] for name in ("noise", "runs", "city", "name")}


SCANNED_ONCE = [
    {"columns": ("runs", "city", "noise")},
    {"columns": ("runs", "city", "noise"), "filter": "few > 1"},
    {"columns": ("runs", "city", "noise"), "filter": "few = 1 AND rising > 70000"},
    {"columns": ("runs", "city", "noise"), "order_by": ("noise DESC",), "limit": 70},
    {
        "columns": ("runs", "city", "few", "real"),
        "order_by": ("few", "real"),
        "filter": "noise > 0",
        "limit": 30,
    },
]


@pytest.mark.parametrize("asked", SCANNED_ONCE)
def test_columns_are_kept_by_the_second_scan(table, asked, monkeypatch):
    decoded = {}
    column = SegmentFile.column

    def recorded(self, table, role, name, first=0, end=None):
        vector = column(self, table, role, name, first, end)
        decoded.setdefault(name, []).extend(range(first, ROWS if end is None else end))
        return vector

    plan = plan_of(table, **asked)
    read_first = asked.get("filter", "") + " ".join(asked.get("order_by", ()))
    outputs = {name for name in asked["columns"] if name not in read_first}
    KEPT.clear()
    expected = bits(scanned(table, plan))
    monkeypatch.setattr(segment_source, "_PASSING_ROWS_MIN", ROWS)
    monkeypatch.setattr(SegmentFile, "column", recorded)
    KEPT.clear()
    assert bits(scanned(table, plan, threads=2)).equals(expected)
    once = {name: pages for name, pages in decoded.items() if name in outputs}
    assert once.keys() == outputs
    assert all(len(pages) == len(set(pages)) for pages in once.values()), "no page is decoded twice"
    kept = {key[-3 if key[0] == "pages" else -1] for key in kept_columns()}
    assert kept.isdisjoint(outputs if "limit" not in asked else asked["columns"])
    assert bits(scanned(table, plan, threads=2)).equals(expected)
    assert kept_columns()
    decoded.clear()
    assert bits(scanned(table, plan, threads=2)).equals(expected)
    assert decoded == {}


def kept_columns():
    return [key for key in KEPT._entries if key[0] in ("column", "pages")]


def test_groups_of_parts_add_up(table):
    plan = plan_of(table, aggregators=("count(*) AS n", "sum(rising)", "max(city)"))
    parts = list(parts_of(plan, [0, 1, PAGE_ROWS_MAX, 4 * PAGE_ROWS_MAX + 7, ROWS]))
    found = [answer(table.snapshot.storage, part).to_pylist()[0] for part in parts]
    counts, sums, cities = zip(*(row.values() for row in found), strict=True)
    whole = tuple(answer(table.snapshot.storage, plan).to_pylist()[0].values())
    assert (sum(counts), sum(filter(None, sums)), max(filter(None, cities))) == whole


def test_a_limit_holds_within_a_part(table):
    start = 2 * PAGE_ROWS_MAX + 10
    found = scanned(
        table, next(parts_of(plan_of(table, columns=("rising",), limit=5), [start, ROWS]))
    )
    whole = scanned(table, plan_of(table, columns=("rising",)))["rising"].to_pylist()
    assert found["rising"].to_pylist() == [row for row in whole if row >= start][:5]


def test_the_first_part_reads_all_of_a_projection(tmp_path):
    rows = made_rows().select(["time", "city", "noise"])
    table = projseg.Table.create(
        tmp_path / "t",
        rows.schema,
        time_column="time",
        projections=[{"name": "by_city", "sql": "SELECT * ORDER BY city"}],
    )
    table.append(rows)
    context = {"timezone": "UTC", "forceProjections": True}
    query = Query(filter="city = 'City 7'", context=context)
    properties = table.snapshot.properties
    plan = plan_query(table.snapshot, bind_query(properties.schema, "time", query))
    assert [one.source_name for one in plan.segments[0].choice.plans] == ["by_city"]
    parts = list(parts_of(plan, [0, PAGE_ROWS_MAX, ROWS]))
    assert [len(part.segments) for part in parts] == [1, 0]
    assert scanned(table, parts[0]).equals(scanned(table, plan))
