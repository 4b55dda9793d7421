"""Groups and distinct values as many as rows: as DuckDB counts them, over several segments."""

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import projseg
from projseg.aggregation import keys
from projseg.errors import LimitExceededError
from projseg.evaluation import arrow_vectors
from projseg.kernels import grouping
from projseg.writer import column_vectors

SCHEMA = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        "id": pa.int64(),
        "wide": pa.int64(),
        "few": pa.int32(),
        "number": pa.float64(),
        "price": pa.decimal128(12, 2),
        "text": pa.string(),
    }
)
ROWS_A_SEGMENT = 3_000
GROUPINGS = ["id", "wide", "number", "price", "text", "id, few", "wide, few", "text, few"]
COLUMNS = ["id", "wide", "number", "price", "text"]


def some_rows(seed):
    """Nulls, extremes, both zeros and NaN among values that are nearly all different."""
    random = np.random.default_rng(seed)
    count = ROWS_A_SEGMENT
    numbers = [-0.0, 0.0, float("nan"), float("inf"), *random.normal(size=count - 4)]
    wide = [-(2**63), 2**63 - 1, 0, *random.integers(-(2**63), 2**63 - 1, count - 3).tolist()]
    ids = random.integers(0, 3 * count, count).tolist()
    columns = {
        "time": [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in range(count)],
        "id": ids,
        "wide": wide[: count // 2] + wide[: count - count // 2],
        "few": random.integers(0, 3, count).tolist(),
        "number": numbers,
        "price": random.integers(0, 9**9, count).tolist(),
        "text": [f"{'é' * (one % 5)}{one} of some texts" for one in ids],
    }
    for name in COLUMNS:
        columns[name] = [None if random.random() < 0.02 else one for one in columns[name]]
    columns["text"][:2] = ["", "x" * 3_000]
    columns["price"] = [None if one is None else one / 100 for one in columns["price"]]
    prices = pa.array(columns.pop("price"), pa.float64()).cast(pa.decimal128(12, 2), safe=False)
    arrays = {name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}
    return pa.table([arrays.get(name, prices) for name in SCHEMA.names], schema=SCHEMA)


@pytest.fixture(scope="module")
def table_and_peer(tmp_path_factory):
    """A table of three segments, one with deleted rows, and DuckDB over the rows."""
    data = [some_rows(seed) for seed in (1, 2, 3)]
    location = str(tmp_path_factory.mktemp("many") / "table")
    table = projseg.Table.create(location, SCHEMA, time_column="time")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_vectors, "_DICTIONARY_ROWS_MIN", 0)  # texts get no dictionary
        for one in data:
            table.append(one)
    table.delete("few = 1 AND id < 2000")
    with duckdb.connect() as peer:
        rows = pa.concat_tables(data)
        one_zero = pc.add(rows["number"], 0.0)
        rows = rows.set_column(SCHEMA.names.index("number"), "number", one_zero)
        peer.register("rows", rows)
        peer.execute("CREATE TABLE t AS FROM rows")
        peer.execute("DELETE FROM t WHERE few = 1 AND id < 2000")
        yield table, peer


@pytest.fixture(params=["as they are", "as many", "as many, hashed", "as words"])
def rows_count(request, monkeypatch):
    """These rows are numbered as they are, or as millions are."""
    if request.param != "as they are":
        monkeypatch.setattr(keys, "_DENSE_RANGE_MAX", 16)
        monkeypatch.setattr(keys, "_HASHED_TEXTS_MIN", 0)
        monkeypatch.setattr(grouping, "_DEALT_KEYS_MIN", 0)
        monkeypatch.setattr(grouping, "_DEALT_ROWS_MIN", 0)
    if request.param == "as many, hashed":
        monkeypatch.setattr(keys, "_RANKED_RANGE_MAX", 0)
    if request.param == "as words":
        monkeypatch.setattr(keys, "_WIDE_ROWS_MIN", 1)
        monkeypatch.setattr(keys, "_SAMPLED_ROWS", 1)


