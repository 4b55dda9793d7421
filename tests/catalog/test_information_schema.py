"""INFORMATION_SCHEMA: definitions as rows, in SQL."""

import shutil

import pyarrow as pa
import pytest

import projseg
from projseg.catalog import information_schema, named_writes
from projseg.catalog.store import definition_store
from projseg.errors import ProjsegError

SPEC = {
    "properties": {
        "description": "Edits",
        "timeColumn": "time",
        "segmentGranularity": "P1D",
        "clusterKeys": [{"column": "channel"}],
        "hiddenColumns": ["secret", "debug"],
        "projections": [{"name": "p", "sql": "SELECT channel, sum(price) AS s GROUP BY ALL"}],
    },
    "columns": [
        {"name": "time", "sqlType": "timestamp"},
        {"name": "channel", "sqlType": "string", "comment": "IRC name"},
        {"name": "price", "sqlType": "decimal(10,2)"},
        {"name": "debug", "sqlType": "string"},
        {"name": "n"},
    ],
}


def test_views_describe_definitions(catalog):
    catalog.create_namespace("sales", "ours")
    catalog.create("sales.edits", SPEC)
    catalog.create(
        "in", {"type": "inline", "properties": {"format": "json", "data": "{}"}, "columns": []}
    )
    catalog.register("mine", "/somewhere")
    found = catalog.sql(
        "SELECT * FROM information_schema.schemata ORDER BY schema_name"
    ).to_pylist()
    assert [(row["schema_name"], row["comment"]) for row in found] == [
        ("default", None), ("sales", "ours"),
    ]  # fmt: skip
    tables = catalog.sql(
        "SELECT table_name, table_type, is_insertable_into AS goes, data_source_format AS form "
        "FROM information_schema.tables ORDER BY table_name"
    ).to_pylist()
    assert [tuple(row.values()) for row in tables] == [
        ("edits", "MANAGED", "YES", "projseg"),
        ("in", "FOREIGN", "NO", "json"),
        ("mine", "EXTERNAL", "YES", "projseg"),
    ]
    row = catalog.sql(
        "SELECT * FROM INFORMATION_SCHEMA.TABLES WHERE table_name = 'edits'"
    ).to_pylist()[0]
    assert row["comment"] == "Edits"
    assert (row["time_column"], row["segment_granularity"], row["cluster_keys"]) == (
        "time", "P1D", "channel",
    )  # fmt: skip
    assert row["definition_version"] == catalog.metadata("sales.edits").version
    assert row["storage_path"] == catalog.metadata("sales.edits").location
    projections = catalog.sql("SELECT projection_name FROM information_schema.projections")
    assert projections.to_pylist() == [{"projection_name": "p"}]


def test_columns_are_those_of_select(catalog):
    catalog.create("edits", SPEC)
    asked = (
        "SELECT column_name, full_data_type, stored_type, is_declared "
        "FROM information_schema.columns WHERE table_name = 'edits' ORDER BY ordinal_position"
    )
    assert [tuple(row.values()) for row in catalog.sql(asked).to_pylist()] == [
        ("time", "timestamp", None, True),
        ("channel", "string", None, True),
        ("price", "decimal(10,2)", None, True),
        ("n", "string", None, True),
    ]
    table = catalog.table("edits")
    start = pa.array([0], pa.timestamp("us", "UTC"))
    table.append(pa.table({"time": start, "n": [7], "more": [1.5]}))
    found = catalog.sql(asked).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("time", "timestamp", "timestamp", True),
        ("channel", "string", "string", True),
        ("price", "decimal(10,2)", "decimal(10,2)", True),
        ("n", "bigint", "bigint", True),
        ("more", "double", "double", False),
    ]
    assert [row["column_name"] for row in found] == catalog.sql("SELECT * FROM edits").column_names
    sizes = catalog.sql(
        "SELECT data_type, numeric_precision AS p, numeric_scale AS s "
        "FROM information_schema.columns WHERE numeric_precision IS NOT NULL"
    ).to_pylist()
    assert sizes == [{"data_type": "DECIMAL", "p": 10, "s": 2}]


def test_a_table_that_is_away_is_described(house):
    house.create("t", {"columns": [{"name": "a", "sqlType": "bigint"}]})
    house.table("t").append({"a": [1], "b": ["x"]})
    shutil.rmtree(house.metadata("t").location)
    names = house.sql("SELECT column_name FROM information_schema.columns").to_pylist()
    assert [row["column_name"] for row in names] == ["a", "b"]


