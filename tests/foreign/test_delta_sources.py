"""Delta tables as sources, by their log: every operation of `deltalake`, and what is refused."""

import json
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from foreign_source import asked, code_of, comparable, drawn_question, rows, stats_of, write
from oracle import parquet_footer as thrift
from parquet_mutants import footer_of
from scale import IS_NIGHTLY, tries

import projseg
from projseg import Projection

deltalake = pytest.importorskip("deltalake")

GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
BY_CITY = Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])


class Log:
    """A Delta table that jobs of somebody else change."""

    def __init__(self, place, random):
        self.place, self.random = str(place), random
        self.wide = self.extra = False
        self.append()

    @property
    def table(self):
        return deltalake.DeltaTable(self.place)

    def append(self):
        drawn = rows(self.random, int(self.random.integers(1, 300)), extra=self.extra)
        deltalake.write_deltalake(
            self.place, drawn, partition_by=["city"], mode="append", schema_mode="merge"
        )

    def add_column(self):
        self.extra = True
        self.append()

    def overwrite(self):
        drawn = rows(self.random, 50, extra=self.extra)
        deltalake.write_deltalake(self.place, drawn, partition_by=["city"], mode="overwrite",
                                  schema_mode="merge")  # fmt: skip

    def delete(self):
        self.table.delete(f"added > {int(self.random.integers(20, 50))}")

    def update(self):
        self.table.update(updates={"added": "added + 1"}, predicate="added < -20")

    def compact(self):
        self.table.optimize.compact()

    def restore(self):
        if (version := self.table.version()) > 0 and not self.extra:
            self.table.restore(int(self.random.integers(0, version)))

    def vacuum(self):
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    STEPS = ("append", "append", "overwrite", "delete", "update", "compact", "add_column")

    def ask(self, text):
        held = self.table.to_pyarrow_dataset().to_table()
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("t", held)
            return comparable(connection.execute(text).fetchall())


@pytest.mark.parametrize("seed", range(tries(100, 2)))
def test_every_answer_is_of_one_version_of_the_log(seed, tmp_path):
    random = np.random.default_rng([seed, 7])
    log = Log(tmp_path / "delta", random)
    options = {"time_column": "time", "projections": [BY_CITY]}
    projseg.Table.attach(tmp_path / "ours", f"delta:{tmp_path}/delta", **options)
    steps = (*Log.STEPS, "restore") if seed % 2 else (*Log.STEPS, "vacuum")
    for _ in range(12 if IS_NIGHTLY else 6):
        step = str(random.choice(steps))
        getattr(log, step)()
        before = stats_of(log.place)
        table = projseg.Table(tmp_path / "ours")
        assert table.source.version == str(log.table.version())
        if random.integers(2):
            done = table.sync()
            assert done.source_version == table.source.version
            assert table.source.files_without_companion == 0
        known = set(table.schema.names) & set(log.table.schema().to_arrow().names)
        for text in (GROUPS, drawn_question(random, known), drawn_question(random, known)):
            assert asked(table, text) == log.ask(text), (step, text)
        assert stats_of(log.place) == before
    assert table.sync().version == table.version
    assert projseg.Table(tmp_path / "ours").verify(deep=True) == []


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "delta", np.random.default_rng(3))


def attached(log, tmp_path, **options):
    return projseg.Table.attach(tmp_path / "ours", f"delta:{log.place}", **options)


def test_partition_columns_have_the_types_that_the_log_declares(tmp_path):
    random = np.random.default_rng(1)
    parted = ["day", "flag", "city", "time"]
    drawn = rows(random, 12)
    deltalake.write_deltalake(str(tmp_path / "delta"), drawn, partition_by=parted)
    table = projseg.Table.attach(tmp_path / "ours", f"delta:{tmp_path}/delta", time_column="time")
    text = "SELECT day, flag, city, time, added FROM t"
    assert asked(table, text) == comparable(
        [tuple(row[name] for name in (*parted, "added")) for row in drawn.to_pylist()]
    )
    assert table.schema.field("day").type == pa.date32()


def test_a_loaded_table_is_followed_at_its_newest_version(log, tmp_path):
    loaded = deltalake.DeltaTable(log.place, version=0)
    log.append()
    table = projseg.Table.attach(tmp_path / "ours", loaded)
    assert table.source.version == "1"


