"""Overwrite exactly the rows of an interval, also where it cuts through segments."""

from __future__ import annotations

from msgspec.structs import replace

from projseg.algebra.time.interval import Interval
from projseg.maintenance.row_changes.affected_segments import Rewriting, surviving_rows
from projseg.maintenance.row_changes.delete_and_update import building_all
from projseg.maintenance.row_changes.matching_rows import Condition
from projseg.table_layer.commits.rebase import lies_inside
from projseg.table_layer.metadata.change import Overwrite
from projseg.table_layer.metadata.segment_entry import written_files
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import parse_segment_name
from projseg.writer.table_writer import write_segments


def with_cut_segments(
    base: Snapshot, change: Overwrite, write_id: str, files: list[str]
) -> Overwrite:
    """Return an overwrite that takes the interval's rows out of the segments that it cuts.

    Rows outside the interval stay: few replaced rows are hidden by deletion vectors, of more the
    rows that are left are written anew. Segments that lie inside the interval are not read.

    Parameters
    ----------
    base : Snapshot
        The version that is overwritten.
    change : Overwrite
        New segments, written under `write_id`, and their interval.
    write_id : str
        Names the commit.
    files : list of str
        Gets the files that are written for it.

    Raises
    ------
    CorruptionError, StorageError
        If a segment cannot be read, or a file not written.
    """
    interval, properties = change.interval, base.properties
    if interval is None or properties.time_column is None:
        return change
    found = base.segments_between(*interval)
    if all(lies_inside(entry, interval, properties) for entry in found):
        return change
    names = (parse_segment_name(entry.file) for entry in change.entries)
    done = Rewriting(write_id, files)
    survivors = write_segments(
        surviving_rows(base, Condition(interval=Interval(*interval)), done),
        building_all(properties),
        base.storage,
        write_id=write_id,
        partition=max((name.partition for name in names if name is not None), default=-1) + 1,
    )
    files += written_files(survivors)
    return replace(change, cut=done.replacing(tuple(survivors), depends_on_all=False))
