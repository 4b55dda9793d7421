"""Companions that are made by tasks of another process: by messages, as Spark's are."""

import pickle

import numpy as np
import pytest
from foreign_source import Folder, asked

import projseg
from projseg import Index, Projection
from projseg.errors import ProjsegError
from projseg.maintenance.sync import sync
from projseg.maintenance.task_messages import ShippedWork, abandon, collected, pieces_of
from projseg.table_layer.metadata.change import CommitNote

GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
ONE_PAGE = "SELECT added FROM t WHERE page = 'page 007'"


class Cluster:
    """Does each piece in as many attempts, from what travels alone; or fails when all are done."""

    def __init__(self, attempts=1, fails=False):
        self.attempts, self.fails, self.pieces = attempts, fails, 0

    def run(self, order):
        told, attempt = [], 7
        sent = pickle.dumps(ShippedWork.of(order))
        for number, piece in enumerate(pieces_of(order)):
            self.pieces += 1
            for _ in range(self.attempts):
                attempt += 1
                last = pickle.loads(sent).run(number, piece, attempt=attempt, threads=1)
            told.append(last)
        if self.fails:
            abandon(order)
            raise ProjsegError("PROJSEG_JOB_FAILED", "the job failed")
        yield from collected(order, reversed(told))


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "source", np.random.default_rng(7))
    folder.add()
    return folder


@pytest.fixture
def table(folder, tmp_path):
    table = projseg.Table.attach(
        tmp_path / "ours",
        f"parquet:{folder.place}",
        time_column="time",
        projections=[Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])],
        indexes=[Index("pages", "page")],
        target_segment_rows=200,
    )
    for _ in range(3):
        folder.add()
    folder.add_column()
    return table


def made_by(table, runner):
    return sync(projseg.Table(table.location).snapshot.storage, CommitNote(), runner=runner)


def test_companions_of_tasks_are_those_of_threads(folder, table):
    cluster = Cluster(attempts=2)
    _, done, entries = made_by(table, cluster)
    assert (done.files_added, len(entries)) == (4, cluster.pieces)
    fresh = projseg.Table(table.location)
    assert fresh.source.files_without_companion == 0
    assert "extra" in fresh.schema.names
    assert asked(fresh, GROUPS) == folder.ask(GROUPS)
    assert fresh.explain(GROUPS).sources == {"c": len(fresh.snapshot.segments)}
    assert asked(fresh, ONE_PAGE) == folder.ask(ONE_PAGE)
    assert fresh.verify(deep=True) == []
    assert fresh.vacuum(retention_hours=0, dry_run=False, force=True).file_count < 20
    assert asked(fresh.newest(), GROUPS) == folder.ask(GROUPS)


def test_a_job_that_fails_leaves_nothing(folder, table):
    before = {path.name for path in (folder.place.parent / "ours" / "data").iterdir()}
    with pytest.raises(ProjsegError):
        made_by(table, Cluster(attempts=2, fails=True))
    assert {path.name for path in (folder.place.parent / "ours" / "data").iterdir()} == before
    fresh = projseg.Table(table.location)
    assert fresh.version == 0
    assert asked(fresh, GROUPS) == folder.ask(GROUPS)


def test_a_session_that_is_none_is_refused(table):
    with pytest.raises(ProjsegError) as caught:
        table.sync(spark=object())
    assert caught.value.code == "PROJSEG_BAD_ARGUMENT"