def test_a_column_that_is_added_without_a_file_is_followed(log, tmp_path):
    table = attached(log, tmp_path)
    fields = [deltalake.Field("later", deltalake.schema.PrimitiveType("integer"), nullable=True)]
    log.table.alter.add_columns(fields)
    done = table.sync()
    assert (done.files_added, done.files_dropped) == (0, 0)
    assert table.schema.field("later").type == pa.int32()
    assert asked(table, "SELECT count(later) FROM t") == [(0,)]


def test_a_table_that_was_made_again_is_another_one(log, tmp_path):
    table = attached(log, tmp_path)
    shutil.rmtree(log.place)
    log.append()
    assert code_of(lambda: projseg.Table(table.location)) == "PROJSEG_BAD_SOURCE"
    assert code_of(table.sync) == "PROJSEG_BAD_SOURCE"


def commit(log, *actions):
    """Write the next version of a log by hand."""
    version = log.table.version() + 1
    path = f"{log.place}/_delta_log/{version:020}.json"
    with open(path, "w") as file:
        file.write("\n".join(map(json.dumps, actions)))


def add_of(log):
    with open(f"{log.place}/_delta_log/{0:020}.json") as file:
        lines = [json.loads(line) for line in file]
    return next(line["add"] for line in lines if "add" in line), lines


def test_deletion_vectors_are_refused(log, tmp_path):
    table = attached(log, tmp_path)
    add, _ = add_of(log)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    commit(log, {"protocol": protocol})
    assert projseg.Table(table.location).source.files == table.source.files  # none is used yet
    commit(log, {"add": {**add, "deletionVector": vector}})
    assert code_of(lambda: projseg.Table(table.location)) == "PROJSEG_SOURCE_DELETES"
    assert code_of(table.sync) == "PROJSEG_SOURCE_DELETES"


@pytest.mark.parametrize("mode", ["id", "name"])
def test_mapped_columns_are_refused(log, tmp_path, mode):
    _, lines = add_of(log)
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    metadata["configuration"]["delta.columnMapping.mode"] = mode
    commit(
        log, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata}
    )
    assert code_of(lambda: attached(log, tmp_path)) == "PROJSEG_BAD_SOURCE"


@pytest.mark.parametrize(
    "name", ["../outside.parquet", "city=x/../../outside.parquet", "link.parquet"]
)
def test_paths_that_lead_out_of_the_table_are_refused(log, tmp_path, name):
    write(tmp_path / "outside.parquet", rows(np.random.default_rng(1), 5))
    (tmp_path / "delta" / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    add, _ = add_of(log)
    size = (tmp_path / "outside.parquet").stat().st_size
    commit(log, {"add": {**add, "path": name, "size": size, "stats": None}})
    assert code_of(lambda: attached(log, tmp_path)) == "PROJSEG_BAD_SOURCE"


def test_a_list_with_a_wrong_count_of_rows_is_refused(log, tmp_path):
    add, _ = add_of(log)
    stats = json.loads(add["stats"])
    stats["numRecords"] += 1
    commit(log, {"add": {**add, "stats": json.dumps(stats)}})
    assert code_of(lambda: attached(log, tmp_path)) == "PROJSEG_SOURCE_CHANGED"


@pytest.mark.parametrize("what", ["nothing", "no log"])
def test_what_is_no_delta_table_is_refused(tmp_path, what):
    if what == "no log":
        write(tmp_path / "delta" / "a.parquet", rows(np.random.default_rng(1), 5))
    source = f"delta:{tmp_path}/delta"
    assert code_of(lambda: projseg.Table.attach(tmp_path / "ours", source)) == "PROJSEG_BAD_SOURCE"


def test_a_checkpoint_at_which_its_reader_panics_is_refused(log, tmp_path):
    log.table.create_checkpoint()
    (path,) = Path(log.place).glob("_delta_log/*.checkpoint.parquet")
    content = path.read_bytes()
    footer = footer_of(content)
    tree = thrift.decode(footer)
    part = thrift.values(thrift.values(thrift.values(tree, 4)[0][1][0], 1)[0][1][0], 3)[0]
    part[:] = [[field, kind, -5 if field == 7 else one] for field, kind, one in part]  # its size
    changed = thrift.encode(tree)
    ending = len(changed).to_bytes(4, "little") + content[-4:]
    path.write_bytes(content[: -8 - len(footer)] + changed + ending)
    assert code_of(lambda: attached(log, tmp_path)) == "PROJSEG_BAD_SOURCE"
