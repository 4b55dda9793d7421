"""Companions to be made, as pieces of work that threads or other processes do."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from msgspec.structs import replace

from projseg.maintenance.rewrite_tasks import NewFile, Target, Task, TaskRunner, WorkOrder
from projseg.table_layer.foreign.foreign_segment import file_options, listed_file
from projseg.table_layer.foreign.parquet_file import ParquetRows, proved_footer
from projseg.table_layer.foreign.source_state import present_columns
from projseg.table_layer.metadata.segment_entry import ForeignEntry, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.writer.companion_writer import ForeignRows, write_companion
from projseg.writer.segment_filters import FilterWriter


@dataclass(frozen=True, slots=True)
class CompanionTask:
    """One companion to be made of rows that have no file yet; of deferred parts if `makes_all`."""

    target: Target
    entry: ForeignEntry
    makes_all: bool

    @property
    def key(self) -> tuple[object, ...]:
        """The rows."""
        return (self.entry.listed_as, self.makes_all)

    @property
    def replaced(self) -> tuple[SegmentEntry, ...]:
        """The entry without a file."""
        return (self.entry,)

    def write(self, file: NewFile, pool: Executor) -> tuple[SegmentEntry, ...]:
        """Write the companion, and Bloom filters of its own."""
        snapshot, layout, foreign = self.target.snapshot, self.target.layout, self.entry.foreign
        storage = snapshot.storage
        options = file_options(storage, foreign.names is not None)
        listed = listed_file(foreign)
        footer = proved_footer(listed, foreign.footer_digest, options)
        rows = ParquetRows(listed, footer, foreign.row_groups, options)
        names = present_columns(snapshot.properties, listed, footer)
        wanted = layout.filters if self.makes_all else layout.filters_at_once
        filters = FilterWriter(storage, file.write_id, wanted)
        with rows.held():
            made = write_companion(
                ForeignRows(rows, foreign, names),
                layout,
                storage=storage,
                file=file.name,
                write_id=file.write_id,
                pool=pool,
                filters=filters,
                makes_all=self.makes_all,
            )
        return (replace(made, bloom_files=filters.finish()),)


@dataclass(frozen=True, slots=True)
class CompanionRewrite:
    """Makes companions of entries that have none; small, and it pickles."""

    makes_all: bool

    def plan(self, target: Target) -> Sequence[Task]:
        """Nothing of a stored version is without a companion."""
        del target
        return ()

    def task(self, target: Target, replaced: tuple[SegmentEntry, ...]) -> CompanionTask:
        """Return the task that makes the companion of an entry."""
        (entry,) = replaced
        assert isinstance(entry, ForeignEntry)
        return CompanionTask(target, entry, self.makes_all)


def companions_by(
    runner: TaskRunner,
    snapshot: Snapshot,
    properties: TableProperties,
    entries: Iterable[ForeignEntry],
    write_id: str,
    files: list[str],
    *,
    makes_all: bool,
) -> Generator[ForeignEntry]:
    """Yield the companions of entries without a file, made by tasks of a runner.

    They are for what the table is to declare; `files` takes the names of the files that are
    written.
    """
    rewrite = CompanionRewrite(makes_all)
    stated = replace(snapshot.file, properties=properties)
    target = Target.of(Snapshot(snapshot.storage, stated))
    tasks = [rewrite.task(target, (entry,)) for entry in entries]
    if not tasks:
        return
    order = WorkOrder(rewrite, "sync", target, tasks, write_id, 0, files, lambda _: None)
    for _, made in runner.run(order):
        for entry in made:
            assert isinstance(entry, ForeignEntry)
            yield entry
