"""A table as a dataset: DuckDB, Polars and pyarrow read what rows in memory would give them."""

from __future__ import annotations

import datetime
import decimal
import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scale import tries

import projseg
from projseg.errors import InvalidInputError
from projseg.table.arrow_filter import read_filter

F = pc.field
UTC = datetime.UTC
START = datetime.datetime(1969, 12, 31, 22, tzinfo=UTC)
ROWS = 3000
FLOATS = [None, 0.0, -0.0, 1.5, -1.5, 3.25, float("inf"), float("-inf"), float("nan")]
TEXTS = [None, "", "a", "ab", "b%", "it's", 'a"b', "\u00e9t\u00e9", "\U0001f600"]


def made_rows():
    choose = random.Random(7).choice
    quiet = np.arange(ROWS)
    signed = np.array([np.nan]).view(np.uint64) | np.uint64(1 << 63)
    floats = [choose(FLOATS) for _ in range(ROWS)]
    floats[5] = float(signed.view(np.float64)[0])
    return pa.table(
        {
            "time": pa.array(
                [START + datetime.timedelta(minutes=7 * int(n)) for n in quiet],
                pa.timestamp("us", "UTC"),
            ),
            "n": pa.array([choose([None, -3, 0, 1, 2, 7, 2**62]) for _ in quiet], pa.int64()),
            "i": pa.array([choose([None, -3, 0, 1, 2, 127]) for _ in quiet], pa.int8()),
            "x": pa.array(floats, pa.float64()),
            "f": pa.array([choose(FLOATS) for _ in quiet], pa.float32()),
            'odd.`name"': pa.array([choose(TEXTS) for _ in quiet]),
            "k": pa.array([choose(TEXTS) for _ in quiet]),
            "o": pa.array([choose([None, True, False]) for _ in quiet]),
            "day": pa.array(
                [choose([None, datetime.date(1970, 1, 1 + n % 9)]) for n in range(ROWS)]
            ),
            "at": pa.array(
                [choose([None, datetime.datetime(1970, 1, 1, n % 24)]) for n in range(ROWS)],
                pa.timestamp("us"),
            ),
            "d": pa.array(
                [choose([None, decimal.Decimal("1.50"), decimal.Decimal("-0.01")]) for _ in quiet],
                pa.decimal128(12, 2),
            ),
            "s": pa.array(
                [
                    choose([None, {"q": None, "r": "a"}, {"q": n % 5, "r": None}])
                    for n in range(ROWS)
                ],
                pa.struct([("q", pa.int32()), ("r", pa.string())]),
            ),
        }
    )


@pytest.fixture(scope="module")
def rows():
    return made_rows()


@pytest.fixture(scope="module", params=["one segment", "many segments", "deleted rows"])
def table(request, rows, tmp_path_factory):
    granularity = "all" if request.param == "one segment" else "day"
    made = projseg.Table.create(
        tmp_path_factory.mktemp("dataset") / "t",
        rows.schema,
        time_column="time",
        segment_granularity=granularity,
        projections=[projseg.Projection("by_k", group_by=["k"], aggregators=["count(*)"])],
    )
    made.append(rows)
    if request.param == "deleted rows":
        made.append(rows.slice(0, 500))
        made.delete("time < TIMESTAMP'1970-01-01 00:00:00Z' AND n = 7")
        made.delete("n = 7")
    return made


def kept(table, rows):
    """Return the rows that the table has, in memory."""
    return table.query() if table.version > 1 else rows


# ---- statements of DuckDB

