"""The size of planned indexes and the segments that they exclude, measured in some segments.

It is counted how often a value is in another segment: values are drawn by rows, and looked up in
the keys of every other sampled segment whose bounds enclose them. Nothing is written.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.proofs.segment_facts import ColumnFacts
from projseg.kernels.bloom_blocks import BLOCK_BYTES
from projseg.maintenance.sampled_segments import MeasuredSize, SampledSegments, SampledSizes
from projseg.reader.plan.imagined_indexes import held
from projseg.segment_format.dictionary_pages import array_hashes
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.footer import BASE_TABLE, FILE_ID_BYTES
from projseg.segment_format.indexes.index_kinds import IndexDefinition, block_count_of
from projseg.segment_format.indexes.text_keys import gram_hashes, word_hashes, words_of
from projseg.table_layer.indexed_columns import (
    IndexedColumn,
    WantedFilter,
    indexed_column,
    wanted_filters,
)
from projseg.table_layer.metadata.index_declaration import DeclaredIndex
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.writer.segment_filters import put_postings, segment_keys

_SEGMENTS_MAX: Final = 4
_DRAWN_VALUES: Final = 32  # of each sampled segment
_PIECE_CHARACTERS: Final = 6
"""Of a text, what a pattern with wildcards around it has."""
_SLOT_BYTES: Final = 80  # of a segment in the directory of a Bloom file
_FILTER, _POSTINGS = "filter", "postings"


class IndexSizes(SampledSizes, frozen=True, kw_only=True):
    """The size of an index of one column in each segment, and which segments it would exclude.

    `keys` has uint64[k] by segment file, ascending. `share`, in [0, 1], is how often a drawn value
    is in another segment whose bounds enclose it; 1 if there is no other.
    """

    name: str
    definition: IndexDefinition
    column: IndexedColumn
    keys: dict[str, NDArray[np.uint64]]
    share: float

    def keys_in(self, entry: SegmentEntry) -> NDArray[np.uint64] | None:
        """Return the keys of a segment, uint64[k] ascending; None if they are not known."""
        return self.keys.get(entry.file)

    def filter_bytes(self, entry: SegmentEntry) -> int:
        """Return the bytes of a segment's filter."""
        return self.size_in(entry).column_bytes[_FILTER]


def index_sizes(
    sample: SampledSegments,
    properties: TableProperties,
    declared: DeclaredIndex,
    check: Callable[[], object] = lambda: None,
) -> list[IndexSizes]:
    """Return what each column of an index would take and exclude in the four smallest segments.

    `check` is called before each segment; its error ends the work.
    """
    with_it = replace(properties, indexes=(declared,))
    entries = sorted(sample.entries, key=lambda one: (one.row_count, one.file))[:_SEGMENTS_MAX]
    found = []
    for wanted in wanted_filters(with_it):
        column = indexed_column(wanted.definition, with_it)
        assert column is not None, "a filter is wanted of a column that is there"
        sampled = [_Sampled(sample, entry, wanted, check) for entry in entries]
        found.append(
            IndexSizes(
                measured={one.entry.file: one.size for one in sampled},
                name=declared.name,
                definition=wanted.definition,
                column=column,
                keys={one.entry.file: one.keys for one in sampled},
                share=_share(sampled),
            )
        )
    return found


class _Sampled:
    """One segment, and what an index makes of its column."""

    def __init__(
        self,
        sample: SampledSegments,
        entry: SegmentEntry,
        wanted: WantedFilter,
        check: Callable[[], object],
    ) -> None:
        check()
        start = time.process_time()
        self.entry, self.wanted = entry, wanted
        self._vector = sample.column(entry, wanted.column)
        made = segment_keys(wanted, self._vector)
        empty = np.empty(0, np.uint64)
        self.keys = empty if isinstance(made.keys, str) else np.sort(made.keys)
        blocks = block_count_of(len(self.keys), wanted.definition.bits)
        sizes = {_FILTER: blocks * BLOCK_BYTES + _SLOT_BYTES, _POSTINGS: 0}
        encoder = SegmentEncoder(lambda _: None, file_id=bytes(FILE_ID_BYTES), schema=pa.schema([]))
        encoder.begin_table(BASE_TABLE, 0)
        encoder.end_table()
        posted = put_postings(encoder, [made]).get(wanted.definition)
        if isinstance(posted, int):
            sizes[_POSTINGS] = posted
        took = time.process_time() - start
        self.size = MeasuredSize(entry.row_count, len(self.keys), sum(sizes.values()), sizes, took)
        known = None if wanted.expression else sample.facts(entry).columns.get(wanted.column)
        self._bounds: ColumnFacts | None = known

    def drawn(self) -> list[Any]:
        """Return some values of the column, drawn by rows; none of them is null."""
        draw = random.Random(len(self._vector))  # noqa: S311 - a sample
        count = min(_DRAWN_VALUES, len(self._vector))
        rows = np.array(sorted(draw.sample(range(len(self._vector)), count)), np.uint32)
        values = self.wanted.values(self._vector.take(rows)).to_arrow()
        return [one for one in values if one.is_valid]

    def encloses(self, value: Any) -> bool:
        """Whether the bounds of the column leave a value possible."""
        bounds = self._bounds
        if bounds is None or self.wanted.definition.kind != "bloom":
            return True
        try:
            low, high, plain = bounds.minimum, bounds.maximum, value.as_py()
            return bool((low is None or low <= plain) and (high is None or plain <= high))
        except TypeError:
            return True


def _share(sampled: Sequence[_Sampled]) -> float:
    possible = found = 0
    for one in sampled:
        for value in one.drawn():
            hashes = _keys_of_drawn(one, value)
            for other in sampled:
                if other is not one and len(hashes) and other.encloses(value):
                    possible += 1
                    found += bool(held(other.keys, hashes).all())
    return found / possible if possible else 1.0


def _keys_of_drawn(one: _Sampled, value: pa.Scalar) -> NDArray[np.uint64]:
    """Return the keys that a condition would ask for which is made of a value."""
    kind = one.wanted.definition.kind
    if kind == "bloom":
        return array_hashes(pa.array([value.as_py()], value.type))
    text = value.as_py()
    if kind == "token":
        words = sorted(words_of(text), key=len)
        return word_hashes(pa.array(words[-1:], pa.string()))
    start = max((len(text) - _PIECE_CHARACTERS) // 2, 0)
    return gram_hashes(pa.array([text[start : start + _PIECE_CHARACTERS]], pa.string()))
