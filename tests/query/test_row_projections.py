"""Projections of rows: the same answers as base rows, in the same order, from fewer pages."""

import datetime
import shutil
import tempfile
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import one_of, tries

import projseg
from projseg.errors import ProjsegError, UnsupportedFeatureError
from projseg.memory.cache import KEPT
from projseg.segment_format import footer
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.vectors import Numbers
from projseg.table_layer.metadata import checksummed_json
from projseg.writer import segment_contents

ROWS = 150_000
PAGED_ROWS = 330_000
DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
BY_CITY = {"name": "by_city", "sql": "SELECT * ORDER BY city, added ASC NULLS FIRST"}
DEAR = projseg.Projection(
    "dear",
    columns=["price", "time", "lower(city) AS town", "added"],
    order_by=["town", "price"],
    where="price >= 900",
)
BY_HOUR = {
    "name": "by_hour",
    "sql": "SELECT date_trunc('HOUR', time) AS hour, city, count(*) AS n GROUP BY ALL",
}
BASE = {"noProjections": True}


def made_rows(count, seed):
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 86_400, count)) * 1_000_000 + int(DAY.timestamp() * 1e6)
    city = random.integers(0, 300, count)
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "city": pa.array([None if c == 0 else f"City {c:03d}" for c in city.tolist()]),
            "added": pa.array(random.integers(-50, 1000, count), mask=city % 17 == 3),
            "price": random.integers(0, 100_000, count) / 100,
            "tags": pa.array([[str(c % 3)] if c % 5 else None for c in city.tolist()]),
        }
    )


def create(location, rows, projections):
    table = projseg.Table.create(location, rows.schema, time_column="time", projections=projections)
    table.append(rows)
    return table


def whole(folder):
    return create(folder / "t", made_rows(ROWS, 1), [BY_CITY, DEAR, BY_HOUR])


def with_deleted_rows(folder):
    table = whole(folder)
    assert table.delete(filter="added % 100 = 7 OR city = 'City 011'").masked_segments == 1
    return table


