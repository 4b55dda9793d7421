"""Sort a view's parts by what becomes of each at new versions of its fact and dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.aggregates.parse_aggregate import AggregateCall
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.functions.comparison import membership
from projseg.algebra.expressions.functions.conditional import logical
from projseg.algebra.expressions.joined_values import JoinPath, path_of
from projseg.algebra.expressions.tree import Call, Column, Expression, scalar_literal
from projseg.algebra.planning.planner import Planner
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec
from projseg.evaluation.dimension_rows import DimensionRows
from projseg.reader.answer import answer
from projseg.reader.dimensions import TableDimension
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.plan.version_facts import VersionFacts
from projseg.segment_format.arrow_arrays import filled_values, primitive_array
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.views.cover_test import Coverage, among, coverage, others
from projseg.views.definitions.view_checks import CoveredSegments
from projseg.views.followed_parts import FollowedParts, followed_parts, may_subtract
from projseg.views.part_files import Folder, forms_of, standing_for
from projseg.views.view_dimensions import holds_rows_of, is_built_with, paths_of, stored_columns
from projseg.views.view_records import PathState, ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion

KEYS_MAX: Final = 10_000
"""More changed keys of a dimension are not looked for: all parts are folded anew."""


@dataclass(frozen=True, slots=True)
class RewrittenParts:
    """Parts whose groups are to be written anew, without folding their segments.

    `entries` are the segments that hold the rows which are left.
    """

    followed: FollowedParts
    entries: tuple[SegmentEntry, ...]

    @property
    def rows_to_read(self) -> int:
        """Groups and deleted rows that are read for it."""
        groups = sum(part.group_count for part in self.followed.parts)
        return groups + self.followed.deleted_row_count


@dataclass(slots=True)
class PartFates:
    """What becomes of a view's parts: they are kept as files, rewritten, or stale.

    By file, `relabelled` has the kept parts that are listed in another way, `covers` the segments
    of those that stand for others than before. The groups of rewritten parts are made without their
    segments, which are among those `uncovered` by kept parts.
    """

    kept: list[ViewPart] = field(default_factory=list)
    relabelled: dict[str, ViewPart] = field(default_factory=dict)
    covers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rewritten: list[RewrittenParts] = field(default_factory=list)
    stale: list[ViewPart] = field(default_factory=list)
    uncovered: tuple[SegmentEntry, ...] = ()

    def cover(self, store: StoreVersion, part: ViewPart) -> tuple[str, ...]:
        """Return the segments that a part is to stand for."""
        return self.covers.get(part.segment.file) or store.cover(part)


def fates_of_parts(
    snapshot: Snapshot,
    store: StoreVersion,
    view: ViewEntry,
    folder: Folder,
    dimensions: Mapping[str, TableDimension],
) -> PartFates:
    """Sort the parts of a view."""
    found = coverage(snapshot, store, view)
    fates = PartFates(uncovered=found.uncovered)
    followed = followed_parts(snapshot, store, view, found.stale)
    if followed:
        _sort_followed(fates, found, followed, view, folder, dimensions)
    known = {part.segment.file for one in fates.rewritten for part in one.followed.parts}
    known |= fates.relabelled.keys()
    fates.stale += [part for part in found.stale if part.segment.file not in known]
    fates.kept += [*found.valid, *(p for p in found.stale if p.segment.file in fates.relabelled)]
    if view.dimensions:
        _sort_by_dimensions(fates, snapshot, store, folder, dimensions)
    if len(fates.kept) != len(found.valid) or fates.covers:
        covered = {name for part in fates.kept for name in fates.cover(store, part)}
        fates.uncovered = others(snapshot, covered)
    return fates


def _sort_followed(
    fates: PartFates,
    found: Coverage,
    followed: Sequence[FollowedParts],
    view: ViewEntry,
    folder: Folder,
    dimensions: Mapping[str, TableDimension],
) -> None:
    """Note the parts that are listed in another way, and those that are rewritten."""
    kept_for = CoveredSegments.of(view)
    by_name = {entry.listed_as: entry for entry in found.uncovered}
    can_subtract = may_subtract(folder.query.primitives)
    for one in followed:
        if not by_name.keys() >= one.names:  # a part that was valid all the time stands for one
            continue
        entries = tuple(by_name[name] for name in sorted(one.names))
        forms = {forms_of(entry, folder.schema) for entry in entries}
        forms |= {forms_of(part.segment, folder.schema) for part in one.parts}
        live = sum(entry.live_row_count for entry in entries)
        covered = sum(part.cover.live_row_count for part in one.parts)
        is_wanted = all(kept_for.holds(entry) for entry in entries)
        if len(forms) > 1 or not is_wanted or covered - one.deleted_row_count != live:
            continue
        if len(one.parts) == 1 and not one.deleted:
            (part,) = one.parts
            fates.relabelled[part.segment.file] = standing_for(part, entries)
            fates.covers[part.segment.file] = tuple(sorted(one.names))
            continue
        is_small = one.deleted_row_count <= live
        is_same = all(is_built_with(part, dimensions) for part in one.parts)
        if is_same and is_small and (can_subtract or not one.deleted):
            fates.rewritten.append(RewrittenParts(one, entries))


def _sort_by_dimensions(
    fates: PartFates,
    snapshot: Snapshot,
    store: StoreVersion,
    folder: Folder,
    dimensions: Mapping[str, TableDimension],
) -> None:
    """Move kept parts to the stale ones that have rows of keys which mean other rows now."""
    changes = _DimensionChanges(snapshot, folder.spec, dimensions)
    kept: list[ViewPart] = []
    for part in fates.kept:
        file = part.segment.file
        listed = fates.relabelled.get(file, part)
        fate = changes.fate_of(listed, fates.cover(store, part))
        if fate is None:
            fates.stale.append(part)
            fates.relabelled.pop(file, None)
            fates.covers.pop(file, None)
            continue
        kept.append(part)
        if fate != part:
            fates.relabelled[file] = fate
    fates.kept = kept


class _ChangedKeys(msgspec.Struct, frozen=True):
    """The keys of a path whose rows differ between two versions of its dimension."""

    changed: tuple[pa.Array, ...]
    added: tuple[pa.Array, ...]


class _DimensionChanges:
    """The fate of a view's parts at new versions of its dimensions."""

    def __init__(
        self,
        snapshot: Snapshot,
        spec: ProjectionSpec,
        dimensions: Mapping[str, TableDimension],
    ) -> None:
        self._snapshot, self._dimensions = snapshot, dimensions
        self._paths = paths_of(spec)
        self._used = _columns_used(spec)
        self._keys: dict[tuple[int, int, str], _ChangedKeys | None] = {}

    def fate_of(self, part: ViewPart, cover: Sequence[str]) -> ViewPart | None:
        """Return a part as it is to be listed now; None if its segments are to be folded anew."""
        states = tuple(map(self._state, part.paths))
        if states == part.paths:
            return part
        if len(part.paths) != len(self._paths):
            return None
        conditions: list[Expression] = []
        for place, state in enumerate(part.paths):
            if holds_rows_of(self._dimensions[state.table_id], state):
                continue
            keys = self._changed(place, state)
            if keys is None:
                return None
            arguments = self._paths[place].arguments
            several = [keys.changed, *([keys.added] if state.unmatched_row_count else [])]
            conditions += [_is_among(arguments, one) for one in several if len(one[0])]
        if conditions and self._has_rows(cover, conditions):
            return None
        return replace(part, paths=states)

    def _state(self, state: PathState) -> PathState:
        file = self._dimensions[state.table_id].snapshot.file
        return replace(state, version=file.version, write_id=file.write_id)

    def _changed(self, place: int, state: PathState) -> _ChangedKeys | None:
        """Return the keys whose rows differ; None if they are too many, or are not known."""
        known = (place, state.version, state.write_id)
        if known not in self._keys:
            path = path_of(self._paths[place])
            new = self._dimensions[state.table_id]
            before = read_version(new.snapshot.storage, state.version)
            is_kept = before is not None and before.file.write_id == state.write_id
            used = self._used.get(path, ())
            self._keys[known] = (
                _changed_keys(path, TableDimension(before), used)
                if before is not None and is_kept
                else None
            )
        return self._keys[known]

    def _has_rows(self, cover: Sequence[str], conditions: Sequence[Expression]) -> bool:
        """Whether a row of some segments fulfils one of some conditions."""
        either = conditions[0] if len(conditions) == 1 else logical("or", conditions, "UTC")
        count = NamedExpression("rows", Column(pa.int64(), "rows"))
        query = QuerySpec(
            aggregates=(AggregateCall("count", (), None, (), "rows"),),
            outputs=(count,),
            filter=canonical(either),
        )
        facts, planner = VersionFacts(self._snapshot, as_stored=True), Planner(query)
        entries = among(self._snapshot, set(cover))
        planned = (SegmentPlan(entry, planner.choose(facts.of(entry))) for entry in entries)
        to_read = tuple(one for one in planned if not one.choice.is_empty)
        plan = QueryPlan(query, stored_schema(self._snapshot.properties), to_read)
        (found,) = answer(self._snapshot.storage, plan).column("rows").to_pylist()
        return bool(found)