COLUMNS = {
    "n": ["0", "1", "7", "-3", "4611686018427387904", "1.5", "2"],
    "i": ["0", "127", "-3", "2"],
    "x": ["0", "1.5", "-1.5", "'NaN'::DOUBLE", "'inf'::DOUBLE", "3.25", "1e300"],
    "f": ["0", "1.5", "-1.5", "'NaN'::FLOAT", "'-inf'::FLOAT"],
    '"odd.`name"""': ["''", "'a'", "'it''s'", "'a\"b'", "'\u00e9t\u00e9'", "'zz'"],
    "k": ["''", "'a'", "'b%'", "'\U0001f600'"],
    "o": ["true", "false"],
    "day": ["DATE '1970-01-03'", "DATE '1970-01-01'", "DATE '2000-01-01'"],
    "time": ["TIMESTAMPTZ '1970-01-01 00:00:00+00'", "TIMESTAMPTZ '1970-01-05 07:03:00+02'"],
    '"at"': ["TIMESTAMP '1970-01-01 05:00:00'", "TIMESTAMP '1970-01-01 23:00:00'"],
    "d": ["1.50", "-0.01", "1", "0"],
    "s.q": ["0", "3"],
    "s.r": ["'a'", "''"],
}
COMPARED = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def drawn_condition(draw, depth=0):
    kind = draw.random()
    if depth < 3 and kind < 0.35:
        joint = draw.choice([" AND ", " OR "])
        parts = [drawn_condition(draw, depth + 1) for _ in range(draw.choice([2, 2, 3]))]
        return f"({joint.join(parts)})"
    if depth < 3 and kind < 0.45:
        return f"NOT {drawn_condition(draw, depth + 1)}"
    column = draw.choice(list(COLUMNS))
    values = COLUMNS[column]
    if kind < 0.6:
        options = draw.choices([*values, "NULL"], k=draw.choice([1, 2, 3]))
        return f"{column} {draw.choice(['IN', 'NOT IN'])} ({', '.join(options)})"
    if kind < 0.68:
        return f"{column} IS {draw.choice(['', 'NOT '])}NULL"
    if kind < 0.74:
        low, high = draw.choices(values, k=2)
        return f"{column} BETWEEN {low} AND {high}"
    if kind < 0.8:
        return draw.choice(
            ["k LIKE 'a%'", "k LIKE '%b'", "contains(k, '%')", "isnan(x)", "o", "x > f"]
        )
    return f"{column} {draw.choice(COMPARED)} {draw.choice(values)}"


def drawn_statement(draw):
    where = drawn_condition(draw)
    outputs = draw.sample([*COLUMNS], k=draw.choice([1, 2, 4]))
    return draw.choice(
        [
            f"SELECT count(*) FROM t WHERE {where}",
            f"SELECT {', '.join(outputs)} FROM t WHERE {where}",
            f"SELECT k, count(*), min(x), max(time) FROM t WHERE {where} GROUP BY k",
            f"SELECT count(s.q), sum(i) FROM t WHERE {where}",
            "SELECT a.n, b.k FROM t a JOIN t b ON a.time = b.time WHERE b."
            + drawn_comparison(draw),
        ]
    )


def drawn_comparison(draw):
    column = draw.choice([name for name in COLUMNS if "." not in name])
    return f"{column} {draw.choice(COMPARED)} {draw.choice(COLUMNS[column])}"


def told(rows):
    return sorted(map(repr, rows))


def test_statements_of_duckdb_answer_as_over_rows_of_its_own(table, rows):
    duckdb = pytest.importorskip("duckdb")
    draw = random.Random(table.version)
    here, own = duckdb.connect(), duckdb.connect()
    for connection in (here, own):
        connection.execute("SET TimeZone = 'UTC'")
    here.register("t", table.dataset())
    own.register("arrow_rows", kept(table, rows))
    own.execute("CREATE TABLE t AS SELECT * FROM arrow_rows")
    for _ in range(tries(60)):
        statement = drawn_statement(draw)
        found, wanted = here.execute(statement).fetchall(), own.execute(statement).fetchall()
        assert told(found) == told(wanted), statement


# ---- frames of Polars


def drawn_predicate(pl, draw, depth=0):
    kind = draw.random()
    if depth < 3 and kind < 0.4:
        left, right = (drawn_predicate(pl, draw, depth + 1) for _ in range(2))
        return draw.choice([lambda: left & right, lambda: left | right, lambda: ~left])()
    name, values = draw.choice(
        [
            ("n", [0, 1, 7, 2**62]),
            ("i", [0, 127, -3]),
            ("x", [0.0, -1.5, float("nan"), float("inf"), 3.25]),
            ("f", [0.0, 1.5, float("nan")]),
            ("k", ["", "a", "\U0001f600", "zz"]),
            ('odd.`name"', ["it's", 'a"b']),
            ("o", [True, False]),
            ("day", [datetime.date(1970, 1, 3)]),
            ("time", [START, datetime.datetime(1970, 1, 4, tzinfo=UTC)]),
            ("at", [datetime.datetime(1970, 1, 1, 5)]),
            ("d", [decimal.Decimal("1.50"), decimal.Decimal("0.00")]),
        ]
    )
    column, value = pl.col(name), draw.choice(values)
    forms = [
        lambda: column == value,
        lambda: column != value,
        lambda: column < value,
        lambda: column >= value,
        lambda: column.is_null(),
        lambda: column.is_not_null(),
        lambda: column.is_in(draw.choices(values, k=2)),
        lambda: column.eq_missing(value),
        lambda: column.is_between(pl.lit(min(values)), pl.lit(max(values))),
    ]
    if name in ("x", "f"):
        forms.append(lambda: column.is_nan())
    if name == "k":
        forms += [
            lambda: column.str.starts_with("a"),
            lambda: column.str.contains("b", literal=True),
        ]
    return draw.choice(forms)()


