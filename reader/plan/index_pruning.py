"""Leave out segments that hold no key of a condition, before their entries are decoded.

Which keys a condition has is decided in `algebra`; here the pages of Bloom files are read that hold
the keys' rows. Whatever cannot be read leaves its segments in: an index changes no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Expression
from projseg.algebra.proofs.index_keys import (
    AllOf,
    IndexUse,
    Keys,
    KeyTree,
    Refusal,
    keys_of,
)
from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT
from projseg.memory.forks import side_by_side
from projseg.reader.plan.bloom_answers import (
    COSTLIER_SHARE,
    FEWEST_SEGMENTS,
    BandFilters,
    affordable_keys,
    holders_of,
)
from projseg.segment_format.indexes.bloom_file import BloomFile
from projseg.segment_format.indexes.index_kinds import IndexDefinition
from projseg.table_layer.coverage import open_bloom
from projseg.table_layer.indexed_columns import indexed_column
from projseg.table_layer.metadata.segment_entry import BloomReference, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.storage_contract import Storage

LOGGER: Final = logging.getLogger("projseg.table")

_WARNED: Final[set[str]] = set()
_CONDITION_CHARACTERS_MAX: Final = 200

Mask = NDArray[np.bool_]


class Pruned(NamedTuple):
    """The segments left, decoded as they are asked for; what indexes did; how many are gone."""

    entries: Iterator[SegmentEntry]
    uses: tuple[IndexUse, ...]
    gone_count: int


class _Candidate(NamedTuple):
    """A column's index that may be asked."""

    name: str
    column: str
    definition: IndexDefinition
    is_served: bool

    def unused(self, condition: str, reason: str, count: int) -> IndexUse:
        """Return the record of an index that was not used for a condition over `count` segments."""
        digest = self.definition.definition_hash
        return IndexUse(self.name, self.column, condition, False, reason, count, count, digest)


@dataclass(frozen=True, slots=True)
class _Known:
    """The filters of one definition for a version's segments, and those whose files do not open.

    `is_covered`, bool[segments], is true of segments with a filter.
    """

    filters: list[BandFilters]
    is_covered: Mask
    damaged: list[BloomReference] = field(default_factory=list)


def pruned_by_indexes(snapshot: Snapshot, query: QuerySpec, keys: KeyTree | None) -> Pruned | None:
    """Return the segments that indexes leave; None if no index has anything to say."""
    candidates = _candidates(snapshot)
    if not candidates:
        return None
    columns = {column for column, _ in candidates}
    kinds = {
        name: frozenset(kind for column, kind in candidates if column == name) for name in columns
    }
    expressions = _expressions(snapshot)
    kinds = {name: found for name, found in kinds.items() if name not in expressions.values()}
    tree, refusals = keys_of(query.filter, kinds, expressions)
    if keys is not None:
        tree = keys if tree is None else AllOf((tree, keys))
    if tree is None and not refusals:
        return None
    return _Pruning(snapshot, query, candidates).run(tree, refusals)


def _candidates(snapshot: Snapshot) -> dict[tuple[str, str], list[_Candidate]]:
    """Return the indexes of each column and kind."""
    found: dict[tuple[str, str], list[_Candidate]] = {}
    properties = snapshot.properties
    for index in properties.declared_indexes:
        for definition in index.columns:
            column = indexed_column(definition, properties)
            if column is not None:
                one = _Candidate(index.name, column.text, definition, column.is_served)
                found.setdefault((column.key, index.kind), []).append(one)
    return found


def _expressions(snapshot: Snapshot) -> dict[Expression, str]:
    """Return the expressions that are indexed in the place of columns, and their keys."""
    definitions = (one for index in snapshot.properties.declared_indexes for one in index.columns)
    columns = (indexed_column(one, snapshot.properties) for one in definitions)
    return {
        one.condition_form: one.key
        for one in columns
        if one is not None and one.condition_form is not None
    }


