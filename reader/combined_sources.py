"""Small sources of neighbouring segments, read as one: a stack.

What a query spends on a source before it sees a row takes longer than folding a thousand rows. So
sources that a plan reads alike are put one after the other, column by column, and kept: a query
then folds the rows of a hundred segments in one go.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.fold import constants
from projseg.algebra.expressions.tree import Column, Expression, Literal
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.evaluation.arrow_vectors import concat_vectors
from projseg.memory.cache import KEPT, CacheKey, Owner
from projseg.memory.forks import cached_property
from projseg.reader.open_sources import (
    Source,
    listed_projection,
    open_source,
    read_side_by_side,
    rows_at_a_time,
    source_row_count,
)
from projseg.segment_format.vectors import Ids, Numbers, Vector, text_bytes
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.storage_contract import Storage

# A source with more rows is folded by itself.
_SOURCE_ROWS_MAX: Final = 1 << 13
# A stack has no more rows than this, and its segments no more stored bytes of what is stacked.
_STACK_ROWS_MAX: Final = 1 << 16
_STACK_BYTES_MAX: Final = 4 << 20
# Nor do its columns take more memory, with the texts of all rows, which joining may write out.
_DECODED_BYTES_MAX: Final = 256 << 20
_FEW_BYTES: Final = 1 << 20
# Where a stack begins depends on the file's name: at one of so many. So queries over different
# intervals, and versions with more segments, have most of their stacks in common.
_SOURCES_BETWEEN_STARTS: Final = 128
_SOURCES_MAX: Final = 512

_KEY: Final = "\0key "
"""Begins the name of a column of constants, which no other column's name does."""

_ColumnName = tuple[str, bool]  # and whether it is a state's


class Stack(msgspec.Struct, frozen=True, dict=True):
    """One or more sources, (SegmentEntry, SourcePlan), that are read together.

    Their plans do the same with the same columns: they differ in their figures, in the constants
    among their keys, and in what is answered by metadata.
    """

    sources: tuple[Source, ...]
    row_count: int

    @property
    def plan(self) -> SourcePlan:
        """The plan of the first source."""
        return self.sources[0][1]

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The segments' files."""
        return tuple(entry.file for entry, _ in self.sources)

    @cached_property
    def constants(self) -> dict[str, tuple[Expression, ...]]:
        """Of each key that is another constant in each source, these, by the name of a column."""
        keys = zip(*(plan.keys for _, plan in self.sources), strict=True)
        return {
            f"{_KEY}{place}": literals
            for place, literals in enumerate(keys)
            if any(literal != literals[0] for literal in literals)
        }

    @cached_property
    def keys(self) -> tuple[Expression, ...]:
        """The keys of all sources, over their columns and `constants`."""
        names = ((key, f"{_KEY}{place}") for place, key in enumerate(self.plan.keys))
        return tuple(
            Column(key.type, name) if name in self.constants else key for key, name in names
        )


def stacked(sources: Iterable[Source]) -> Iterator[Stack]:
    """Yield all sources in order: small ones that are read alike together, others alone."""
    pile: list[Source] = []
    rows = byte_count = 0
    for source in sources:
        entry, plan = source
        row_count = source_row_count(entry, plan)
        size = _stored_bytes(entry, plan)
        is_small = row_count <= _SOURCE_ROWS_MAX and size <= _STACK_BYTES_MAX and _is_plain(*source)
        if pile and not (
            is_small
            and _are_alike(pile[-1][1], plan)
            and rows + row_count <= _STACK_ROWS_MAX
            and byte_count + size <= _STACK_BYTES_MAX
            and len(pile) < _SOURCES_MAX
            and zlib.crc32(entry.file.encode()) % _SOURCES_BETWEEN_STARTS
        ):
            yield Stack(tuple(pile), rows)
            pile, rows, byte_count = [], 0, 0
        if is_small:
            pile.append(source)
            rows, byte_count = rows + row_count, byte_count + size
        else:
            yield Stack((source,), row_count)
    if pile:
        yield Stack(tuple(pile), rows)


def _stored_bytes(entry: SegmentEntry, plan: SourcePlan) -> int:
    if plan.is_metadata:
        return 0
    listed = listed_projection(entry, plan)
    return entry.byte_count if listed is None else listed.byte_count


def _is_plain(entry: SegmentEntry, plan: SourcePlan) -> bool:
    """Whether every row of the source counts, unless the plan's filter drops it."""
    return plan.is_metadata or (
        plan.interval is None
        and plan.rows is None
        and plan.subtracted_rows is None
        and entry.deletion_vector is None
    )


def _are_alike(one: SourcePlan, other: SourcePlan) -> bool:
    """Whether both read the same columns of such sources, and do the same with them."""
    return (
        one.source is other.source
        and one.is_metadata == other.is_metadata
        and all(map(_are_alike_keys, one.keys, other.keys))
        and (one.is_metadata or one.feeds == other.feeds)
        and one.filter == other.filter
        and one.present == other.present
    )