def selected(pl, frame, predicate, names):
    return frame.filter(predicate).select(*names)


def counted(pl, frame, predicate, names):
    return frame.filter(predicate).select(pl.len())


def grouped(pl, frame, predicate, names):
    return frame.filter(predicate).group_by("k").agg(pl.len(), pl.col("n").max())


def filtered_last(pl, frame, predicate, names):
    return frame.select(*{*names, "k"}).filter(pl.col("k") == "a").select(*names)


def test_frames_of_polars_answer_as_over_rows_in_memory(table, rows):
    pl = pytest.importorskip("polars", minversion="2")
    draw = random.Random(table.version + 100)
    lazy, own = table.lazy(), pl.from_arrow(kept(table, rows)).lazy()
    for _ in range(tries(60)):
        predicate = drawn_predicate(pl, draw)
        names = draw.sample(["n", "x", "k", "time", "d", "s"], k=draw.choice([1, 2, 3]))
        step = draw.choice([selected, counted, grouped, filtered_last])
        found, wanted = (step(pl, one, predicate, names).collect() for one in (lazy, own))
        assert found.schema == wanted.schema, str(predicate)
        assert told(found.rows()) == told(wanted.rows()), str(predicate)


# ---- what is read


READ = [
    F("n") == 3,
    F("x") > pa.scalar(2, pa.int32()),
    (F("k") == "a") & ~F("n").is_null() | (F("i") < 3),
    F("k").isin(["a", None]),
    pc.if_else(F("k").is_valid(), F("k").isin(["a"]), pa.scalar(None, pa.bool_())),
    F("x").is_nan(),
    F("x").is_null(nan_is_null=True),
    pc.starts_with(F("k"), "a"),
    F("time") >= pa.scalar(START, pa.timestamp("ns", "Europe/Berlin")),
    F("s", "q") != 3,
    F("d") == pa.scalar(decimal.Decimal("1.5")),
    F("day") < pa.scalar(datetime.date(1970, 1, 2)),
    pc.scalar(True),
    F("n") == pa.scalar("3").cast(pa.int64()),
]
LEFT_TO_ARROW = [
    pc.add(F("n"), 1) == 3,
    F("i").cast(pa.float64()) > 1.5,
    pc.utf8_upper(F("k")) == "A",
    pc.starts_with(F("k"), "A", ignore_case=True),
    F("time") > pa.scalar(1, pa.timestamp("ns", "UTC")),
]


@pytest.mark.parametrize("given", READ, ids=str)
def test_a_condition_is_read_with_its_columns(rows, given):
    found = read_filter(given, rows.schema)
    assert found.condition is not None
    assert all(name in str(given) for name in found.columns)


@pytest.mark.parametrize("given", LEFT_TO_ARROW, ids=str)
def test_what_is_not_read_is_evaluated_by_arrow(table, rows, given):
    assert read_filter(given, rows.schema).condition is None
    found = table.dataset().to_table(columns=["n", "k"], filter=given)
    assert told(found.to_pylist()) == told(
        kept(table, rows).filter(given).select(["n", "k"]).to_pylist()
    )


def test_columns_that_nobody_asks_for_are_not_decoded(table, monkeypatch):
    from projseg.table import dataset

    asked = []
    scan = dataset.scan

    def watched(storage, plan, segments):
        asked.append(plan.query.output_schema.names)
        return scan(storage, plan, segments)

    monkeypatch.setattr(dataset, "scan", watched)
    whole = table.dataset()
    whole.to_table(columns=["k"], filter=F("n") > 1)
    assert whole.to_table(columns=[]).num_rows == whole.count_rows()
    assert asked == [["k"], ["o"]]


def test_rows_are_counted_from_metadata_and_projections(table):
    counted = table.dataset().count_rows(F("k") == "a")
    assert counted == table.query(aggregators="count(*)", filter="k = 'a'")[0][0].as_py()
    assert table.dataset().count_rows() == table.query(aggregators="count(*)")[0][0].as_py()


