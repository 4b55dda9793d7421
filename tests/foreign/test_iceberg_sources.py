"""Iceberg tables as sources: lives of every operation of `pyiceberg`, and what is refused."""

import json
import os
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_source import asked, code_of, comparable, drawn_question, rows, stats_of
from scale import IS_NIGHTLY, tries
from typer.testing import CliRunner

import projseg
from projseg import Index, Projection
from projseg.cli import app
from projseg.errors import StorageError

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
from iceberg_source import (
    NAME,
    IcebergLake,
    catalog_properties,
    open_catalog,
)
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.types import LongType, StructType

GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
PROJECTIONS = [
    Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"]),
    Projection("p", ["page", "day"], ["count(*) AS rows", "max(added) AS most"]),
    Projection("f", ["flag"], ["count(page) AS named", "count(*) AS rows"]),
]
PARTITIONS = (None, "city", "day")


def ids_of(table):
    """The ids of a table's columns, as it was synchronised."""
    source, stored = table.properties.source, table.properties.stored_columns
    columns = table.properties.columns
    forms = [(c,) for c in columns] if not stored else stored.columns
    return {
        column.name: source.field_ids[names[-1].name]
        for column, names in zip(columns, forms, strict=True)
    }


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("seed", range(tries(100) if IS_NIGHTLY else 2))
def test_every_answer_is_of_one_snapshot(seed, tmp_path):
    random = np.random.default_rng([seed, 11])
    lake = IcebergLake(tmp_path / "lake", random, PARTITIONS[seed % 3])
    for _ in range(2):
        lake.append()
    # pyiceberg keeps the name of an identity partition from other columns.
    further = IcebergLake.FURTHER[seed % 3 > 0 or seed // 3 % 2]
    has_view = bool(random.integers(2))
    table = projseg.Table.attach(
        tmp_path / "ours",
        f"iceberg:{NAME}",
        source_options=lake.properties,
        time_column="time",
        projections=PROJECTIONS,
        indexes=[Index("pages", "page")] if random.integers(2) else [],
    )
    if has_view:
        table.create_view("v", "SELECT city, sum(added) AS added FROM t GROUP BY city")
    for _ in range(20 if IS_NIGHTLY else 8):
        step = str(random.choice([*IcebergLake.STEPS, further]))
        getattr(lake, step)()
        before = stats_of(lake.place)
        table = projseg.Table(tmp_path / "ours", source_options=lake.properties)
        current = lake.table.current_snapshot()
        assert table.source.version == str(current.snapshot_id)
        is_synchronised = bool(random.integers(2))
        if is_synchronised:
            done = table.sync()
            assert done.source_version == table.source.version
            assert table.source.files_without_companion == 0
            assert ids_of(table) == lake.ids, step
        known = {name: n for name, n in ids_of(table).items() if n in lake.ids.values()}
        if "city" not in known:
            continue
        for text in (GROUPS, *(drawn_question(random, known) for _ in range(3))):
            try:
                found = asked(table, text)
            except StorageError as error:  # a file has a type that the table does not know yet
                if is_synchronised or error.code != "PROJSEG_SOURCE_CHANGED":
                    raise
                continue
            assert found == lake.ask(text, known), (step, text, str(table.explain(text)))
        assert stats_of(lake.place) == before, step
    assert table.sync().version == table.version
    assert projseg.Table(tmp_path / "ours", source_options=lake.properties).verify(deep=True) == []


@pytest.fixture
def lake(tmp_path):
    lake = IcebergLake(tmp_path / "lake", np.random.default_rng(3))
    lake.append()
    return lake


def attached(lake, tmp_path, **options):
    options = {"source_options": lake.properties, **options}
    return projseg.Table.attach(tmp_path / "ours", f"iceberg:{NAME}", **options)


def opened(lake, tmp_path):
    return projseg.Table(tmp_path / "ours", source_options=lake.properties)


def test_a_renamed_column_keeps_its_companions(lake, tmp_path):
    table = attached(lake, tmp_path, projections=PROJECTIONS[:1], time_column="time")
    expected = lake.ask(GROUPS)
    lake._update(lambda update: update.rename_column("city", "town"))
    lake._update(lambda update: update.rename_column("time", "moment"))
    fresh = opened(lake, tmp_path)
    assert asked(fresh, GROUPS) == expected  # by the old names until it is synchronised
    done = fresh.sync()
    assert (done.files_kept, done.files_added) == (1, 0)
    towns = GROUPS.replace("city", "town")
    assert asked(fresh, towns) == expected
    assert fresh.explain(towns).sources == {"c": 1}
    assert fresh.properties.time_column == "moment"
    lake.append()
    fresh.sync()
    assert asked(fresh, towns) == lake.ask(towns)
    assert fresh.verify(deep=True) == []
    assert table.version == 0


def test_another_column_under_an_old_name_is_not_that_column(lake, tmp_path):
    table = attached(lake, tmp_path, projections=PROJECTIONS[1:])
    lake.drop_column()
    lake.add_page()
    table.sync()
    assert table.projections().num_rows == 0
    assert asked(table, "SELECT count(page) FROM t") == [(0,)]
    lake.append()
    fresh = opened(lake, tmp_path)
    named = "SELECT page, count(*) AS n FROM t GROUP BY page"
    assert asked(fresh, named) == lake.ask(named)
    fresh.sync()
    assert asked(fresh, named) == lake.ask(named)


def test_asked_columns_keep_their_names(lake, tmp_path):
    table = attached(lake, tmp_path, columns={"added": "bigint", "city": "string"})
    lake.exchange()
    lake.widen()
    lake.add_column()
    table.sync()
    assert table.schema.names == ["added", "city"]
    text = "SELECT city, added FROM t"
    assert asked(table, text) == lake.ask(text.replace("city", "page"))
    assert code_of(lambda: attached(lake, tmp_path / "o", columns={"zz": "int"})) == (
        "PROJSEG_BAD_SOURCE"
    )


def partitioned_without_columns(lake, values):
    """Publish files that lack their partition's column, as migrated tables have them."""
    paths = []
    for number, _ in enumerate(values):
        path = lake.place / f"p{number}.parquet"
        pq.write_table(pa.table({"added": pa.array([number] * 3, pa.int32())}), path)
        paths.append(path)
    return paths


def test_values_of_identity_partitions_stand_for_columns_that_files_lack(tmp_path):
    values = {
        "a": [Decimal("12.50"), Decimal("-0.01"), None],
        "b": [date(2026, 11, 28), date(1969, 12, 31), None],
        "c": [True, False, None],
        "d": ["Ürümqi", "", None],
        "e": [2**40, -1, None],
        "f": [1.5, -0.25, None],
        "g": [b"\x00\xff", b"x", None],
    }
    types = [pa.decimal128(9, 2), pa.date32(), pa.bool_(), pa.string(), pa.int64(), pa.float64()]
    schema = pa.schema([*zip(values, [*types, pa.binary()], strict=True), ("added", pa.int32())])
    lake = IcebergLake(tmp_path / "lake", np.random.default_rng(3))
    with open_catalog(lake.properties) as catalog:
        catalog.drop_table(NAME)
        table = catalog.create_table(NAME, schema)
        with table.update_spec() as update:
            for name in values:
                update.add_identity(name)
        plain = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        for number, row in enumerate(plain):
            table.append(pa.Table.from_pylist([{**row, "added": number}] * 3, schema))
        files = [(e.data_file.file_path, e.data_file.partition) for e in lake.data_files()]
        for path, _ in files:  # as a migrated table has them: without the partition's columns
            where = path.removeprefix("file://")
            held = pq.read_table(where, partitioning=None).select(["added"])
            pq.write_table(held, where)
        listed = [
            {
                "file_path": path,
                "partition": partition,
                "record_count": 3,
                "file_size_in_bytes": os.path.getsize(path.removeprefix("file://")),
            }
            for path, partition in files
        ]
        lake.publish(listed)
    text = f"SELECT {', '.join(values)}, added FROM t"
    table = attached(
        lake, tmp_path, projections=[Projection("p", list(values), ["sum(added) AS s"])]
    )
    expected = comparable(
        [(*row.values(), number) for number, row in enumerate(plain) for _ in range(3)]
    )
    assert asked(table, text) == expected
    grouped = f"SELECT {', '.join(values)}, sum(added) AS s FROM t GROUP BY ALL"
    assert table.explain(grouped).sources == {"p": 3}
    assert asked(table, grouped) == comparable(
        [(*row.values(), number * 3) for number, row in enumerate(plain)]
    )
    assert table.verify(deep=True) == []


def test_a_loaded_table_is_followed_by_its_name(lake, tmp_path):
    loaded = lake.table
    lake.append()
    with open_catalog(lake.properties) as catalog:
        table = projseg.Table.attach(tmp_path / "ours", catalog.load_table(NAME))
        assert table.source.files == 2
        assert table.source.location == NAME
    lake.append()
    assert table.newest().source.files == 3
    assert loaded.current_snapshot() != lake.table.current_snapshot()


def test_properties_of_a_catalog_are_kept_nowhere(lake, tmp_path):
    secret = "s3cr3t-value"
    options = {**lake.properties, "s3.secret-access-key": secret, "token": secret}
    table = attached(lake, tmp_path, source_options=options)
    table.sync(verify="rows")
    for path in (tmp_path / "ours").rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()
    wrong = {**options, "uri": f"sqlite:///{tmp_path}/{secret}.db"}
    with pytest.raises(projseg.ProjsegError) as caught:
        projseg.Table(tmp_path / "ours", source_options=wrong)
    assert caught.value.code == "PROJSEG_BAD_SOURCE"
    assert secret not in str(caught.value)
    assert not (tmp_path / f"{secret}.db").exists() or not os.path.getsize(
        tmp_path / f"{secret}.db"
    )


def test_columns_without_a_type_are_left_out_and_named(lake, tmp_path):
    def change(update):
        update.add_column("nested", StructType())
        update.add_column("more", LongType())

    lake._update(change)
    table = attached(lake, tmp_path)
    assert set(table.detail()["left_out"]) == {"nested"}
    assert "more" in table.schema.names


def test_a_table_that_was_made_again_is_another_one(lake, tmp_path):
    attached(lake, tmp_path)
    with open_catalog(lake.properties) as catalog:
        catalog.drop_table(NAME)
        catalog.create_table(NAME, rows(lake.random, 50).schema)
    assert code_of(lambda: opened(lake, tmp_path)) == "PROJSEG_BAD_SOURCE"


def test_a_table_without_rows_has_none(tmp_path):
    lake = IcebergLake(tmp_path / "lake", np.random.default_rng(3))
    table = attached(lake, tmp_path, projections=PROJECTIONS, time_column="time")
    assert table.source.version is None
    assert asked(table, GROUPS) == []
    lake.append()
    table.sync()
    assert asked(table, GROUPS) == lake.ask(GROUPS)


def listed(lake):
    """The files of a snapshot, as fields."""
    return [
        {
            "file_path": one.data_file.file_path,
            "record_count": one.data_file.record_count,
            "file_size_in_bytes": one.data_file.file_size_in_bytes,
            "sequence": 1,
        }
        for one in lake.data_files()
    ]


@pytest.mark.parametrize(
    ("content", "sequence", "bounds", "is_refused"),
    [
        (DataFileContent.POSITION_DELETES, 1, "", True),
        (DataFileContent.POSITION_DELETES, 1, ("", ""), True),
        (DataFileContent.POSITION_DELETES, 1, ("a", "b"), False),
        (DataFileContent.POSITION_DELETES, 0, "", False),
        (DataFileContent.EQUALITY_DELETES, 2, "", True),
        (DataFileContent.EQUALITY_DELETES, 2, ("a", "b"), True),
        (DataFileContent.EQUALITY_DELETES, 1, "", False),
    ],
)
def test_deletes_that_may_hide_rows_are_refused(
    lake, tmp_path, content, sequence, bounds, is_refused
):
    attached(lake, tmp_path)
    deletes = {"content": content, "file_path": "file:///d.parquet", "sequence": sequence}
    path = listed(lake)[0]["file_path"]
    for name, end in zip(("lower_bounds", "upper_bounds"), bounds, strict=False):
        deletes[name] = {2147483546: f"{path}{end}".encode()}
    lake.publish(listed(lake), [deletes])
    if is_refused:
        assert code_of(lambda: opened(lake, tmp_path)) == "PROJSEG_SOURCE_DELETES"
        assert code_of(lambda: attached(lake, tmp_path / "o")) == "PROJSEG_SOURCE_DELETES"
    else:
        assert opened(lake, tmp_path).source.files == 1


HOSTILE = {
    "format": {"file_format": FileFormat.ORC},
    "relative": {"file_path": "data/a.parquet"},
    "dots": {"file_path": "file:///data/../../etc/a.parquet"},
    "scheme": {"file_path": "hdfs://host/a.parquet"},
    "nul": {"file_path": "file:///data/a\0.parquet"},
    "encrypted": {"key_metadata": b"k"},
    "link": {"file_path": "link"},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_files_at_no_place_that_is_read_are_refused(lake, tmp_path, what):
    (one,) = listed(lake)
    change = dict(HOSTILE[what])
    if what == "link":
        outside = tmp_path / "outside.parquet"
        real = one["file_path"].removeprefix("file://")
        os.rename(real, outside)
        os.symlink(outside, real)
        change = {}
    lake.publish([{**one, **change}])
    assert code_of(lambda: attached(lake, tmp_path)) == "PROJSEG_BAD_SOURCE"
    assert not (tmp_path / "ours").exists()


PARTIAL = {
    "files": {"counts": {8: 2}},
    "rows": {"counts": {11: 10**6}},
    "summed files": {"summary": {"total-data-files": "2"}},
    "summed rows": {"summary": {"total-records": "1"}},
}


@pytest.mark.parametrize("what", PARTIAL)
def test_a_list_that_is_not_whole_is_refused(lake, tmp_path, what):
    lake.publish(listed(lake), **PARTIAL[what])
    assert code_of(lambda: attached(lake, tmp_path)) == "PROJSEG_SOURCE_CHANGED"


def test_a_file_that_is_listed_twice_or_with_other_rows_is_refused(lake, tmp_path):
    (one,) = listed(lake)
    lake.publish([one, one])
    assert code_of(lambda: attached(lake, tmp_path)) == "PROJSEG_SOURCE_CHANGED"
    lake.publish([{**one, "record_count": one["record_count"] + 1}])
    assert code_of(lambda: attached(lake, tmp_path)) == "PROJSEG_SOURCE_CHANGED"


def test_files_without_ids_need_a_mapping(lake, tmp_path):
    (one,) = listed(lake)
    path = tmp_path / "no ids.parquet"
    pq.write_table(rows(lake.random, 5), path)
    fields = {"file_path": f"file://{path}", "file_size_in_bytes": path.stat().st_size}
    lake.publish([one, {**fields, "record_count": 5}])
    assert code_of(lambda: attached(lake, tmp_path)) == "PROJSEG_BAD_SOURCE"


def test_a_mapping_that_grows_makes_companions_of_files_without_ids_anew(lake, tmp_path):
    held = rows(lake.random, 20, extra=True)
    path = lake.place / "more.parquet"
    pq.write_table(held, path)
    (one,) = listed(lake)
    with lake.table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": mapping(lake, {"extra": 99})})
    size = {"file_size_in_bytes": path.stat().st_size, "record_count": 20}
    lake.publish([one, {"file_path": f"file://{path}", **size}])
    table = attached(lake, tmp_path)
    assert asked(table, "SELECT count(*) FROM t WHERE page IS NULL") == lake.ask(
        "SELECT count(*) FROM t WHERE page IS NULL"
    )
    lake._update(lambda update: update.add_column("extra", LongType()))
    with lake.table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": mapping(lake, {})})
    done = table.sync()
    assert (done.files_kept, done.files_added) == (1, 1)
    text = "SELECT extra, count(*) AS n FROM t GROUP BY extra"
    assert asked(table, text) == lake.ask(text)


def mapping(lake, more):
    ids = {**lake.ids, **more}
    return json.dumps([{"field-id": n, "names": [name]} for name, n in ids.items()])


@pytest.mark.parametrize(
    "text", ["edits", "sales.", "sales.none", "none.edits", "sales.edits.branch_x"]
)
def test_what_no_catalog_has_is_refused(lake, tmp_path, text):
    def attach():
        projseg.Table.attach(tmp_path / "o", f"iceberg:{text}", source_options=lake.properties)

    assert code_of(attach) == "PROJSEG_BAD_SOURCE"


def test_a_catalog_that_is_not_there_is_not_made(tmp_path):
    options = catalog_properties(tmp_path / "none")
    assert (
        code_of(
            lambda: projseg.Table.attach(tmp_path / "o", f"iceberg:{NAME}", source_options=options)
        )
        == "PROJSEG_BAD_SOURCE"
    )


def test_a_place_in_the_table_is_refused(lake, tmp_path):
    root = lake.table.location().removeprefix("file://")
    place = f"{root}/ours"

    def attach():
        projseg.Table.attach(place, f"iceberg:{NAME}", source_options=lake.properties)

    assert code_of(attach) == "PROJSEG_BAD_SOURCE"


def test_a_shell_and_a_catalog_find_a_source_by_given_options(lake, tmp_path):
    ours = tmp_path / "ours"
    given = [f"{key}={value}" for key, value in lake.properties.items()]
    of_source = [word for one in given for word in ("--source-option", one)]
    projection = "c=SELECT city, sum(added) AS added GROUP BY ALL"
    told = CliRunner().invoke(
        app, ["attach", str(ours), f"iceberg:{NAME}", "--projection", projection, *of_source]
    )
    assert told.exit_code == 0, told.stderr
    lake.append()
    told = CliRunner().invoke(app, ["sync", str(ours), *of_source])
    assert json.loads(told.stdout)["files_added"] == 1
    lake.append()
    options = {f"source.{key}": value for key, value in lake.properties.items()}
    with projseg.Catalog(tmp_path / "catalog", storage_options=options) as catalog:
        catalog.init()
        catalog.create_namespace("n")
        catalog.register("n.over", ours)
        table = catalog.table("n.over")
        assert asked(table, GROUPS) == lake.ask(GROUPS)
        assert table.sync().files_added == 1
        assert table.explain("SELECT city, sum(added) AS a FROM t GROUP BY city").sources == {
            "c": 3
        }


def test_a_warehouse_in_a_store_is_read_by_properties_of_its_catalog(store_place, tmp_path):
    options = store_place.options
    reached = {
        "s3.endpoint": options["endpoint"],
        "s3.access-key-id": options["access_key_id"],
        "s3.secret-access-key": options["secret_access_key"],
        "s3.region": options["region"],
    }
    place = tmp_path / "catalog"
    properties = {**catalog_properties(place, f"{store_place.url}/lake ü"), **reached}
    random = np.random.default_rng(5)
    drawn = rows(random, 200)
    with open_catalog(properties) as catalog:
        catalog.create_namespace("sales")
        theirs = catalog.create_table(NAME, drawn.schema)
        with theirs.update_spec() as update:
            update.add_identity("city")
        theirs.append(drawn)
        table = projseg.Table.attach(
            tmp_path / "ours",
            f"iceberg:{NAME}",
            source_options=properties,
            projections=PROJECTIONS[:1],
        )
        twin = projseg.Table.create(tmp_path / "twin", data=drawn)
        for text in (GROUPS, "SELECT city, added, day FROM t WHERE added > 10"):
            assert asked(table, text) == asked(twin, text)
        more = rows(random, 50)
        theirs.append(more)
        twin.append(more)
        assert asked(table.newest(), GROUPS) == asked(twin, GROUPS)
        table.sync()
        assert asked(table, GROUPS) == asked(twin, GROUPS)