def as_set(table):
    """The rows; a NaN is itself here."""
    return {tuple(map(str, row.values())) for row in table.to_pylist()}


@pytest.mark.usefixtures("rows_count")
@pytest.mark.parametrize("names", GROUPINGS)
def test_groups_are_duckdbs(table_and_peer, names):
    table, peer = table_and_peer
    wanted = ["count(*) AS n", "sum(few) AS s", "min(id) AS low"]
    found = table.query(group_by=names.split(", "), aggregators=wanted)
    expected = peer.sql(f"SELECT {names}, {', '.join(wanted)} FROM t GROUP BY {names}")
    assert found.num_rows > 1_000
    assert as_set(found) == as_set(expected.to_arrow_table())
    assert len(as_set(found)) == found.num_rows


@pytest.mark.usefixtures("rows_count")
@pytest.mark.parametrize("condition", ["TRUE", "few = 7"])
def test_distinct_counts_are_duckdbs(table_and_peer, condition):
    table, peer = table_and_peer
    wanted = [f"count(DISTINCT {name}) AS {name}s" for name in COLUMNS]
    found = table.query(aggregators=wanted, filter=condition)
    expected = peer.sql(f"SELECT {', '.join(wanted)} FROM t WHERE {condition}")
    assert as_set(found) == as_set(expected.to_arrow_table())
    for key in ("few", "id"):
        more = ["count(DISTINCT id, wide) AS pairs", "sum(DISTINCT id) AS s"]
        found = table.query(group_by=[key], aggregators=[*wanted, *more], filter=condition)
        is_whole = "id IS NOT NULL AND wide IS NOT NULL"
        more[0] = f"count(DISTINCT (id, wide)) FILTER (WHERE {is_whole}) AS pairs"
        chosen = ", ".join([key, *wanted, *more])
        expected = peer.sql(f"SELECT {chosen} FROM t WHERE {condition} GROUP BY {key}")
        assert as_set(found) == as_set(expected.to_arrow_table())


@pytest.mark.usefixtures("rows_count")
def test_distinct_numbers_of_segments_near_and_far_apart(tmp_path):
    """Near ones are marked by their place, others are kept as words; a table has both."""
    random = np.random.default_rng(4)
    columns = {"few": random.integers(0, 5, 3_000), "id": random.integers(-400, 400, 3_000)}
    near = pa.table(columns)
    far = near.set_column(1, "id", pa.array(columns["id"] * (2**53 + 1)))
    with_nulls = near.set_column(1, "id", pa.array(columns["id"], mask=columns["id"] % 7 == 0))
    table = projseg.Table.create(tmp_path / "t", near.schema)
    for one in (near, far, with_nulls, far.slice(0, 1), near.slice(0, 0)):
        table.append(one)
    with duckdb.connect() as peer:
        peer.register("t", pa.concat_tables([near, far, with_nulls, far.slice(0, 1)]))
        for text in (
            "SELECT count(DISTINCT id) AS c, sum(DISTINCT few) AS s FROM t",
            "SELECT few, count(DISTINCT id) AS c FROM t GROUP BY few",
            "SELECT few, count(DISTINCT id) AS c FROM t WHERE id > 1 GROUP BY few",
        ):
            assert as_set(table.sql(text)) == as_set(peer.sql(text).to_arrow_table())


def test_texts_that_no_array_holds_are_refused(table_and_peer, monkeypatch):
    table, _ = table_and_peer
    monkeypatch.setattr(arrow_vectors, "_TEXT_BYTES_MAX", 100_000)
    for asked in ({"group_by": ["text"]}, {}):
        with pytest.raises(LimitExceededError, match="PROJSEG_TEXT_TOO_LONG"):
            table.query(aggregators=["count(DISTINCT text) AS n"], **asked)