def test_a_dataset_is_of_one_version(table, rows, tmp_path):
    made = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, data={"n": [1, 2]})
    first = made.dataset()
    made.append({"n": [3]})
    assert (first.version, first.count_rows()) == (0, 2)
    assert (made.dataset().version, made.dataset().count_rows()) == (1, 3)


def test_rows_by_position_heads_and_computed_columns(table, rows):
    whole = table.dataset()
    everything = whole.to_table()
    places = [5, 0, 5, everything.num_rows - 1]
    assert told(whole.take(places).to_pylist()) == told(everything.take(places).to_pylist())
    with pytest.raises(IndexError):
        whole.take([everything.num_rows])
    assert told(whole.head(3).to_pylist()) == told(everything.slice(0, 3).to_pylist())
    doubled = whole.to_table(columns={"m": pc.add(F("i").cast(pa.int32()), 1)}, filter=F("i") > 0)
    assert doubled.schema.names == ["m"]
    assert doubled.num_rows == whole.count_rows(F("i") > 0)
    with pytest.raises(InvalidInputError, match="no column 'K'; did you mean 'k'"):
        whole.to_table(columns=["K"])


def test_a_reader_that_is_dropped_closes_its_files(table):
    for _ in range(20):
        reader = table.dataset().scanner(columns=["k", "x"]).to_reader()
        reader.read_next_batch()
        del reader


def test_structs_have_no_offset_and_small_batches_are_joined(table):
    batches = list(table.dataset().to_batches(columns=["s", "n"], filter=F("n") > 0))
    assert len(batches) == 1
    assert all(batch.column(0).offset == 0 for batch in batches)


def test_a_dataset_can_be_sent_to_another_process(table):
    sent = pickle.loads(pickle.dumps(table.dataset()))
    assert sent.count_rows() == table.dataset().count_rows()


def test_the_newest_version_is_another_object_and_this_one_stays(tmp_path):
    made = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, data={"n": [1]})
    assert made.newest() is made
    projseg.Table(tmp_path / "t").append({"n": [2]})
    newest = made.newest()
    assert (made.version, newest.version) == (0, 1)
    assert (made.query().num_rows, newest.query().num_rows) == (1, 2)
    pinned = projseg.Table(tmp_path / "t", version=1)
    pinned.newest().append({"n": [3]})
    assert pinned.version == 1


def test_the_newest_version_of_a_table_of_an_age_stays(tmp_path):
    """Several questions of one request are asked of it."""
    writer = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, data={"n": [1]})
    served = projseg.Table(tmp_path / "t", max_age=0)
    for count in range(2, 4):
        of_request = served.newest()
        writer.append({"n": [count]})
        assert of_request.query().num_rows == count - 1
        assert served.query().num_rows == count


def test_a_table_of_an_age_moves_by_itself_and_a_question_keeps_to_one_version(tmp_path):
    writer = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, data={"n": [1]})
    served, still = projseg.Table(tmp_path / "t", max_age=0), projseg.Table(tmp_path / "t")
    aged = projseg.Table(tmp_path / "t", max_age=3600)
    with projseg.QueryPool(still, workers=1, max_age=0) as pool:
        for count in range(2, 5):
            writer.append({"n": [count]})
            stream = served.scan()
            assert served.version == count - 1
            assert served.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": count}]
            assert served.explain(aggregators="sum(n)").sources
            assert served.dataset().version == pa.table(served).num_rows - 1 == count - 1
            assert pool.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": count}]
            assert stream.read_all().num_rows == count
    assert (aged.query().num_rows, aged.version) == (1, 0)
    assert projseg.Table(tmp_path / "t", version=1, max_age=0).query().num_rows == 2
    with pytest.raises(InvalidInputError, match="max_age is a number of seconds"):
        projseg.Table(tmp_path / "t", max_age=-1)


def test_an_answer_says_its_version(tmp_path):
    made = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, data={"n": [1]})
    made.append({"n": [2]})
    statement = "SELECT n AS m FROM (SELECT n FROM t WHERE n > 1)"
    for table, version in ((made, b"1"), (projseg.Table(tmp_path / "t", version=0), b"0")):
        answers = [
            table.query(),
            table.query(aggregators="sum(n)"),
            table.sql("SELECT sum(n) AS s FROM t"),
            table.sql(statement),
            projseg.sql("SELECT count(*) FROM t JOIN t AS o ON t.n = o.n", {"t": table}),
            table.scan(),
        ]
        assert {answer.schema.metadata[b"projseg.version"] for answer in answers} == {version}