def _columns_used(spec: ProjectionSpec) -> dict[JoinPath, tuple[str, ...]]:
    """Return, for each path, the stored columns that a view reads behind it."""
    trees = [named.expression for named in spec.grouping]
    trees += [tree for call in spec.aggregators for tree in (*call.arguments, call.filter) if tree]
    trees += spec.filter_conjuncts
    found: dict[JoinPath, dict[str, None]] = {}
    for node in (node for tree in trees for node in tree.walk()):
        if isinstance(node, Call) and node.function == "join_value":
            found.setdefault(path_of(node), {})[str(node.parameters[1])] = None
    return {path: tuple(names) for path, names in found.items()}


def _changed_keys(
    path: JoinPath, before: TableDimension, used: Sequence[str]
) -> _ChangedKeys | None:
    """Return the keys whose rows differ in the columns used; None if they are too many."""
    then = replace(path, dimension=before)
    known = {field.name for field in stored_columns(before.snapshot.properties)}
    if not known.issuperset(_columns_read(path, used)):
        return None
    new, old = path.dimension.rows(), before.rows()
    _, gone = _differing(old, then, new, path, ())
    changed, added = _differing(new, path, old, then, used)
    if len(gone) + len(changed) + len(added) > KEYS_MAX:
        return None
    return _ChangedKeys(
        tuple(
            pa.concat_arrays([old.computed(key).take(gone), new.computed(key).take(changed)])
            for key in path.keys
        ),
        tuple(new.computed(key).take(added) for key in path.keys),
    )