def _are_alike_keys(one: Expression, other: Expression) -> bool:
    if isinstance(one, Literal) and isinstance(other, Literal):
        return bool(one.type == other.type)
    return bool(one == other)


class StackedSource(msgspec.Struct, frozen=True):
    """The rows of a stack, first those of the first source, as one source of the columns read.

    A vector is by name, and whether it is a state's.
    """

    row_count: int
    vectors: Mapping[_ColumnName, Vector]

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column."""
        return self.vectors[name, is_state]

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[n] ascending."""
        return self.vectors[name, is_state].take(row_ids)

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column."""
        return self.vectors[name, is_state].slice(first, end)


class _Identity(msgspec.Struct, frozen=True):
    """The cache entry that a stack's columns belong to."""

    owner: Owner


class StackReader:
    """Reads columns and state columns of a stack of files, or finds them in the cache."""

    def __init__(
        self,
        storage: Storage,
        schema: TableSchema,
        stack: Stack,
        names: Iterable[str],
        states: Iterable[str],
    ) -> None:
        self._storage, self._schema, self._stack = storage, schema, stack
        self._names, self._states = tuple(names), tuple(states)
        self._columns = [(name, False) for name in self._names]
        self._columns += [(name, True) for name in self._states]
        self._owner = self._known_owner()

    def holds_all(self) -> bool:
        """Whether all columns are in memory already."""
        return all(self._key(column) in KEPT for column in self._columns)

    def read(self) -> StackedSource | None:
        """Return the columns; those that are not in memory are read source after source.

        None is returned if a source holds more than its size in the file lets expect, or all of
        them hold very much: each has to be folded by itself.
        """
        held = ((column, KEPT.get(self._key(column))) for column in self._columns)
        vectors = {column: vector for column, vector in held if vector is not None}
        missing = [column for column in self._columns if column not in vectors]
        pieces: list[list[Vector]] = [[] for _ in missing]
        byte_count = 0
        for decoded in self._pieces(missing) if missing else ():
            byte_count += sum(
                vector.nbytes + text_bytes(vector, _FEW_BYTES) for vector in decoded or ()
            )
            if decoded is None or byte_count > _DECODED_BYTES_MAX:
                return None
            for several, vector in zip(pieces, decoded, strict=True):
                several.append(vector)
        for column, several in zip(missing, pieces, strict=True):
            vectors[column] = self._cached(column, self._joined(several))
        for name, literals in self._stack.constants.items():
            vectors[name, False] = self._repeated(literals)
        return StackedSource(self._stack.row_count, vectors)

    def _pieces(self, columns: Sequence[_ColumnName]) -> Iterator[list[Vector] | None]:
        """Yield columns of the next sources; None if one has to be decoded in batches."""
        several = self._stack.sources
        for sources, found in read_side_by_side(self._storage, self._schema, several, columns):
            if found is None:
                yield from (self._decoded(source, columns) for source in sources)
            else:
                yield found

    def _decoded(self, source: Source, columns: Sequence[_ColumnName]) -> list[Vector] | None:
        """Return columns of one source, None if it has to be decoded in batches."""
        opened = open_source(self._storage, *source, self._schema, holds_ending=True)
        try:
            if rows_at_a_time(opened, self._names, self._states) is not None:
                return None
            return [
                opened.vector(name, is_state=is_state, may_keep=False) for name, is_state in columns
            ]
        finally:
            opened.forget_ending()

    def _known_owner(self) -> Owner:
        """Return the identity of this stack in the cache: of these files, under these names."""
        spec = self._stack.plan.source
        table = None if spec is None else (spec.stored_name, spec.definition)
        key = ("stack", self._storage.location, table, self._schema.identity, self._stack.files)
        known: _Identity | None = KEPT.get(key)
        if known is None:
            owner = Owner(key)
            name_bytes = sum(map(len, self._stack.files))
            known = KEPT.put(key, _Identity(owner), name_bytes, stands_for=owner)
        assert known is not None
        return known.owner

    def _key(self, column: _ColumnName) -> CacheKey:
        return ("stacked column", self._owner, column)

    def _cached(self, column: _ColumnName, vector: Vector) -> Vector:
        byte_count = vector.nbytes
        if isinstance(vector, Ids):
            byte_count += vector.dictionary.nbytes
        kept: Vector = KEPT.put(self._key(column), vector, byte_count, owners=(self._owner,))
        return kept

    def _joined(self, vectors: Sequence[Vector]) -> Vector:
        only = vectors[0]
        if len(vectors) == 1 and isinstance(only, Ids):
            return replace(only, dictionary=dataclasses.replace(only.dictionary, owner=self._owner))
        vector = concat_vectors(vectors, owner=self._owner)
        return vector.with_bounds() if isinstance(vector, Numbers) else vector

    def _repeated(self, literals: Sequence[Expression]) -> Vector:
        """Return one constant for all rows of each source."""
        counts = [source_row_count(*source) for source in self._stack.sources]
        rows = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        return constants(literals).take(rows)
