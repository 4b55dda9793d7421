"""Check a table version: every byte against its checksum, every projection against its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.aggregation.rows import MemorySource
from projseg.algebra.projection_spec import from_definition
from projseg.errors import ProjsegError
from projseg.segment_format.arrow_arrays import primitive_values
from projseg.segment_format.footer import BASE_TABLE, TableEntry
from projseg.segment_format.segment_file import SegmentFile
from projseg.table_layer.footer_match import footer_mismatches
from projseg.table_layer.manifest import SegmentEntry
from projseg.table_layer.snapshot import Snapshot
from projseg.table_layer.storage import Storage
from projseg.writer.projection_builder import BuiltProjection, build_projection

# Sums of doubles depend on the order of addition; anything beyond this is a wrong projection.
_RELATIVE_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in one segment file."""

    file: str
    problem: str


def verify_table(
    storage: Storage,
    snapshot: Snapshot,
    *,
    deep: bool = False,
    on_segment: Callable[[SegmentEntry], object] | None = None,
) -> list[Finding]:
    """Check all segments of a version, past every cache.

    Parameters
    ----------
    storage : Storage
        The table.
    snapshot : Snapshot
        The version.
    deep : bool
        Also recompute each projection from base rows and compare.
    on_segment : callable or None
        Called after each segment, for progress.

    Returns
    -------
    list of Finding
        Empty if all is well.
    """
    findings: list[Finding] = []
    for entry in snapshot.segments:
        findings += _verify_segment(storage, snapshot, entry, deep)
        if on_segment is not None:
            on_segment(entry)
    return findings


def _verify_segment(
    storage: Storage, snapshot: Snapshot, entry: SegmentEntry, deep: bool
) -> Iterator[Finding]:
    def read_range(offset: int, size: int) -> bytes:
        return storage.read_range(entry.file, offset, size)

    try:
        size = storage.size(entry.file)
        segment = SegmentFile.open(read_range, size, path=f"{storage.location}/{entry.file}")
        segment.verify()
        for mismatch in footer_mismatches(entry, segment, snapshot.properties.schema):
            yield Finding(entry.file, str(mismatch))
        if deep:
            for problem in _wrong_projections(segment):
                yield Finding(entry.file, problem)
    except (ProjsegError, OSError) as error:
        yield Finding(entry.file, str(error))


def _wrong_projections(segment: SegmentFile) -> Iterator[str]:
    base, *projections = segment.tables
    vectors = {c.name: segment.column(BASE_TABLE, "base", c.name) for c in base.columns}
    source = MemorySource(base.row_count, vectors)
    for table in projections:
        spec = from_definition(table.definition, segment.schema)
        built = build_projection(source, spec)
        if not isinstance(built, BuiltProjection):
            yield f"projection '{table.name}' cannot be recomputed: {built.reason}"
        elif (difference := _difference(segment, table, built)) is not None:
            yield f"projection '{table.name}' differs from its recomputation in {difference}"


def _difference(segment: SegmentFile, table: TableEntry, built: BuiltProjection) -> str | None:
    if table.row_count != built.row_count:
        return f"its rows: {table.row_count} stored, {built.row_count} recomputed"
    for name, vector in built.grouping.items():
        stored = segment.column(table.name, "grouping", name).to_arrow()
        if not _agree(stored, vector.to_arrow()):
            return f"grouping column '{name}'"
    for name, vector in built.states.items():
        stored = segment.column(table.name, "state", name).to_arrow()
        if not _agree(stored, vector.to_arrow()):
            return f"state '{name}'"
    return None


def _agree(stored: pa.Array, recomputed: pa.Array) -> bool:
    if stored.equals(recomputed):
        return True
    if not pa.types.is_floating(stored.type) or not stored.is_valid().equals(recomputed.is_valid()):
        return False
    left, right = (primitive_values(array.drop_null()) for array in (stored, recomputed))
    return bool(np.allclose(left, right, rtol=_RELATIVE_TOLERANCE, atol=0, equal_nan=True))