def partly_built(folder):
    """Two segments with the projections, and one that was written before they were declared."""
    table = create(folder / "t", made_rows(ROWS // 3, 2), [BY_HOUR])
    table.add_projection(BY_CITY)
    table.add_projection(DEAR)
    table.append(made_rows(ROWS // 3, 3))
    table.append(made_rows(ROWS // 3, 4))
    return table


@pytest.fixture(scope="module", params=[whole, with_deleted_rows, partly_built])
def table(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("rows"))


ONE = "city = 'City 042'"
QUESTIONS = [
    {"columns": "*", "filter": ONE},
    {
        "columns": ["added + 1 AS more", "tags", "upper(city) AS c"],
        "filter": f"{ONE} AND added > 5",
    },
    {"columns": "time, city", "filter": "city IS NULL"},
    {"columns": "time, city", "filter": ONE, "interval": "2024-05-01T03:00/2024-05-01T05:10:07"},
    {"columns": "price", "filter": "city < 'City 004'", "limit": 11},
    {"columns": "price", "filter": "city < 'City 009'", "limit": 20_000},
    {"columns": "city, added", "filter": "city < 'City 004'", "order_by": "added DESC", "limit": 9},
    {"columns": "added", "filter": ONE, "order_by": "added"},
    {"columns": "1 AS one", "filter": "city IN ('City 001', 'City 299', 'nowhere')"},
    {"aggregators": "sum(added), count(*), count(added), min(time), max(price)", "filter": ONE},
    {
        "aggregators": "count(*), sum(added) FILTER (WHERE price > 500)",
        "filter": "city > 'City 298'",
    },
    {"aggregators": "count(DISTINCT added), first(price)", "filter": "city IN ('City 007')"},
    {"group_by": "added", "filter": ONE},
    {"group_by": "city, added", "filter": "city < 'City 003'"},
    {"group_by": "date_trunc('HOUR', time) AS h", "aggregators": "sum(added)", "filter": ONE},
    {
        "group_by": "city",
        "aggregators": "max(added)",
        "filter": "city LIKE 'City 01%'",
        "interval": "2024-05-01T03:00/P1D",
    },
    {"columns": "*", "filter": "city = 'City 042' AND city = 'City 043'"},
]


def ordered(answer, question):
    if "group_by" not in question or question.get("order_by"):
        return answer
    return answer.sort_by([(name, "ascending") for name in answer.column_names])


@pytest.mark.parametrize("question", one_of(2, QUESTIONS), ids=str)
def test_answers_do_not_depend_on_a_projection_of_rows(table, question):
    expected = table.query(**question, context=BASE)
    assert ordered(table.query(**question), question).equals(ordered(expected, question))
    if "columns" in question and "order_by" not in question:
        assert table.scan(**question, context={"threads": 1}).read_all().equals(expected)
    if len(table.segments()) == 1:
        forced = table.query(**question, context={"useProjection": "by_city"})
        assert ordered(forced, question).equals(ordered(expected, question))


def test_rows_of_part_of_the_table_answer_what_they_imply(table):
    question = {
        "columns": "price, lower(city) AS town",
        "filter": "lower(city) = 'city 100' AND price > 950",
    }
    assert "dear" in table.explain(**question).sources
    assert table.query(**question).equals(table.query(**question, context=BASE))
    total = {"aggregators": "sum(added), count(*)", "filter": "price >= 990 AND lower(city) < 'd'"}
    context = {"excludeProjections": "by_city"}
    assert table.query(**total, context=context).equals(table.query(**total, context=BASE))


def test_answers_are_those_of_duckdb(table):
    rows = table.query(context=BASE)
    for where in (ONE, "city IS NULL AND added > 900", "city BETWEEN 'City 005' AND 'City 006'"):
        found = table.query(aggregators="sum(added) AS s, count(*) AS n, max(price)", filter=where)
        wanted = duckdb.sql(
            f"SELECT sum(added)::BIGINT AS s, count(*) AS n, max(price) FROM rows WHERE {where}"
        )
        assert [tuple(row.values()) for row in found.to_pylist()] == wanted.fetchall()
        listed = table.query(columns="time, added", filter=where).to_pydict()
        pairs = duckdb.sql(f"SELECT epoch_us(time), added FROM rows WHERE {where}").fetchall()
        micros = [round(t.timestamp() * 1e6) for t in listed["time"]]
        assert sorted(zip(micros, listed["added"], strict=True), key=str) == sorted(pairs, key=str)
    assert rows.num_rows == table.query(aggregators="count(*) AS n")["n"][0].as_py()


def test_what_is_stored_verifies_deeply(table):
    assert table.verify(deep=True) == []


def test_a_filter_reads_only_pages_of_its_values(tmp_path, monkeypatch):
    table = create(tmp_path / "t", made_rows(PAGED_ROWS, 1), [BY_CITY])
    read = []
    pages = SegmentFile.pages

    def counted(self, directory, first, end, name):
        read.append((name, int(directory.records["row_count"][first:end].sum())))
        return pages(self, directory, first, end, name)

    monkeypatch.setattr(SegmentFile, "pages", counted)
    question = {"aggregators": "sum(price), min(added)", "filter": ONE}
    plan = table.explain(**question)
    assert plan.sources == {"by_city": 1}
    assert plan.figures.rows == PAGED_ROWS // 10 + 65_536  # no page was looked at yet
    table.query(**question)
    assert not any(name.startswith("__base/") for name, _ in read)
    assert {rows for name, rows in read if name.startswith("by_city/")} == {65_536}
    table.query(**question, context=BASE)
    assert dict(read)["__base/base/price"] == PAGED_ROWS
    read.clear()
    KEPT.clear()
    table.query(**question, context={"threads": 2})  # by two tasks, of which one finds no page
    assert {rows for name, rows in read if name.startswith("by_city/")} == {65_536}


def test_reasons_are_told(table):
    def reasons(**question):
        told = table.explain(**question).segments["rejected"].to_pylist()
        return {name: reason for row in told for name, reason in row if "NOT_IN" not in reason}

    scan = reasons(columns="price, city", filter="price > 5")
    assert scan["by_hour"] == "ROW_SCAN"
    assert scan["dear"] == "MISSING_GROUPING_COLUMN city"
    assert scan["by_city"].startswith("COSTLIER")
    assert (
        reasons(columns="price", filter="added = 5")["dear"] == "FILTER_NOT_IMPLIED price >= 900.0D"
    )
    counted = reasons(aggregators="count(tags)", filter="price > 950")
    assert counted["dear"] == "MISSING_GROUPING_COLUMN tags"
    tagged = reasons(columns="price", filter="tags IS NULL AND price > 990")
    assert tagged["dear"] == "FILTER_COLUMN_NOT_STORED tags"
    assert reasons(columns="price", filter=ONE, context=BASE)["by_city"].startswith("DISABLED")
    with pytest.raises(ProjsegError, match="PROJECTION_NOT_USABLE"):
        table.query(columns="price", context={"useProjection": "by_hour"})
    with pytest.raises(ProjsegError, match="PROJECTION_NOT_USABLE"):
        table.query(columns="tags", filter=ONE, context={"useProjection": "dear"})
    excluded = table.explain(columns="price", filter=ONE, context={"excludeProjections": "by_city"})
    assert "by_city" not in excluded.sources


def test_a_scan_that_is_ordered_or_limited_needs_the_time_that_ties_fall_to(tmp_path):
    rows = made_rows(500, 5)
    table = create(tmp_path / "t", rows, [{"name": "p", "sql": "SELECT city, added ORDER BY city"}])
    forced = {"useProjection": "p"}
    plain = {"columns": "city, added", "filter": "city > 'City 100'"}
    assert table.query(**plain, context=forced).equals(table.query(**plain, context=BASE))
    for more in ({"limit": 3}, {"order_by": "added"}):
        assert table.explain(**plain, **more).rejections["p"] == {"GRANULARITY_TOO_COARSE": 1}


def test_projections_of_rows_are_built_later_and_merged(tmp_path):
    table = partly_built(tmp_path)
    missing = {"by_city": 1, "dear": 1, "by_hour": 0}
    told = {row["name"]: row for row in table.projections().to_pylist()}
    assert {name: row["segments_missing"] for name, row in told.items()} == missing
    assert told["by_city"]["order_by"] == ["city", "added"]
    assert told["by_city"]["group_by"] is None
    table.materialize_projection()
    assert {row["segments_missing"] for row in table.projections().to_pylist()} == {0}
    assert table.query(columns="*", filter=ONE, context={"useProjection": "by_city"}).equals(
        table.query(columns="*", filter=ONE, context=BASE)
    )
    table.compact()
    assert len(table.segments()) == 1
    assert table.query(columns="*", filter=ONE).equals(
        table.query(columns="*", filter=ONE, context=BASE)
    )
    stats = {row["projection"]: row for row in table.projection_stats().to_pylist()}
    assert stats["by_city"]["rows"] == ROWS
    assert table.verify(deep=True) == []
    table.drop_projection("by_city")
    table.add_projection({"name": "by_city", "sql": "SELECT city, price ORDER BY price"})
    again = {"columns": "city", "filter": "price = 5.0"}
    assert table.query(**again).equals(table.query(**again, context=BASE))
    table.materialize_projection()
    assert table.query(**again, context={"useProjection": "by_city"}).equals(
        table.query(**again, context=BASE)
    )
    assert table.verify(deep=True) == []


def test_rows_that_a_projection_would_find_are_corrected_in_the_base_table(tmp_path):
    rows = made_rows(ROWS, 13)
    table = create(tmp_path / "t", rows, [BY_CITY])
    assert table.explain(aggregators="sum(added)", filter=ONE).sources == {"by_city": 1}
    left = rows.filter(pc.invert(pc.fill_null(pc.equal(rows["city"], "City 042"), False)))
    assert table.delete(filter=ONE).deleted_rows == len(rows) - len(left)
    for context in ({}, BASE):
        assert table.query(aggregators="count(*) AS n", filter=ONE, context=context)[
            "n"
        ].to_pylist() == [0]
    assert table.query(columns="*").equals(left.cast(table.schema))
    count = table.update({"added": "added + 5000"}, filter="city = 'City 043'").updated_rows
    total = {"aggregators": "count(*) AS n", "filter": "city = 'City 043' AND added >= 4950"}
    known = pc.sum(pc.is_valid(left.filter(pc.equal(left["city"], "City 043"))["added"])).as_py()
    assert 0 < known <= count
    for context in ({}, BASE):
        assert table.query(**total, context=context)["n"].to_pylist() == [known]
    assert table.verify(deep=True) == []


def test_columns_are_renamed_widened_and_dropped_under_a_projection_of_rows(tmp_path):
    rows = made_rows(2_000, 6).set_column(2, "added", pa.array(np.arange(2_000) % 90, pa.int32()))
    table = create(
        tmp_path / "t",
        rows,
        [
            {"name": "p", "sql": "SELECT city, added, time ORDER BY added, city"},
            {"name": "q", "sql": "SELECT price, city, added + 1 AS more ORDER BY price"},
        ],
    )
    question = {"columns": "town, added, time", "filter": "added = 7 AND town > 'City 1'"}
    table.rename_column("city", "town")
    table.widen_column("added", "bigint")
    table.append(rows.rename_columns(["time", "town", "added", "price", "tags"]))
    expected = table.query(**question, context=BASE)
    assert len(expected) > 20
    found = table.query(**question, context={"useProjection": "p"})
    assert found.equals(expected)
    told = table.explain(columns="price", filter="price > 990").segments["rejected"].to_pylist()
    assert "widened" in dict(told[0])["q"]
    table.drop_projection("q")
    table.drop_column("price")
    assert table.query(**question, context={"useProjection": "p"}).equals(expected)
    assert table.verify(deep=True) == []


def test_scopes_hold_for_projections_of_rows(tmp_path):
    table = create(tmp_path / "t", made_rows(300, 7), [])
    table.add_projection(BY_CITY, build="deferred")
    table.append(made_rows(300, 8))
    assert table.projections()["segments"].to_pylist() == [0]
    table.add_projection({**BY_CITY, "name": "small"}, max_row_ratio=0.5)
    table.append(made_rows(300, 9))
    assert "skipped" in str(table.segments()["not_built"].to_pylist())
    table.materialize_projection("by_city")
    assert table.verify(deep=True) == []


def test_a_value_that_ansi_mode_refuses_leaves_the_projection_out(tmp_path):
    wrong = {"name": "p", "sql": "SELECT city, 1 DIV (added - 5) AS x ORDER BY x"}
    rows = made_rows(3_000, 10)
    table = create(tmp_path / "t", rows, [wrong])
    assert "DIVIDE_BY_ZERO" in str(table.segments()["not_built"].to_pylist())
    assert table.query(aggregators="count(*) AS n")["n"][0].as_py() == 3_000


def test_earlier_releases_refuse_tables_and_segments_with_projections_of_rows(
    tmp_path, monkeypatch
):
    table = create(tmp_path / "t", made_rows(100, 11), [BY_CITY])
    (path,) = (tmp_path / "t").glob("data/*.pseg")
    known = checksummed_json.SUPPORTED_FEATURES - {"row_projections"}
    with monkeypatch.context() as earlier:
        earlier.setattr(checksummed_json, "SUPPORTED_FEATURES", known)
        with pytest.raises(UnsupportedFeatureError, match="row_projections"):
            projseg.Table(tmp_path / "t")
    monkeypatch.setattr(footer, "REQUIRED_FEATURES_KNOWN", 0)
    content = path.read_bytes()
    with pytest.raises(UnsupportedFeatureError, match="needs features 0x1"):
        SegmentFile.open(lambda o, s: content[o : o + s], len(content), path="x")
    table.drop_projection("by_city")
    table.overwrite(made_rows(10, 12))
    assert "row_projections" not in table.snapshot.file.required_features


SMALL = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("n", pa.int64()),
        ("d", pa.decimal128(20, 2)),
        ("l", pa.list_(pa.float64())),
    ]
)
FLOATS = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), None]
ROW = st.fixed_dictionaries(
    {
        "t": st.integers(0, 40).map(lambda n: n * 3_600_000_000),
        "s": st.sampled_from([None, "", "a", "ab", "b", "\U0001f600"]),
        "f": st.sampled_from(FLOATS),
        "n": st.sampled_from([None, -(2**63), -1, 0, 1, 2**63 - 1]),
        "d": st.sampled_from([None, Decimal("-1.25"), Decimal("0.00"), Decimal("99.99")]),
        "l": st.sampled_from([None, [], [float("nan"), None], [-0.0]]),
    }
)
CONDITIONS = [
    *("s = 'a'", "s > 'a'", "s IS NULL", "s IN ('', 'b')", "f > 1", "f = 0", "isnan(f)"),
    *("n = 1", "n < 0 OR s = 'b'", "d >= 0", "d IS NULL", "upper(s) = 'AB'", "l IS NULL"),
    *("t < TIMESTAMP '1970-01-01 20:00:00Z'", "n IS NOT NULL AND f <= 1.5"),
]


def small_rows(rows):
    return pa.Table.from_pylist(rows, SMALL)


@settings(max_examples=tries(400, 8), deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=60),
    order=st.lists(st.sampled_from(["s", "f", "n", "d", "t", "upper(s)"]), min_size=1, max_size=3),
    where=st.sampled_from([None, "n >= 0", "s IS NOT NULL"]),
    deleted=st.sampled_from([None, None, "f = 0", "n IS NULL"]),
    asked=st.lists(
        st.tuples(
            st.sampled_from(CONDITIONS),
            st.sampled_from([None, 0, 1, 5]),
            st.sampled_from([(), ("s",), ("f DESC", "n"), ("d DESC NULLS LAST",)]),
        ),
        min_size=2,
        max_size=5,
    ),
)
def test_random_rows_orders_filters_and_deletes(rows, order, where, deleted, asked):
    folder = tempfile.mkdtemp()
    columns = [*SMALL.names, "upper(s)"]
    try:
        table = projseg.Table.create(
            f"{folder}/t",
            SMALL,
            time_column="t",
            projections=[projseg.Projection("p", columns=columns, order_by=order, where=where)],
            properties={"maxDeletedRatio": "1.0"},
        )
        table.append(small_rows(rows))
        if deleted is not None:
            table.delete(filter=deleted)
        assert table.verify(deep=True) == []
        for condition, limit, order_by in asked:
            wanted = condition if where is None else f"({condition}) AND {where}"
            if len(table.segments()) == 0:
                continue
            for question in (
                {"columns": "*", "limit": limit, "order_by": order_by},
                {"columns": ["*"] if limit is None else ["n", "upper(s) AS u"]},
                {
                    "group_by": "s, f",
                    "aggregators": "count(*), min(d), max(n), count(n)",
                    "order_by": "s, f",
                },
                {"aggregators": "count(*), sum(d), first(n), bit_xor(n)"},
            ):
                found = table.query(**question, filter=wanted, context={"useProjection": "p"})
                expected = table.query(**question, filter=wanted, context=BASE)
                assert str(found.to_pylist()) == str(expected.to_pylist()), question
    finally:
        shutil.rmtree(folder)


def swapped(columns, numbers, count):
    """Rows that are not sorted any more."""
    order = np.arange(count)
    order[[0, -1]] = order[[-1, 0]]
    return {n: vector.take(order) for n, vector in columns.items()}, numbers.take(order)


def misnumbered(columns, numbers, count):
    """Row numbers of other rows than these."""
    return columns, Numbers((numbers.wide() + 1) % count, pa.int64())


def repeated(columns, numbers, count):
    """A base row twice, and another one not at all."""
    order = np.maximum(np.arange(count), 1)
    return {n: vector.take(order) for n, vector in columns.items()}, numbers.take(order)


def altered(columns, numbers, count):
    """A value that is not the base row's."""
    values = columns["price"].wide().copy()
    values[count // 2] += 1.0
    return columns | {"price": Numbers(values, pa.float64())}, numbers


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (swapped, "sorted by city, added"),
        (misnumbered, "column '"),
        (repeated, "base rows 0 to 499 in the projection"),
        (altered, "column 'price'"),
    ],
)
def test_deep_verification_finds_rows_that_are_not_those_of_the_base_table(
    tmp_path, monkeypatch, change, what
):
    build = segment_contents.sorted_rows

    def wrong(source, spec):
        count, columns, state = build(source, spec)
        changed, numbers = change(columns, state["row number"], count)
        return count, changed, {"row number": numbers}

    monkeypatch.setattr(segment_contents, "sorted_rows", wrong)
    table = create(tmp_path / "t", made_rows(500, 14), [BY_CITY])
    assert table.verify() == []
    found = [finding.what for finding in table.verify(deep=True)]
    assert any(what in one for one in found), found