def test_it_is_of_one_tenant_and_read_only(open_catalog):
    one, other = open_catalog(), open_catalog(tenant="other")
    one.create("t", {})
    asked = "SELECT count(*) AS n FROM information_schema.tables WHERE table_name = 't'"
    assert one.sql(asked).to_pylist() == [{"n": 1}]
    assert other.sql(asked).to_pylist() == [{"n": 0}]
    with pytest.raises(ProjsegError, match="PROJSEG_BAD_NAME"):
        one.create("information_schema.t", {})
    with pytest.raises(ProjsegError, match="schemata, tables"):
        one.sql("SELECT * FROM information_schema.tabels")
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_UNSUPPORTED_FEATURE"):
        one.sql("SELECT * FROM information_schema.tables", explain=True)


NAMED = [
    ("table_name = 'Edits'", None, 2),
    ("table_name = 'edits'", None, 2),
    ("table_schema = 'sales' AND table_name = 'Edits'", None, 1),
    ("table_schema IN ('sales', 'Sales', 'none')", None, 3),
    ("c.table_name IN ('Edits', 'a.b', NULL) AND c.column_name <> 'time'", None, 3),
    ("table_name = 'it\\'s' OR table_name = 'a.b'", None, 2),
    ("table_schema = 'default' AND table_name = 'Edits' OR table_name = 'a.b'", None, 3),
    ("table_name = ? AND table_schema = ?", ["a.b", "Sales"], 1),
    ("TABLE_NAME <=> :n", {"n": "Edits"}, 2),
    ("table_name = 'Edits' AND table_name = 'a.b'", None, 0),
    ("table_name = 'Edits' AND (table_schema = 'sales' OR column_name = 'n')", None, 2),
    ("table_name = 'Edits' OR column_name = 'n'", None, 5),
    ("lower(table_name) = 'edits'", None, 5),
    ("NOT table_name = 'Edits'", None, 5),
    ("table_name LIKE 'E%'", None, 5),
    ("table_name IS NULL", None, 5),
]


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    with projseg.Catalog(tmp_path_factory.mktemp("five") / "house.db") as house:
        house.create_namespace("Sales")
        for name in ("Edits", ("sales", "Edits"), ("sales", "a.b"), "it's", ("sales", "other")):
            house.create(name, SPEC)
        yield house


@pytest.fixture
def reads(monkeypatch):
    """The definitions that were read, one after another."""
    seen, made = [], definition_store.metadata_of
    monkeypatch.setattr(definition_store, "metadata_of", lambda row: seen.append(row) or made(row))
    return seen


@pytest.mark.parametrize(("condition", "args", "read"), NAMED)
def test_only_definitions_that_where_names_are_read(
    five, reads, monkeypatch, condition, args, read
):
    text = f"SELECT * FROM information_schema.columns c WHERE {condition} "
    text += "ORDER BY table_schema, table_name, ordinal_position"
    named = five.sql(text, args=args)
    assert len(reads) == read
    monkeypatch.setattr(information_schema, "_named_tables", lambda *_: (None, None))
    assert named == five.sql(text, args=args)
    assert len(reads) == read + 5


@pytest.mark.parametrize(
    ("text", "rows", "read"),
    [
        ("SELECT n FROM (SELECT count(*) AS n FROM {} WHERE table_name = 'a.b')", [4], 1),
        ("WITH w AS (SELECT * FROM {} WHERE table_name = 'a.b') SELECT count(*) FROM w", [4], 1),
        ("SELECT t FROM (SELECT table_schema AS t FROM {}) WHERE t = 'none'", [], 5),
        ("SELECT count(*) FROM (SELECT table_schema AS table_name FROM {}) "
         "WHERE table_name = 'default'", [8], 5),
        ("SELECT count(*) FROM {} HAVING max(table_name) = 'other'", [20], 5),
    ],
)  # fmt: skip
def test_only_where_of_the_view_itself_names_definitions(five, reads, text, rows, read):
    found = five.sql(text.format("information_schema.columns"))
    assert found.column(0).to_pylist() == rows
    assert len(reads) == read


def test_parameters_of_the_outer_select_stay_with_it(five, reads):
    text = (
        "SELECT t, count(*) AS n FROM (SELECT table_name AS t, column_name AS c FROM "
        "information_schema.columns WHERE table_name IN (:one, :other)) WHERE t <> :one "
        "AND c = :column GROUP BY t LIMIT :most"
    )
    args = {"one": "Edits", "other": "a.b", "column": "n", "most": 5}
    assert five.sql(text, args=args).to_pylist() == [{"t": "a.b", "n": 1}]
    assert len(reads) == 3
    text = "SELECT ? AS x, t FROM (SELECT table_name AS t FROM {} WHERE table_name = ?) WHERE t = ?"
    found = five.sql(text.format("information_schema.tables"), args=[1, "a.b", "a.b"])
    assert found.to_pylist() == [{"x": 1, "t": "a.b"}]


