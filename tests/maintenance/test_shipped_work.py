"""Pieces of work that several attempts do: one counts, and what the others wrote is removed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from life_tables import HOURLY, new_table, rows, stored_rows

from projseg.errors import CorruptSegmentError, InvalidInputError, ProjsegError
from projseg.maintenance.compact import Compaction, compact
from projseg.maintenance.materialize_projections import Materialization
from projseg.maintenance.task_messages import ShippedWork, abandon, collected, pieces_of
from projseg.table_layer.storage.paths import is_own_name, temporary_name


@pytest.fixture
def table(tmp_path):
    made = new_table(tmp_path / "t", projections=[HOURLY])
    for n in range(6):
        made.append(rows(n % 2, count=7, first=n * 7))
    return made


@dataclass
class Attempts:
    """Does each piece in as many attempts as there are, and tells of the last; or fails."""

    counts: tuple[int, ...]
    fails: bool = False
    changed: object = list
    written: list = field(default_factory=list)

    def run(self, order):
        work = ShippedWork.of(order)
        work, pieces = ShippedWork.from_json(work.storage, work.to_json(pieces_of(order)))
        told, attempt = [], 100
        for number, (piece, count) in enumerate(zip(pieces, self.counts, strict=True)):
            for _ in range(count):
                attempt += 1
                last = work.run(number, piece, attempt=attempt, threads=1)
                self.written.extend(json.loads(last)["entries"])
            told.append(last)
        if self.fails:
            abandon(order)
            raise ProjsegError("PROJSEG_JOB_FAILED", "the job failed")
        yield from collected(order, self.changed(reversed(told)))


def files(table):
    return {path.name for path in Path(table.location, "data").iterdir()}


def test_of_several_attempts_one_is_committed_and_no_other_file_stays(table):
    before, wanted = files(table), stored_rows(table)
    runner = Attempts((3, 1))
    snapshot, entries = compact(table.snapshot, Compaction(), runner=runner)
    assert len(runner.written) == 4
    assert files(table) - before == {Path(entry.file).name for entry in entries}
    assert len(snapshot.segments) == len(entries) == 2
    table.refresh()
    assert stored_rows(table) == wanted
    assert table.verify(deep=True) == []


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)])
def test_a_failed_job_leaves_no_file(table, counts):
    before, version = files(table), table.version
    with pytest.raises(ProjsegError, match="the job failed"):
        compact(table.snapshot, Compaction(), runner=Attempts(counts, fails=True))
    assert files(table) == before
    table.refresh()
    assert table.version == version


def test_what_a_killed_attempt_left_under_a_temporary_name_is_removed(table):
    class Killed(Attempts):
        def run(self, order):
            name = temporary_name(f"data/{order.write_id}-0-7-0.pseg")
            assert is_own_name(name)
            Path(table.location, name).write_bytes(b"half")
            yield from super().run(order)

    compact(table.snapshot, Compaction(), runner=Killed((1, 1)))
    assert not [name for name in files(table) if name.endswith(".tmp")]


def test_files_of_other_writes_stay(table):
    other = Path(table.location, "data", f"{'a' * 32}-0-0-0.pseg")
    other.write_bytes(b"of another")
    with pytest.raises(ProjsegError):
        compact(table.snapshot, Compaction(), runner=Attempts((1, 1), fails=True))
    compact(table.snapshot, Compaction(), runner=Attempts((2, 2)))
    assert other.exists()


@pytest.mark.parametrize(
    "changed",
    [
        lambda told: list(told)[:1],
        lambda told: [next(told)] * 2,
        lambda told: [*told, "nonsense"],
        lambda told: [],
    ],
)
def test_anything_but_one_of_each_piece_is_refused(table, changed):
    before = files(table)
    runner = Attempts((1, 1), changed=changed)
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_COMMIT_ENTRY"):
        compact(table.snapshot, Compaction(), runner=runner)
    assert files(table) == before


def test_an_attempt_that_fails_removes_its_own_file(table):
    path = Path(table.location, table.snapshot.segments[0].file)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    before = files(table)
    with pytest.raises(CorruptSegmentError):
        compact(table.snapshot, Compaction(), runner=Attempts((1, 1)))
    assert files(table) == before


@pytest.mark.parametrize("rewrite", [Compaction((1, 2), 3, True), Materialization("p", (1, 2), 7)])
def test_work_is_the_same_after_it_was_sent(table, rewrite):
    file = table.snapshot.file
    work = ShippedWork(rewrite, table.snapshot.storage, file, "a" * 32, 4)
    assert ShippedWork.from_json(work.storage, work.to_json([b"\0x", b""])) == (work, (b"\0x", b""))


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"rewrite": {"type": "drop"}}'])
def test_other_texts_are_no_work(table, text):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
        ShippedWork.from_json(table.snapshot.storage, text)
