"""The groups of a query's tasks in bounded memory: merged as they come, or part by part.

Equal keys have equal hashes, so each part of the hashes holds whole groups. Parts of many groups
are merged side by side; groups that take more memory than they may go to a temporary file by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.partial import Partial, StoredPartial, key_arrow, merge_partials
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import EvaluationError, LimitExceededError
from projseg.evaluation.arrow_vectors import grouping_vector, vector_of_array
from projseg.memory.deadline import check_deadline
from projseg.memory.memory_pool import array_bytes
from projseg.memory.temporary_batches import (
    LIMIT_SETTING,
    Place,
    TemporaryBatches,
    bytes_in_memory,
)
from projseg.segment_format.arrow_arrays import primitive_array, valid_values
from projseg.segment_format.dictionary_pages import array_hashes
from projseg.segment_format.vectors import Vector, held_bytes

# Groups of tasks are merged early once they take so much. That is not looked at while so few are
# held, of states that take a few bytes each.
_MERGED_BYTES: Final = 256 << 20
_GROUPS_COUNTED_MIN: Final = 1 << 17
# Where merging leaves more than this share of the groups, they are not merged again as they come.
_MANY_SHARE: Final = 0.7
# From so many groups on, parts are merged side by side, each in less memory than is far.
_PARTED_GROUPS_MIN: Final = 1 << 20
# Merged groups that take more than this share of the limit leave too little room for others.
_SPILLED_SHARE: Final = 0.5
_PART_BITS: Final = 6
_PARTS: Final = 1 << _PART_BITS
_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)

_ADVICE: Final = "Filter rows, group by fewer or coarser columns"

_Mapped: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def bounded_groups(
    found: Iterable[Partial],
    primitives: Sequence[Primitive],
    *,
    may_part: bool,
    side_by_side: _Mapped | None = None,
) -> Iterator[Partial]:
    """Yield the groups of tasks: one partial, or several that share no group; none of no task.

    `side_by_side` maps as `map` does, in threads. Raises LimitExceededError
    (PROJSEG_QUERY_TOO_LARGE) if the groups of a partial take more than PROJSEG_GROUP_BYTES or the
    temporary folder has no room, and EvaluationError (PROJSEG_OVERFLOW) if a sum that goes to a
    file passes 38 digits.
    """
    limit = bytes_in_memory()
    is_counted = not all(primitive.kind.is_quick for primitive in primitives)
    held: list[Partial] = []
    group_count = byte_count = counted = 0
    are_many = False
    merge_at = min(_MERGED_BYTES, limit)
    with closing(_Parts(primitives, limit)) as parts:
        for partial in found:
            held.append(partial)
            may_part = may_part and bool(partial.keys)
            group_count += partial.group_count
            if is_counted or group_count >= _GROUPS_COUNTED_MIN:
                byte_count += sum(map(_bytes_of, held[counted:]))
                counted = len(held)
            if byte_count <= merge_at:
                continue
            if not are_many:
                before = _group_count(held)
                held = [merge_partials(held, primitives)]
                byte_count, counted = _bytes_of(held[0]), 1
                are_many = may_part and _group_count(held) > _MANY_SHARE * before
            if may_part and byte_count > _SPILLED_SHARE * limit:
                parts.spill(held)
                byte_count = counted = 0
            elif byte_count > limit:
                raise _too_large(_group_count(held), byte_count, limit)
            spill_at = int(_SPILLED_SHARE * limit)
            merge_at = spill_at if are_many else min(max(_MERGED_BYTES, 2 * byte_count), limit)
        if parts.are_spilled:
            parts.spill(held)
        elif held:
            are_large = len(held) > 1 and _group_count(held) >= _PARTED_GROUPS_MIN
            if are_large and may_part and side_by_side is not None:
                parts.hold(held)
            else:
                yield merge_partials(held, primitives)
        yield from parts.merged(side_by_side or map)


class _Parts:
    """Groups by a hash of their keys, in memory or in a temporary file.

    A part takes at most `limit` bytes when it is merged.
    """

    def __init__(self, primitives: Sequence[Primitive], limit: int) -> None:
        self._primitives = primitives
        self._limit = limit
        self._file = TemporaryBatches("groups", _ADVICE)
        self._schema: pa.Schema | None = None
        self._pieces: list[list[pa.RecordBatch | Place]] = [[] for _ in range(_PARTS)]

    @property
    def are_spilled(self) -> bool:
        """Whether there is a file."""
        return not self._file.is_empty

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def hold(self, partials: list[Partial]) -> None:
        """Take groups with their states out of a list; the same keys may come again."""
        while partials:
            for part, rows in self._by_part(partials.pop()):
                self._pieces[part].append(rows)

    def spill(self, partials: list[Partial]) -> None:
        """Do as `hold`, and write them to the file."""
        while partials:
            for part, rows in self._by_part(partials.pop()):
                check_deadline()
                self._pieces[part].append(self._file.write(rows))

    def _by_part(self, groups: Partial) -> Iterator[tuple[int, pa.RecordBatch]]:
        parts = (_key_hashes(groups) >> np.uint64(64 - _PART_BITS)).astype(np.uint8)
        order = np.argsort(parts, kind="stable")
        rows = self._rows(groups).take(primitive_array(order))
        ends = np.cumsum(np.bincount(parts, minlength=_PARTS))
        for part, (start, end) in enumerate(pairwise([0, *ends])):
            if start < end:
                yield part, rows.slice(start, end - start)

    def _rows(self, groups: Partial) -> pa.RecordBatch:
        columns = {f"key {i}": key_arrow(groups, i) for i in range(len(groups.keys))}
        for index, primitive in enumerate(self._primitives):
            for name, vector in groups.state_columns(index).items():
                try:
                    columns[f"state {index} {name}"] = vector.to_arrow()
                except ValueError as error:  # Spark's sums of decimals overflow there as well
                    problem = f"{primitive.text} of a group: {error}; cast its input to double"
                    raise EvaluationError("PROJSEG_OVERFLOW", problem) from error
        if self._schema is None:
            self._schema = pa.record_batch(columns).schema
        return pa.RecordBatch.from_pydict(columns, self._schema)

    def merged(self, side_by_side: _Mapped) -> Iterator[Partial]:
        """Yield each part's groups, merged, of the parts that have some."""
        return iter(side_by_side(self._merged, filter(None, self._pieces)))

    def _merged(self, pieces: list[pa.RecordBatch | Place]) -> Partial:
        check_deadline()
        partials = [self._partial(piece) for piece in pieces]
        byte_count = sum(map(_bytes_of, partials))
        if byte_count > self._limit:
            raise _too_large(_group_count(partials), byte_count, self._limit)
        pieces.clear()
        return merge_partials(partials, self._primitives)

    def _partial(self, piece: pa.RecordBatch | Place) -> StoredPartial:
        rows = self._file.read(piece, self._schema) if isinstance(piece, Place) else piece
        keys: list[Vector] = []
        columns: list[dict[str, Vector]] = [{} for _ in self._primitives]
        for name, array in zip(rows.schema.names, rows.columns, strict=True):
            kind, index, *part = name.split(" ", 2)
            if kind == "key":
                keys.append(grouping_vector(array))
            else:
                columns[int(index)][part[0]] = vector_of_array(array)
        return StoredPartial(keys, self._primitives, columns, rows.num_rows)


