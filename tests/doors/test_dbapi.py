"""Python's interface of databases and SQLAlchemy's dialect, in both engines."""

from __future__ import annotations

import datetime
import decimal
import threading

import pyarrow as pa
import pytest

import projseg
from projseg import dbapi

sqlalchemy = pytest.importorskip("sqlalchemy")
UTC = datetime.UTC
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=UTC)
ENGINES = ["projseg", "duckdb"]
sqlalchemy.dialects.registry.register("projseg", "projseg.dialect", "ProjsegDialect")
sqlalchemy.dialects.registry.register("projseg.catalog", "projseg.dialect", "CatalogDialect")


@pytest.fixture
def folder(tmp_path):
    projseg.Table.create(
        tmp_path / "edits",
        {
            "time": "timestamp", "channel": "string", "added": "bigint", "price": "decimal(9,2)",
            "odd `name": "string", "ratio": "double", "is_new": "boolean", "day": "date",
        },
        time_column="time",
        data={
            "time": [NOON, NOON, NOON + datetime.timedelta(days=1)],
            "channel": ["#en", "it's", None],
            "added": [1, 2, 4],
            "price": [decimal.Decimal("1.50"), None, decimal.Decimal(2)],
            "odd `name": ["a", "b", "c"],
            "ratio": [0.5, None, 2.0],
            "is_new": [True, False, None],
            "day": [NOON.date(), None, None],
        },
    )  # fmt: skip
    projseg.Table.create(tmp_path / "places", {"channel": "string", "region": "string"}).append(
        {"channel": ["#en"], "region": ["north"]}
    )
    return tmp_path


def test_the_module_is_as_the_interface_says():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "named")
    for kind in (
        "InterfaceError", "DatabaseError", "DataError", "OperationalError", "IntegrityError",
        "InternalError", "ProgrammingError", "NotSupportedError",
    ):  # fmt: skip
        assert issubclass(getattr(dbapi, kind), dbapi.Error)
    assert not issubclass(dbapi.Warning, dbapi.Error)
    assert dbapi.DateFromTicks(0).year in (1969, 1970)
    assert dbapi.TimestampFromTicks(1e9).date() == dbapi.DateFromTicks(1e9)
    assert isinstance(dbapi.TimeFromTicks(0), dbapi.Time)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_fetched_one_by_one_many_and_all(folder, engine):
    with dbapi.connect(folder, engine=engine) as connection, connection.cursor() as cursor:
        assert (cursor.description, cursor.rowcount) == (None, -1)
        cursor.execute("SELECT added, channel, price FROM edits WHERE added < :most", {"most": 9})
        assert cursor.rowcount == 3
        name, kind = cursor.description[0][:2]
        assert name == "added"
        assert kind == dbapi.NUMBER != dbapi.STRING
        assert cursor.description[1][1] == dbapi.STRING
        first = cursor.fetchone()
        others = cursor.fetchmany(1) + cursor.fetchall()
        assert sorted([first, *others]) == [
            (1, "#en", decimal.Decimal("1.50")), (2, "it's", None), (4, None, decimal.Decimal(2)),
        ]  # fmt: skip
        assert cursor.fetchone() is None
        assert cursor.fetchall() == []
        cursor.execute("SELECT max(time) AS t FROM edits")
        assert next(iter(cursor))[0] == NOON + datetime.timedelta(days=1)
        assert isinstance(cursor.fetch_arrow_table(), pa.Table)
        connection.commit()
        connection.rollback()
    with pytest.raises(dbapi.InterfaceError, match="is closed"):
        connection.cursor()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT nothing FROM edits", dbapi.ProgrammingError),
        ("SELECT added FROM nowhere", dbapi.ProgrammingError),
        ("SELEC", dbapi.ProgrammingError),
        ("INSERT INTO edits (added) VALUES (1)", dbapi.DatabaseError),
        ("DROP TABLE edits", dbapi.DatabaseError),
        ("SELECT added FROM edits; SELECT 1", dbapi.DatabaseError),
    ],
)
def test_errors_are_the_interfaces(folder, engine, text, kind):
    cursor = dbapi.connect(folder, engine=engine).cursor()
    with pytest.raises(kind) as raised:
        cursor.execute(text)
    if engine == "projseg":
        assert raised.value.code.startswith("PROJSEG_")
    assert projseg.Table(folder / "edits").version == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "SET enable_external_access = true",
        "ATTACH 'x.db'",
        "PRAGMA database_list",
        "SELECT * FROM secret_rows",
    ],
)
def test_duckdb_reads_and_writes_nothing_else(folder, text):
    secret_rows = pa.table({"a": [1]})
    with pytest.raises(dbapi.DatabaseError):
        dbapi.connect(folder, engine="duckdb").cursor().execute(text)
    assert secret_rows.num_rows == 1


def test_places_that_are_none(folder):
    with pytest.raises(dbapi.ProgrammingError, match="no folder that has one"):
        dbapi.connect(folder / "nothing")
    with pytest.raises(dbapi.InterfaceError, match="engine is"):
        dbapi.connect(folder, engine="spark")
    assert list(dbapi.connect(folder / "edits").tables) == [("default", "edits")]
    assert list(dbapi.connect(folder, tables=["places"]).tables) == [("default", "places")]
    with pytest.raises(dbapi.NotSupportedError):
        dbapi.connect(folder).cursor().executemany("SELECT 1 FROM edits", [])
    with pytest.raises(dbapi.InterfaceError, match="call execute first"):
        dbapi.connect(folder).cursor().fetchall()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_sees_the_newest_version_and_threads_share_a_connection(folder, engine):
    connection, found = dbapi.connect(folder, engine=engine), []

    def count():
        cursor = connection.cursor().execute("SELECT count(*) AS c FROM edits")
        found.append(cursor.fetchall())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    projseg.Table(folder / "edits").append({"time": [NOON], "added": [8]})
    count()
    assert found == [[(3,)]] * 4 + [[(4,)]]


