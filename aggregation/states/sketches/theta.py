"""theta_sketch_agg(x): the smallest hashes of each group, as bytes that Spark's functions read.

As with HyperLogLog states, what a sketch holds is a function of the set of values alone; null and
the empty text count as no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.sketches.hashes import theta_hashes_of
from projseg.aggregation.states.state import Groups
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.sketches.theta_bytes import parse_thetas, theta_bytes
from projseg.kernels.sketches.theta_fold import THETA_MAX, bucket_hashes, merge_smallest
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.vectors import Opaque, Vector

_CHUNK_ROWS_MIN: Final = 1 << 16


class ThetaState:
    """The smallest hashes of each group, ascending, and its theta: no smaller hash was dropped."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._size_max = 1 << cast(int, primitive.parameters[0])
        self._thetas = np.full(group_count, THETA_MAX, np.uint64)
        self._starts = np.zeros(group_count + 1, np.int64)
        self._hashes = np.zeros(0, np.uint64)

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold values in, some rows at a time: the thetas fall, so later rows add fewer hashes."""
        value_ids, hashes = theta_hashes_of(inputs[0])
        row_count = len(hashes) if value_ids is None else len(value_ids)
        start = 0
        while start < row_count:
            end = start + max(_CHUNK_ROWS_MIN, 2 * (len(self._thetas) + len(self._hashes)))
            group_ids = None if groups.ids is None else groups.ids[start:end]
            if value_ids is None:
                self._add_hashes(group_ids, None, hashes[start:end])
            else:
                self._add_hashes(group_ids, value_ids[start:end], hashes)
            start = end

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold sketches in; those of a higher lgK are cut down.

        Raises
        ------
        CorruptSegmentError
            If a sketch is malformed.
        """
        offsets, content = text_parts(columns["sketch"].to_arrow())
        ids = np.zeros(len(offsets) - 1, np.uint32) if groups.ids is None else groups.ids
        # The smallest hash that is not kept becomes theta. An entry takes at least one bit.
        kept_max = self._size_max + 1
        entries_max = np.cumsum(np.minimum(8 * np.diff(offsets), kept_max))
        start = 0
        while start < len(ids):
            before = int(entries_max[start - 1]) if start else 0
            chunk = max(_CHUNK_ROWS_MIN, 2 * (len(self._thetas) + len(self._hashes)))
            end = max(start + 1, int(np.searchsorted(entries_max, before + chunk, side="right")))
            self._merge_rows(ids[start:end], offsets[start : end + 1], content, kept_max)
            start = end

    def _merge_rows(
        self,
        group_ids: NDArray[Any],
        offsets: NDArray[np.int64],
        content: NDArray[np.uint8],
        kept_max: int,
    ) -> None:
        starts, hashes, thetas = parse_thetas(offsets, content, kept_max)
        np.minimum.at(self._thetas, group_ids, thetas)
        self._add_hashes(np.repeat(group_ids, np.diff(starts)), None, hashes)

    def columns(self) -> dict[str, Vector]:
        """Return the sketches; an empty sketch where there was no value."""
        return {"sketch": Opaque(self.finish())}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the sketches as bytes."""
        offsets, content = theta_bytes(self._starts, self._hashes, self._thetas)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        sketches = pa.Array.from_buffers(pa.binary(), len(self._thetas), buffers)
        return sketches if selection is None else sketches.take(primitive_array(selection))

    def _add_hashes(
        self,
        group_ids: NDArray[Any] | None,
        value_ids: NDArray[Any] | None,
        hashes: NDArray[np.uint64],
    ) -> None:
        added = bucket_hashes(self._thetas, group_ids, value_ids, hashes)
        held = self._starts, self._hashes
        self._starts, self._hashes = merge_smallest(self._thetas, held, added, self._size_max)