def _group_count(partials: Sequence[Partial]) -> int:
    return sum(partial.group_count for partial in partials)


def _key_hashes(groups: Partial) -> NDArray[np.uint64]:
    """Return a hash of each group's keys, uint64[group_count]: its high bits are well mixed."""
    hashes = np.zeros(groups.group_count, np.uint64)
    for index in range(len(groups.keys)):
        values = key_arrow(groups, index)
        if pa.types.is_null(values.type):
            continue
        own = array_hashes(values)
        if values.null_count:
            own = np.where(valid_values(values), own, np.uint64(0))
        hashes = (hashes ^ own) * _HASH_FACTOR
    return hashes


def _bytes_of(partial: Partial) -> int:
    states = partial.columns if isinstance(partial, StoredPartial) else partial.states
    return sum(map(held_bytes, partial.keys)) + array_bytes(states)


def _too_large(group_count: int, byte_count: int, limit: int) -> LimitExceededError:
    return LimitExceededError(
        "PROJSEG_QUERY_TOO_LARGE",
        f"{group_count} groups take {byte_count >> 20} MiB, and there may be more;"
        f" {LIMIT_SETTING} allows {limit >> 20} MiB. Filter rows, group by fewer or coarser"
        f" columns, or set {LIMIT_SETTING} higher, such as {max(2 * byte_count >> 20, 1)}M",
    )