@dataclass(slots=True)
class _Pruning:
    """One query's pruning."""

    snapshot: Snapshot
    query: QuerySpec
    candidates: dict[tuple[str, str], list[_Candidate]]
    uses: list[IndexUse] = field(default_factory=list)

    def run(self, tree: KeyTree | None, refusals: Sequence[Refusal]) -> Pruned:
        """Ask the indexes."""
        within = self._within()
        self.uses += [use for one in refusals for use in self._refused(one, within)]
        left = within if tree is None else within & self._mask(tree, within)
        gone_count = int(within.sum()) - int(left.sum())
        return Pruned(self._entries(left), tuple(self.uses), gone_count)

    def _within(self) -> Mask:
        """Return which segments may hold a time of the query's interval."""
        interval, manifests = self.query.interval, self.snapshot.file.manifests
        if interval is None:
            return np.ones(sum(one.segment_count for one in manifests), np.bool_)
        found = []
        for reference in manifests:
            mask = np.zeros(reference.segment_count, np.bool_)
            if reference.min_time_us < interval.end_us and (
                reference.max_time_us >= interval.start_us
            ):
                manifest = self.snapshot.load(reference)
                mask[manifest.overlapping(interval.start_us, interval.end_us)] = True
            found.append(mask)
        return np.concatenate([np.empty(0, np.bool_), *found])

    def _entries(self, left: Mask) -> Iterator[SegmentEntry]:
        start = 0
        for reference in self.snapshot.file.manifests:
            chosen = np.flatnonzero(left[start : start + reference.segment_count])
            start += reference.segment_count
            if len(chosen):
                manifest = self.snapshot.load(reference)
                yield from map(manifest.entry, chosen.tolist())

    def _refused(self, refusal: Refusal, within: Mask) -> Iterator[IndexUse]:
        count, text = int(within.sum()), _text(refusal.condition)
        for one in self.candidates[refusal.column, refusal.kind]:
            yield one.unused(text, refusal.reason, count)

    def _mask(self, tree: KeyTree, within: Mask) -> Mask:
        """Return which segments may fulfil a tree of keys."""
        if isinstance(tree, Keys):
            return self._mask_of_keys(tree, within)
        masks = [self._mask(part, within) for part in tree.parts]
        combine = np.logical_and if isinstance(tree, AllOf) else np.logical_or
        mask: Mask = combine.reduce(masks)
        return mask

    def _mask_of_keys(self, keys: Keys, within: Mask) -> Mask:
        several = self.candidates.get((keys.column, keys.kind), [])
        everything, count = np.ones(len(within), np.bool_), int(within.sum())
        context = self.query.context
        excluded = {name.casefold() for name in context.exclude_indexes}
        text = _text(keys.condition)

        def unused(one: _Candidate, reason: str) -> None:
            self.uses.append(one.unused(text, reason, count))

        for one in several:
            if context.no_indexes:
                unused(one, "DISABLED")
            elif one.name.casefold() in excluded:
                unused(one, "EXCLUDED")
            elif not one.is_served:
                unused(one, "TYPE_CHANGED")
            elif count < FEWEST_SEGMENTS:
                unused(one, "NOTHING_LEFT")
            else:
                return self._holders_of(one, keys, text, within)
        return everything

    def _holders_of(self, one: _Candidate, keys: Keys, text: str, within: Mask) -> Mask:
        known, count = _filters_of(self.snapshot, one.definition), int(within.sum())
        asked = [
            each for each in known.filters if within[each.positions[each.positions >= 0]].any()
        ]
        allowed = COSTLIER_SHARE * self._stored_bytes(within)
        needed, byte_count = affordable_keys(keys.needed, [each.band for each in asked], allowed)
        mask = np.ones(len(within), np.bool_)
        if byte_count > allowed:
            self.uses.append(one.unused(text, "COSTLIER", count))
            return mask
        by_file: dict[str, list[BandFilters]] = {}
        for each in asked:
            by_file.setdefault(each.reference.name, []).append(each)
        storage, damaged = self.snapshot.storage, list(known.damaged)

        def answered(several: list[BandFilters]) -> list[tuple[BandFilters, Mask]] | ProjsegError:
            try:
                return [(each, holders_of(storage, each, needed)) for each in several]
            except (ProjsegError, OSError) as error:
                return warned(several[0].reference, error)

        def warned(reference: BloomReference, error: Exception) -> ProjsegError:
            damaged.append(reference)
            warn(storage, reference, error)
            return ProjsegError("PROJSEG_INTERNAL", str(error))

        each_file = side_by_side if storage.is_remote else map
        for answer in each_file(answered, list(by_file.values())):
            if isinstance(answer, ProjsegError):
                continue
            for each, may in answer:
                positions = each.positions[~may]
                mask[positions[positions >= 0]] = False
        self.uses.append(
            IndexUse(
                one.name,
                one.column,
                text,
                bool(by_file),
                _gap(damaged, int((within & ~known.is_covered).sum())),
                count,
                int((mask & within).sum()),
                one.definition.definition_hash,
                len(by_file),
                byte_count,
            )
        )
        return mask

    def _stored_bytes(self, within: Mask) -> float:
        """Return about how many bytes the segments within the interval store."""
        share = float(within.sum()) / max(len(within), 1)
        return share * self.snapshot.data_bytes


