"""Columns of small segments that are not open: read and decoded side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from projseg.algebra.planning.source_plan import SourcePlan
from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.segment_format.file.file_batch import Ending, FileBatch, SmallFile, StackedIds
from projseg.segment_format.layout.footer import BASE_TABLE, Role
from projseg.segment_format.layout.footer_shape import FooterShape
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.vectors import Ids, Vector
from projseg.table_layer.commits.fetched_ranges import ending_bytes
from projseg.table_layer.commits.verify_entries import listed_ending, read_listed
from projseg.table_layer.metadata.footer_match import (
    listing_mismatches,
    projection_mismatches,
    type_mismatches,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.locate_storage import Storage

# Fewer files are opened one by one: their footers may have as many shapes.
FILES_MIN: Final = 8
# Bytes of files that are in memory at once.
_BYTES_MAX: Final = 8 << 20
# Columns of more bytes are decoded file by file.
_DECODED_BYTES_MAX: Final = 64 << 20
# Where rows are fewer than 1 / this of their dictionaries' values, only the values used are merged.
_SPARSE_SHARE: Final = 4

Source = tuple[SegmentEntry, SourcePlan]
ColumnName = tuple[str, bool]  # and whether it is a state's


def read_side_by_side(
    storage: Storage,
    schema: TableSchema,
    sources: Sequence[Source],
    columns: Sequence[ColumnName],
) -> Iterator[tuple[Sequence[Source], list[Vector] | None]]:
    """Yield neighbouring sources with the rows of all of them; None: they are read one by one.

    Parameters
    ----------
    storage, schema
        The table, and the snapshot's schema.
    sources : sequence of (SegmentEntry, SourcePlan)
        Not of metadata; all plans read the same columns.
    columns : sequence of (str, bool)
        What is wanted.

    Raises
    ------
    CorruptTableError
        If a file is missing, or is not the committed one.
    """
    spec = sources[0][1].source
    # Columns under other names, or in other types, are read one by one.
    is_renamed = bool(schema.forms) if spec is None else spec.stored is not None
    if storage.is_remote or is_renamed:
        yield sources, None
        return
    for several in _cut(sources):
        if len(several) < FILES_MIN:
            yield several, None
            continue
        batch = FileBatch([_ending(storage, entry) for entry, _ in several])
        wanted = _Wanted(schema, several[0][1], columns)
        listed = zip(several, batch.files, strict=True)
        each = [(one, file if wanted.is_in(file, one[0]) else None) for one, file in listed]
        for is_read, run in groupby(each, key=lambda one: one[1] is not None):
            together = list(run)
            files = [file for _, file in together if file is not None]
            found = wanted.decoded(batch, files) if is_read else None
            yield [source for source, _ in together], found


def _cut(sources: Iterable[Source]) -> Iterator[list[Source]]:
    several: list[Source] = []
    byte_count = 0
    for source in sources:
        size = ending_bytes(source[0])
        if several and byte_count + size > _BYTES_MAX:
            yield several
            several, byte_count = [], 0
        several.append(source)
        byte_count += size
    yield several


def _ending(storage: Storage, entry: SegmentEntry) -> Ending:
    content = listed_ending(storage, entry, ending_bytes(entry))
    path = f"{storage.location}/{entry.file}"
    return Ending(content, entry.byte_count, path, partial(read_listed, storage, entry))


class _Wanted:
    """Columns of one table of each file.

    Parameters
    ----------
    schema : TableSchema
        The snapshot's.
    plan : SourcePlan
        Of one of the sources.
    columns : sequence of (str, bool)
        What is wanted.
    """

    def __init__(
        self, schema: TableSchema, plan: SourcePlan, columns: Sequence[ColumnName]
    ) -> None:
        self._schema, self._spec = schema, plan.source
        spec = plan.source
        self._table = BASE_TABLE if spec is None else (spec.table_name or spec.name)
        self._columns = [(self._role(is_state), name) for name, is_state in columns]
        self._shapes: dict[FooterShape, bool] = {}

    def _role(self, is_state: bool) -> Role:
        if self._spec is None:
            return "base"
        return "state" if is_state else "grouping"

    def is_in(self, file: SmallFile | None, entry: SegmentEntry) -> bool:
        """Whether a file is what the table lists, and has the columns."""
        if file is None:
            return False
        known = self._shapes.get(file.shape)
        if known is None:
            known = self._shapes[file.shape] = self._is_of(file.shape)
        if not known:
            return False
        return next(listing_mismatches(entry, file.shape.footer, file.row_counts), None) is None

    def _is_of(self, shape: FooterShape) -> bool:
        if not all(shape.has_column(self._table, *column) for column in self._columns):
            return False
        if next(type_mismatches(shape.footer, self._schema), None) is not None:
            return False
        if self._spec is None:
            return True
        (table,) = (one for one in shape.footer.tables if one.name == self._table)
        return next(projection_mismatches(self._spec.as_stored, table), None) is None

    def decoded(self, batch: FileBatch, files: Sequence[SmallFile]) -> list[Vector] | None:
        """Return the columns of some files; None if one is better decoded file by file."""
        vectors: list[Vector] = []
        byte_count = 0
        for column in self._columns:
            found = batch.column(files, self._table, *column)
            if found is None or byte_count > _DECODED_BYTES_MAX:
                return None
            vector = _merged(found) if isinstance(found, StackedIds) else found
            byte_count += vector.nbytes
            byte_count += vector.dictionary.nbytes if isinstance(vector, Ids) else 0
            vectors.append(vector)
        return vectors


def _merged(stacked: StackedIds) -> Ids:
    """Return ids in one dictionary of all values."""
    ids, values = stacked
    if len(ids) < len(values) // _SPARSE_SHARE:
        used, ids = np.unique(ids, return_inverse=True)
        values = values.take(primitive_array(used))
    merged = encode_sorted(values)
    return Ids(merged.ids.take(ids), merged.dictionary)
