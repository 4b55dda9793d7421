"""Free the groups of parts of rows that were deleted since: only these rows are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.partial import merge_partials
from projseg.aggregation.subtract_deleted import without
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.planning.partial_match import is_reversible
from projseg.errors import CorruptTableError
from projseg.reader.run_plan import partial_of_rows
from projseg.table_layer.metadata.deleted_rows import deleted_rows, live_row_ids
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.storage_contract import Storage
from projseg.views.changes.followed_parts import DeletedRows, FollowedParts
from projseg.views.part_files import Folder, NewPart


def may_subtract(primitives: Sequence[Primitive]) -> bool:
    """Whether all states of a view are such that those of some rows can be subtracted exactly."""
    known = set(primitives)
    return all(
        is_reversible(one) and (count is None or count in known)
        for one in primitives
        for count in [one.value_count]
    )


def rewritten_part(
    folder: Folder, followed: FollowedParts, entries: Sequence[SegmentEntry]
) -> NewPart:
    """Return the groups of several parts, without those of their rows that were deleted.

    Parameters
    ----------
    folder : Folder
        Of the view, at the present version of the fact.
    followed : FollowedParts
        The parts, and their deleted rows.
    entries : sequence of SegmentEntry
        The segments that hold the rows which are left.

    Raises
    ------
    CorruptionError, StorageError
        If a part, or a segment that is not listed any more, cannot be read.
    EvaluationError
        If a deleted row has a value that Spark's ANSI mode refuses.
    """
    primitives = folder.query.primitives
    pieces = [NewPart((), (part,), None) for part in followed.parts]
    groups = merge_partials([folder.groups_of(piece) for piece in pieces], primitives)
    if followed.deleted:
        storage = folder.snapshot.storage
        gone = [
            partial_of_rows(
                storage, folder.query, folder.schema, one.before, _row_ids(storage, one)
            )
            for one in followed.deleted
        ]
        folder.rows_read += followed.deleted_row_count
        counts = [primitive.value_count for primitive in primitives]
        groups = without(
            groups,
            merge_partials(gone, primitives),
            primitives,
            row_count=primitives.index(Primitive("count", ())) if folder.query.keys else None,
            value_counts=[None if one is None else primitives.index(one) for one in counts],
            path=f"{storage.location}/{followed.parts[0].segment.file}",
        )
    return NewPart(tuple(entries), (), groups)


def _row_ids(storage: Storage, rows: DeletedRows) -> NDArray[np.uint32]:
    """Return the rows of the segment that are deleted now, and were not."""
    if rows.after is None:
        return live_row_ids(storage, rows.before)
    before, after = deleted_rows(storage, rows.before), deleted_rows(storage, rows.after)
    found = np.setdiff1d(after, before, assume_unique=True)
    if len(found) != len(after) - len(before):
        raise CorruptTableError(
            "PROJSEG_SEGMENT_DIFFERS", f"{rows.before.file}: deleted rows are there again"
        )
    return found.astype(np.uint32)