def _columns_read(path: JoinPath, used: Iterable[str]) -> set[str]:
    found = {name for key in path.keys for name in key.columns}.union(used)
    return found if path.condition is None else found | path.condition.columns


def _differing(
    one: DimensionRows,
    path: JoinPath,
    other: DimensionRows,
    there: JoinPath,
    used: Sequence[str],
) -> tuple[pa.Array, pa.Array]:
    """Return the rows of a version that another has with other values, and those it has not.

    They are compared by their keys; rows that the path does not find are in neither.
    """
    keys = [one.computed(key) for key in path.keys]
    own = one.by_key(path).positions(keys)
    here = np.flatnonzero(own < one.row_count)
    places = other.by_key(there).positions(keys)[here]
    is_there = places < other.row_count
    missing = primitive_array(here[~is_there])
    rows, partners = here[is_there], places[is_there]
    differs = np.zeros(len(rows), np.bool_)
    for name in used:
        mine = one.column(name).take(primitive_array(rows))
        theirs = other.column(name).take(primitive_array(partners))
        differs |= ~_are_same(mine, theirs)
    return primitive_array(rows[differs]), missing


def _are_same(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Return whether values are the same, doubles by their bits."""
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((a == b for a, b in pairs), np.bool_, len(one))
    if pa.types.is_floating(one.type):
        bits = pa.int64() if one.type == pa.float64() else pa.int32()
        one, other = one.view(bits), other.view(bits)
    equal = filled_values(pc.equal(one, other), False)
    nulls = filled_values(pc.and_(one.is_null(), other.is_null()), False)
    found: NDArray[np.bool_] = equal | nulls
    return found


def _is_among(values: Sequence[Expression], keys: Sequence[pa.Array]) -> Expression:
    """Return the condition that each of some values is in its column of keys."""
    conditions = [
        membership(value, [scalar_literal(one) for one in key.unique()], "UTC")
        for value, key in zip(values, keys, strict=True)
    ]
    return conditions[0] if len(conditions) == 1 else logical("and", conditions, "UTC")
