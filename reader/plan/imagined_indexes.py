"""Indexes that a table does not have: which segments they would leave to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final, NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Expression
from projseg.algebra.proofs.index_keys import (
    AllOf,
    IndexUse,
    Keys,
    KeyTree,
    Needed,
    OneOf,
    fewer_keys,
    keys_of,
    leaves,
)
from projseg.algebra.query.bound_query import QuerySpec
from projseg.reader.plan.bloom_answers import COSTLIER_SHARE, FEWEST_SEGMENTS, key_hashes
from projseg.reader.plan.query_plan import QueryPlan
from projseg.segment_format.indexes.bloom_file import page_bytes
from projseg.segment_format.indexes.index_kinds import IndexDefinition
from projseg.table_layer.indexed_columns import IndexedColumn
from projseg.table_layer.metadata.segment_entry import SegmentEntry

_CONDITION_CHARACTERS_MAX: Final = 200


class ImaginedIndex(Protocol):
    """An imagined index of one column, and which segments it would exclude."""

    @property
    def name(self) -> str:
        """The name that it would have."""

    @property
    def definition(self) -> IndexDefinition:
        """The definition that it would have."""

    @property
    def column(self) -> IndexedColumn:
        """The column as the table has it."""

    @property
    def share(self) -> float:
        """How often a value of one segment is in another whose bounds enclose it, 0 to 1."""

    def keys_in(self, entry: SegmentEntry) -> NDArray[np.uint64] | None:
        """Return the keys of a segment, uint64[k] ascending; None if they are not known."""

    def filter_bytes(self, entry: SegmentEntry) -> int:
        """Return the bytes of a segment's filter."""


class Left(NamedTuple):
    """How likely, 0 to 1, each segment must be read, and what indexes did for each condition."""

    shares: Sequence[float]
    uses: tuple[IndexUse, ...]


def segments_left(
    query: QuerySpec,
    entries: Sequence[SegmentEntry],
    indexes: Sequence[ImaginedIndex],
    *,
    of_how_many: int | None = None,
    knows_values: bool = True,
) -> Left:
    """Return which segments indexes would leave of those that bounds do not exclude.

    The entries may be a sample of `of_how_many` segments. `knows_values` says that the query has
    real values, so that segments whose keys are known are decided by these.
    """
    by_key = {(one.column.key, one.definition.kind): one for one in indexes}
    kinds: dict[str, frozenset[str]] = {}
    expressions: dict[Expression, str] = {}
    for column, kind in by_key:
        form = by_key[column, kind].column.condition_form
        if form is None:
            kinds[column] = kinds.get(column, frozenset()) | {kind}
        else:
            expressions[form] = column
    tree, refusals = keys_of(query.filter, kinds, expressions)
    uses = [
        _unused(by_key[one.column, one.kind], one.condition, one.reason, len(entries))
        for one in refusals
    ]
    everything = Left([1.0] * len(entries), tuple(uses))
    if tree is None:
        return everything
    count = max(of_how_many or 0, len(entries))
    asked = {
        leaf: _leaf(by_key[leaf.column, leaf.kind], leaf, entries, count, knows_values=knows_values)
        for leaf in leaves(tree)
    }
    shares = [_share(tree, asked, entry) for entry in entries]
    for leaf, one in asked.items():
        if one.reason is not None:
            uses.append(_unused(one.source, leaf.condition, one.reason, len(entries)))
            continue
        uses.append(
            IndexUse(
                one.source.name,
                one.source.column.text,
                _text(leaf.condition),
                True,
                None,
                len(entries),
                round(sum(map(one.share, entries))),
                one.source.definition.definition_hash,
                1,
                _asked_bytes(one.source, one.needed, entries),
            )
        )
    return Left(shares, tuple(uses))


def pruned_by_imagined(plan: QueryPlan, indexes: Sequence[ImaginedIndex]) -> QueryPlan:
    """Return a plan without the segments that indexes would exclude.

    Of segments whose keys are not known, the expected number remains.
    """
    context = plan.query.context
    excluded = {name.casefold() for name in context.exclude_indexes}
    allowed = [one for one in indexes if one.name.casefold() not in excluded]
    if context.no_indexes or not allowed:
        return plan
    left = segments_left(plan.query, [one.entry for one in plan.segments], allowed)
    kept, owed = [], 0.5
    for segment, share in zip(plan.segments, left.shares, strict=True):
        owed += share if 0.0 < share < 1.0 else 0.0
        if share == 1.0 or (share > 0.0 and owed >= 1.0):
            kept.append(segment)
        owed -= owed >= 1.0
    gone = len(plan.segments) - len(kept)
    return replace(
        plan,
        segments=tuple(kept),
        pruned_count=plan.pruned_count + gone,
        indexes=(*plan.indexes, *left.uses),
        index_pruned_count=plan.index_pruned_count + gone,
    )