def _gap(damaged: Sequence[BloomReference], missing: int) -> str | None:
    if damaged:
        return "DAMAGED"
    return f"NOT_BUILT {missing}" if missing else None


def _text(condition: Any) -> str:
    text = to_sql(condition)
    if len(text) <= _CONDITION_CHARACTERS_MAX:
        return text
    return text[: _CONDITION_CHARACTERS_MAX - 3] + "..."


def _filters_of(snapshot: Snapshot, definition: IndexDefinition) -> _Known:
    """Return where the filters of a definition lie, cached unless a file cannot be opened."""
    storage, digest = snapshot.storage, definition.definition_hash
    key = ("index", storage.location, snapshot.version, snapshot.file.write_id, digest)
    known: _Known | None = KEPT.get(key)
    if known is None:
        known = _located(snapshot, digest)
        if not known.damaged:
            KEPT.put(key, known, sum(one.positions.nbytes for one in known.filters))
    return known


def _located(snapshot: Snapshot, digest: str) -> _Known:
    manifests = snapshot.file.manifests
    starts = [0, *accumulate(one.segment_count for one in manifests)]
    places = {
        file: start + number
        for start, reference in zip(starts, manifests, strict=False)
        for number, file in enumerate(snapshot.load(reference).segment_files())
    }
    known = _Known([], np.zeros(starts[-1], np.bool_))
    references = [one for one in snapshot.bloom_files if one.definition_hash == digest]

    def opened(reference: BloomReference) -> BloomFile | None:
        try:
            return open_bloom(snapshot.storage, reference)
        except (ProjsegError, OSError) as error:
            warn(snapshot.storage, reference, error)
            return None

    each = side_by_side if snapshot.storage.is_remote else map
    for reference, file in zip(references, each(opened, references), strict=True):
        if file is None:
            known.damaged.append(reference)
            continue
        for number, band in enumerate(file.footer.bands):
            positions = np.full(band.segment_count, -1, np.int64)
            for one in file.footer.segments:
                if one.band == number and one.slot is not None:
                    positions[one.slot] = places.get(one.file, -1)
            known.filters.append(BandFilters(reference, file, band, positions))
            known.is_covered[positions[positions >= 0]] = True
    return known


def warn(storage: Storage, reference: BloomReference, error: Exception) -> None:
    """Say once that a Bloom file cannot be read; queries go on without it."""
    if reference.name in _WARNED:
        return
    _WARNED.add(reference.name)
    LOGGER.warning(
        "queries go on without the Bloom file %s of %s, and read segments that it would exclude: "
        "%s; materialize_index makes it anew",
        reference.name,
        storage.location,
        error,
    )
