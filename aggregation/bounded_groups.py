"""The groups of a query's tasks in bounded memory: merged as they come, or part by part.

Equal keys have equal hashes, so each part of the hashes holds whole groups. Where nearly all rows
are groups, each thread deals its rows to the parts as they are. Parts are merged side by side, and
go to a temporary file if they take more memory than they may.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.partial import Partial, StoredPartial, merge_partials
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import EvaluationError, LimitExceededError
from projseg.evaluation.arrow_vectors import vector_of_array
from projseg.memory.deadline import check_deadline
from projseg.memory.memory_pool import array_bytes
from projseg.memory.temporary_batches import (
    LIMIT_SETTING,
    Place,
    TemporaryBatches,
    bytes_in_memory,
)
from projseg.segment_format.dictionary_pages import vector_hashes
from projseg.segment_format.vectors import Ids, Opaque, Vector, held_bytes

# Groups of tasks are merged early once they take so much. That is not looked at while so few are
# held, of states that take a few bytes each.
_MERGED_BYTES: Final = 256 << 20
_GROUPS_COUNTED_MIN: Final = 1 << 17
# Where groups are to be parted, and those of a task are more than this share of its rows, rows of
# later tasks are dealt to parts as they are.
_MANY_SHARE: Final = 0.7
# Small parts are merged together.
_TOGETHER_BYTES: Final = 8 << 20
# From so many groups on, parts are merged side by side, each in less memory than is far.
_PARTED_GROUPS_MIN: Final = 1 << 20
# Merged groups that take more than this share of the limit leave too little room for others.
_SPILLED_SHARE: Final = 0.5
_PART_BITS: Final = 6
_PARTS: Final = 1 << _PART_BITS
_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)

_ADVICE: Final = "Filter rows, group by fewer or coarser columns"

_Mapped: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Generator[Any]]


class GroupingTask(Protocol):
    """Work that yields groups of some rows."""

    @property
    def row_count(self) -> int:
        """Rows that the task reads."""


AnyTask = TypeVar("AnyTask", bound=GroupingTask)


def bounded_groups(
    tasks: Iterable[AnyTask],
    run: Callable[[AnyTask, bool], Partial],
    primitives: Sequence[Primitive],
    *,
    may_part: bool,
    task_count: int,
    side_by_side: _Mapped,
) -> Iterator[Partial]:
    """Yield the groups of tasks: one partial, or several that share no group; none of no task.

    `run` returns a task's groups, which may repeat where it is given true. `side_by_side` maps as
    `map` does, in threads; closing what it returns stops it. Raises LimitExceededError
    (PROJSEG_QUERY_TOO_LARGE) if the groups of a partial take more than PROJSEG_GROUP_BYTES or the
    temporary folder has no room, and EvaluationError (PROJSEG_OVERFLOW) if a sum that goes to a
    file passes 38 digits.
    """
    limit = bytes_in_memory()
    are_quick = all(primitive.kind.is_quick for primitive in primitives)
    merging, parts = _Merging(primitives, limit, may_part=may_part), _Parts(primitives, limit)
    are_apart = are_dealt = False

    def work(task: AnyTask) -> Partial | list[_Piece]:
        nonlocal are_apart, are_dealt
        groups = run(task, are_apart)
        are_few = groups.group_count * task_count < _PARTED_GROUPS_MIN or task_count == 1
        if may_part and not are_few and groups.group_count > _MANY_SHARE * task.row_count:
            are_apart, are_dealt = are_quick, True
        return parts.deal(groups) if are_dealt else groups

    with closing(parts), closing(side_by_side(work, tasks)) as found:
        for one in found:
            if isinstance(one, list):
                parts.take(one)
            elif (too_many := merging.add(one)) is not None:
                are_dealt = True
                parts.take(parts.deal(too_many))
        held = merging.held
        are_large = len(held) > 1 and _group_count(held) >= _PARTED_GROUPS_MIN
        if held and not are_dealt and not (are_large and may_part):
            yield merge_partials(held, primitives)
            return
        for dealt in side_by_side(parts.deal, (held.pop() for _ in range(len(held)))):
            parts.take(dealt)
        yield from parts.merged(side_by_side)


class _Merging:
    """Groups of tasks, merged early where they take much memory."""

    def __init__(self, primitives: Sequence[Primitive], limit: int, *, may_part: bool) -> None:
        self.held: list[Partial] = []
        self._primitives, self._limit, self._may_part = primitives, limit, may_part
        self._are_counted = not all(primitive.kind.is_quick for primitive in primitives)
        self._group_count = self._byte_count = self._counted = 0
        self._merge_at = min(_MERGED_BYTES, limit)

    def add(self, groups: Partial) -> Partial | None:
        """Hold groups; return all that are held, merged, if they leave too little room for others.

        Raises LimitExceededError if they may not part, and take more than the limit.
        """
        self.held.append(groups)
        self._group_count += groups.group_count
        if self._are_counted or self._group_count >= _GROUPS_COUNTED_MIN:
            self._byte_count += sum(map(_bytes_of, self.held[self._counted :]))
            self._counted = len(self.held)
        if self._byte_count <= self._merge_at:
            return None
        self.held = [merge_partials(self.held, self._primitives)]
        self._byte_count, self._counted = _bytes_of(self.held[0]), 1
        if self._may_part and self._byte_count > _SPILLED_SHARE * self._limit:
            self._byte_count = self._counted = 0
            return self.held.pop()
        if self._byte_count > self._limit:
            raise _too_large(_group_count(self.held), self._byte_count, self._limit)
        self._merge_at = min(max(_MERGED_BYTES, 2 * self._byte_count), self._limit)
        return None


class _Piece(msgspec.Struct, frozen=True):
    """Groups of one part, and the bytes that they take in memory; some of them may be equal."""

    part: int
    groups: StoredPartial
    byte_count: int


class _Written(msgspec.Struct, frozen=True):
    """Pieces of one part in the file, and the bytes that they take in memory."""

    place: Place
    byte_count: int


class _Parts:
    """Groups by a hash of their keys, in memory or in a temporary file.

    A part takes at most `limit` bytes when it is merged.
    """

    def __init__(self, primitives: Sequence[Primitive], limit: int) -> None:
        self._primitives = primitives
        self._limit = limit
        self._file = TemporaryBatches("groups", _ADVICE)
        self._schema: pa.Schema | None = None
        self._held: list[list[_Piece]] = [[] for _ in range(_PARTS)]
        self._held_bytes = 0
        self._written: list[list[_Written]] = [[] for _ in range(_PARTS)]

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def deal(self, groups: Partial) -> list[_Piece]:
        """Return groups with their states by part, as slices of copies; any thread may do that."""
        parts = (_key_hashes(groups) >> np.uint64(64 - _PART_BITS)).astype(np.uint8)
        order = np.argsort(parts, kind="stable").astype(np.uint32)
        keys = [_copied(key, order) for key in groups.keys]
        columns = [
            {name: _copied(vector, order) for name, vector in groups.state_columns(index).items()}
            for index in range(len(self._primitives))
        ]
        byte_count = sum(map(held_bytes, keys)) + array_bytes(columns)
        pieces = []
        ends = np.cumsum(np.bincount(parts, minlength=_PARTS)).tolist()
        for part, (start, end) in enumerate(pairwise([0, *ends])):
            if start < end:
                own = StoredPartial(
                    [key.slice(start, end) for key in keys],
                    self._primitives,
                    [{name: one.slice(start, end) for name, one in c.items()} for c in columns],
                    end - start,
                )
                pieces.append(_Piece(part, own, byte_count * (end - start) // len(order)))
        return pieces

    def take(self, pieces: Iterable[_Piece]) -> None:
        """Hold dealt groups; all that are held go to the file if they take too much."""
        for piece in pieces:
            self._held[piece.part].append(piece)
            self._held_bytes += piece.byte_count
        if self._held_bytes > _SPILLED_SHARE * self._limit:
            for held, written in zip(self._held, self._written, strict=True):
                if held:
                    check_deadline()
                    written += self._write(held)
                    held.clear()
            self._held_bytes = 0

    def _write(self, held: Sequence[_Piece]) -> Iterator[_Written]:
        rows = pa.Table.from_batches([self._batch(piece.groups) for piece in held])
        group_bytes = _byte_count(held) / len(rows)
        for batch in rows.combine_chunks().to_batches():  # one, unless texts pass 2 GiB
            yield _Written(self._file.write(batch), int(group_bytes * len(batch)))

    def _batch(self, groups: StoredPartial) -> pa.RecordBatch:
        columns = {f"key {i}": key.to_arrow() for i, key in enumerate(groups.keys)}
        for index, primitive in enumerate(self._primitives):
            for name, vector in groups.columns[index].items():
                try:
                    columns[f"state {index} {name}"] = vector.to_arrow()
                except ValueError as error:  # Spark's sums of decimals overflow there as well
                    problem = f"{primitive.text} of a group: {error}; cast its input to double"
                    raise EvaluationError("PROJSEG_OVERFLOW", problem) from error
        if self._schema is None:
            self._schema = pa.record_batch(columns).schema
        return pa.RecordBatch.from_pydict(columns, self._schema)

    def merged(self, side_by_side: _Mapped) -> Iterator[Partial]:
        """Yield the groups of each part, merged; those of small neighbours together."""
        with closing(side_by_side(self._merged, self._together())) as found:
            yield from found

    def _together(self) -> Iterator[list[_Piece | _Written]]:
        together: list[_Piece | _Written] = []
        most = min(_TOGETHER_BYTES, self._limit // 8)
        for held, written in zip(self._held, self._written, strict=True):
            if together and _byte_count([*together, *held, *written]) > most:
                yield together
                together = []
            together += [*held, *written]
            held.clear()
        if together:
            yield together

    def _merged(self, pieces: list[_Piece | _Written]) -> Partial:
        held: list[Partial] = []
        byte_count = 0
        while pieces:
            check_deadline()
            piece = pieces.pop()
            held.append(piece.groups if isinstance(piece, _Piece) else self._read(piece.place))
            byte_count += piece.byte_count
            if byte_count > self._limit and len(held) > 1:
                held = [merge_partials(held, self._primitives)]
                byte_count = _bytes_of(held[0])
            if byte_count > self._limit:
                raise _too_large(_group_count(held), byte_count, self._limit)
        return merge_partials(held, self._primitives, may_repeat=True)

    def _read(self, place: Place) -> StoredPartial:
        rows = self._file.read(place, self._schema)
        keys: list[Vector] = []
        columns: list[dict[str, Vector]] = [{} for _ in self._primitives]
        for name, array in zip(rows.schema.names, rows.columns, strict=True):
            kind, index, *part = name.split(" ", 2)
            if kind == "key":
                keys.append(vector_of_array(array))
            else:
                columns[int(index)][part[0]] = vector_of_array(array)
        return StoredPartial(keys, self._primitives, columns, rows.num_rows)


def _copied(vector: Vector, order: NDArray[np.uint32]) -> Vector:
    """Return rows of a vector, by values where its dictionary has more than these."""
    taken = vector.take(order)
    is_sparse = isinstance(taken, Ids) and len(taken.dictionary) > len(order)
    return vector_of_array(taken.to_arrow()) if is_sparse or isinstance(taken, Opaque) else taken


def _byte_count(pieces: Iterable[_Piece | _Written]) -> int:
    return sum(piece.byte_count for piece in pieces)


def _group_count(partials: Sequence[Partial]) -> int:
    return sum(partial.group_count for partial in partials)


def _key_hashes(groups: Partial) -> NDArray[np.uint64]:
    """Return a hash of each group's keys, uint64[group_count]: its high bits are well mixed."""
    hashes = np.zeros(groups.group_count, np.uint64)
    for key in groups.keys:
        if not pa.types.is_null(key.type):
            hashes = (hashes ^ vector_hashes(key)) * _HASH_FACTOR
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