def opened(folder, engine):
    return sqlalchemy.create_engine(f"projseg:///{folder}?engine={engine}")


@pytest.mark.parametrize("engine", ENGINES)
def test_sqlalchemy_finds_tables_columns_and_types(folder, engine):
    found = sqlalchemy.inspect(opened(folder, engine))
    assert found.get_schema_names() == ["default"]
    assert found.get_table_names() == ["edits", "places"]
    assert found.has_table("edits")
    assert not found.has_table("nowhere")
    kinds = {one["name"]: str(one["type"]) for one in found.get_columns("edits")}
    assert kinds == {
        "time": "TIMESTAMP", "channel": "VARCHAR", "added": "BIGINT", "price": "NUMERIC(9, 2)",
        "odd `name": "VARCHAR", "ratio": "FLOAT", "is_new": "BOOLEAN", "day": "DATE",
    }  # fmt: skip
    assert found.get_pk_constraint("edits")["constrained_columns"] == []
    assert found.get_foreign_keys("edits") == found.get_indexes("edits") == []
    with pytest.raises(sqlalchemy.exc.NoSuchTableError):
        found.get_columns("nowhere")


@pytest.mark.parametrize("engine", ENGINES)
def test_sqlalchemy_asks(folder, engine):
    source, meta = opened(folder, engine), sqlalchemy.MetaData()
    edits = sqlalchemy.Table("edits", meta, autoload_with=source)
    places = sqlalchemy.Table("places", meta, autoload_with=source)
    func, select = sqlalchemy.func, sqlalchemy.select
    with source.connect() as connection:
        asked = connection.execute
        assert asked(select(func.count()).select_from(edits)).scalar() == 3
        odd = select(edits.c["odd `name"]).where(edits.c.channel == "it's")
        assert asked(odd).all() == [("b",)]
        top = (
            select(edits.c.channel, func.sum(edits.c.added).label("s"))
            .where(edits.c.is_new.is_not(None), edits.c.time >= NOON)
            .group_by(edits.c.channel)
            .order_by(sqlalchemy.desc("s"))
            .limit(1)
        )
        assert asked(top).all() == [("it's", 2)]
        joined = select(places.c.region, func.sum(edits.c.added)).join_from(
            edits, places, edits.c.channel == places.c.channel
        )
        assert asked(joined.group_by(places.c.region)).all() == [("north", 1)]
        assert asked(select(edits.c.added).where(edits.c.added.in_([1, 4]))).all() == [(1,), (4,)]
        as_text = select(sqlalchemy.cast(edits.c.added, sqlalchemy.String)).limit(1)
        assert asked(as_text).all() == [("1",)]
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            asked(sqlalchemy.insert(places).values(channel="x"))


@pytest.mark.parametrize("engine", ENGINES)
def test_superset_and_pandas_ask_in_their_own_shapes(folder, engine):
    pandas = pytest.importorskip("pandas")
    quote = '"' if engine == "duckdb" else "`"
    day = "date_trunc('day', time)" if engine == "duckdb" else "date_trunc('DAY', time)"
    shapes = [
        f"SELECT {day} AS __timestamp, channel AS channel, sum(added) AS {quote}SUM(added){quote} "
        "FROM edits WHERE time >= TIMESTAMP '2024-05-01 00:00:00' AND time < TIMESTAMP "
        f"'2024-05-03 00:00:00' GROUP BY {day}, channel ORDER BY {quote}SUM(added){quote} DESC "
        "LIMIT 10000",
        "SELECT count(*) AS count FROM (SELECT time, channel, added FROM edits) AS virtual_table "
        "LIMIT 50000",
        "SELECT channel AS channel FROM edits GROUP BY channel LIMIT 1000",
        "SELECT min(time), max(time) FROM edits",
        "SELECT * FROM edits LIMIT 101",
    ]
    source = opened(folder, engine)
    frames = [pandas.read_sql(sqlalchemy.text(shape), source) for shape in shapes]
    assert [len(frame) for frame in frames] == [3, 1, 3, 1, 3]
    assert list(frames[0].columns) == ["__timestamp", "channel", "SUM(added)"]
    assert pandas.read_sql("SELECT added FROM edits", source)["added"].sum() == 7


def test_a_catalog_is_asked_by_the_names_of_its_definitions(tmp_path):
    catalog = projseg.Catalog(tmp_path / "catalog.db")
    catalog.create_namespace("sales")
    catalog.create(("sales", "edits"), {"columns": [{"name": "n", "sqlType": "bigint"}]})
    catalog.table(("sales", "edits")).append([{"n": 1}, {"n": 2}])
    for engine in ENGINES:
        source = sqlalchemy.create_engine(
            f"projseg+catalog:///{tmp_path}/catalog.db?engine={engine}"
        )
        found = sqlalchemy.inspect(source)
        assert "sales" in found.get_schema_names()
        assert found.get_table_names("sales") == ["edits"]
        assert [one["name"] for one in found.get_columns("edits", "sales")] == ["n"]
        with source.connect() as connection:
            total = connection.execute(sqlalchemy.text("SELECT sum(n) AS s FROM sales.edits"))
            assert total.scalar() == 3