class _Leaf(NamedTuple):
    """The answer of an index for one condition on the keys `needed`.

    `reason` says why the index is not used; `known` has whether a segment holds the keys, by its
    file; `elsewhere` is how likely another segment holds them.
    """

    source: ImaginedIndex
    needed: Needed
    reason: str | None
    known: Mapping[str, bool]
    elsewhere: float

    def share(self, entry: SegmentEntry) -> float:
        """Return how likely a segment must be read."""
        if self.reason is not None:
            return 1.0
        held = self.known.get(entry.file)
        return self.elsewhere if held is None else float(held)


def _leaf(
    index: ImaginedIndex,
    leaf: Keys,
    entries: Sequence[SegmentEntry],
    count: int,
    *,
    knows_values: bool,
) -> _Leaf:
    needed = _affordable(index, leaf, entries)
    if needed is None or count < FEWEST_SEGMENTS:
        reason = "COSTLIER" if needed is None else "NOTHING_LEFT"
        return _Leaf(index, needed or leaf.needed, reason, {}, 1.0)
    known: dict[str, bool] = {}
    if knows_values:
        keys = {entry.file: index.keys_in(entry) for entry in entries}
        known = {file: _holds(one, needed) for file, one in keys.items() if one is not None}
    likely = (sum(known.values()) + _likely(needed, index.share)) / (len(known) + 1)
    others = count - len(known)
    if any(known.values()) or not others:
        return _Leaf(index, needed, None, known, likely)
    # The segment that a value is from has it.
    return _Leaf(index, needed, None, known, (1.0 + likely * (others - 1)) / others)


def _share(tree: KeyTree, asked: Mapping[Keys, _Leaf], entry: SegmentEntry) -> float:
    """Return how likely a segment may fulfil a tree of keys."""
    if isinstance(tree, Keys):
        return asked[tree].share(entry)
    parts = [_share(part, asked, entry) for part in tree.parts]
    return prod(parts) if isinstance(tree, AllOf) else 1.0 - prod(1.0 - part for part in parts)


def _affordable(index: ImaginedIndex, leaf: Keys, entries: Sequence[SegmentEntry]) -> Needed | None:
    """Return as many of the keys as an index would be asked about; None: it would be for none."""
    needed = leaf.needed
    allowed = COSTLIER_SHARE * sum(entry.byte_count for entry in entries)
    while _asked_bytes(index, needed, entries) > allowed:
        fewer = fewer_keys(needed)
        if fewer == needed:
            return None
        needed = fewer
    return needed


def _asked_bytes(index: ImaginedIndex, needed: Needed, entries: Sequence[SegmentEntry]) -> int:
    """Return about how many bytes of filters are read for some keys."""
    whole = sum(map(index.filter_bytes, entries))
    return min(_key_count(needed) * page_bytes(len(entries)), whole)


def _key_count(needed: Needed) -> int:
    if isinstance(needed, OneOf):
        return len(needed.values)
    return sum(map(_key_count, needed.parts))


def _likely(needed: Needed, share: float) -> float:
    """Return how likely a segment holds what is needed, if it holds one drawn value so often.

    Words and runs of a text that are needed together come together.
    """
    if isinstance(needed, OneOf):
        return float(1.0 - (1.0 - share) ** len(needed.values))
    parts = [_likely(part, share) for part in needed.parts]
    return min(parts) if isinstance(needed, AllOf) else 1.0 - prod(1.0 - part for part in parts)


def _holds(keys: NDArray[np.uint64], needed: Needed) -> bool:
    """Whether ascending keys have what is needed."""
    if isinstance(needed, OneOf):
        return bool(held(keys, key_hashes(needed)).any())
    parts = (_holds(keys, part) for part in needed.parts)
    return all(parts) if isinstance(needed, AllOf) else any(parts)


def held(keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which of some value hashes, uint64[n], are among ascending keys: bool[n]."""
    if not len(keys):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: NDArray[np.bool_] = keys[places] == wanted
    return found


def _unused(index: ImaginedIndex, condition: Expression, reason: str, count: int) -> IndexUse:
    digest = index.definition.definition_hash
    text = _text(condition)
    return IndexUse(index.name, index.column.text, text, False, reason, count, count, digest)


def _text(condition: Expression) -> str:
    return to_sql(condition)[:_CONDITION_CHARACTERS_MAX]