def test_explain_and_bad_conditions_are_as_before(five):
    explained = five.sql("EXPLAIN SELECT 1 AS a FROM information_schema.tables WHERE sealed")
    assert explained.num_rows > 0
    with pytest.raises(ProjsegError, match="PROJSEG_UNKNOWN_COLUMN"):
        five.sql("SELECT * FROM information_schema.tables WHERE tabel_name = 'Edits'")


def status_of(catalog, *args, **options):
    found = catalog.status(*args, **options).drop_columns(["bytes", "at"]).to_pylist()
    return [tuple(row.values())[1:] for row in found]


def test_status_of_projections(doors, catalog):
    p = {"name": "p", "sql": "SELECT channel, sum(price) AS s GROUP BY ALL"}
    q = {"name": "q", "sql": "SELECT channel, count(*) AS c GROUP BY ALL"}
    catalog.create("edits", {**SPEC, "properties": {**SPEC["properties"], "projections": [p]}})
    catalog.create(
        "in", {"type": "inline", "properties": {"format": "json", "data": "{}"}, "columns": []}
    )
    never = [(None, None, None, None, None, None, None)]
    assert status_of(catalog) == status_of(catalog, "edits", refresh=True) == never
    rows = pa.table(
        {
            "time": pa.array([0, 86_400_000_000], pa.timestamp("us", "UTC")),
            "channel": ["a", "b"],
        }
    )
    table = catalog.table("edits")
    table.append(rows)
    kept = [
        (None, 0, "ENABLED", 2, 0, 0, 2),
        ("p", 0, "ENABLED", 2, 0, 0, 2),
    ]
    assert status_of(catalog) == status_of(doors.open(), "edits") == kept
    before = catalog.status("edits")
    assert before["bytes"].to_pylist() == [
        sum(table.segments()["bytes"].to_pylist()),
        table.projections()["bytes"][0].as_py(),
    ]
    # A definition's projection that its table has nowhere yet; once in a minute is kept.
    catalog.merge("edits", {"properties": {"projections": [p, q]}})
    assert status_of(catalog, "edits", refresh=True)[2] == ("q", 0, "DISABLED", 0, 2, 0, 0)
    table.append(rows.slice(1))
    assert status_of(catalog)[0][:4] == (None, 0, "ENABLED", 2), "a minute has not passed"
    asked = (
        "SELECT projection_name AS p, status, segments AS n, segments_missing AS missing, "
        "segments_failed AS failed, table_version AS v FROM information_schema.projections "
    )
    live = catalog.sql(asked + "WHERE table_name = 'edits' ORDER BY p").to_pylist()
    assert [tuple(row.values()) for row in live] == [
        ("p", "ENABLED", 3, 0, 0, 1),
        ("q", "PARTIAL", 1, 2, 0, 1),
    ]
    listed = catalog.sql(asked + "ORDER BY p").to_pylist()
    assert [row["v"] for row in listed] == [0, 0], "as it was last kept: no table is opened"
    assert (
        status_of(catalog, refresh=True)
        == status_of(doors.open())
        == [
            (None, 1, "ENABLED", 3, 0, 0, 3),
            ("p", 1, "ENABLED", 3, 0, 0, 3),
            ("q", 1, "PARTIAL", 1, 2, 0, 1),
        ]
    )
    assert catalog.sql(asked + "ORDER BY p").to_pylist() == live
    shutil.rmtree(catalog.metadata("edits").location)
    assert [row[2] for row in status_of(catalog, refresh=True)] == ["FAILED", "ENABLED", "PARTIAL"]
    assert catalog.sql(asked + "WHERE table_name = 'edits' ORDER BY p").to_pylist() == live


def test_a_projection_that_could_not_be_built_has_failed(house):
    sql = "SELECT 10 div n AS d, count(*) AS c GROUP BY 10 div n"
    spec = {"properties": {"projections": [{"name": "p", "sql": sql}]}}
    house.create(
        "t",
        {
            **spec,
            "columns": [{"name": "k", "sqlType": "string"}, {"name": "n", "sqlType": "bigint"}],
        },
    )
    house.table("t").append({"k": ["a", "a"], "n": [0, 1]})
    assert [row[2:6] for row in status_of(house, "t", refresh=True)] == [
        ("ENABLED", 1, 0, 0), ("FAILED", 0, 0, 1),
    ]  # fmt: skip


def test_commits_by_name_count_again_after_a_minute(house, monkeypatch):
    house.create("t", {"columns": [{"name": "n", "sqlType": "bigint"}]})
    table = house.table("t")
    table.append({"n": [1]})
    now = named_writes.time.time_ns()
    monkeypatch.setattr(named_writes.time, "time_ns", lambda: now + 61 * 10**9)
    table.append({"n": [2]})
    assert [row[1:] for row in status_of(house)] == [(1, "ENABLED", 2, 0, 0, 2)]
