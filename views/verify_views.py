"""Check a store of views: its lists, covers and files, and deeply the groups of its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from msgspec import UNSET

from projseg.aggregation.partial import Partial, in_key_order, key_arrow
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import ProjsegError
from projseg.maintenance.findings import Finding
from projseg.reader.dimensions import TableDimension
from projseg.segment_format.file.verify_file import verify_segment
from projseg.table_layer.commits.footer_match import open_uncached
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.paths import VIEWS
from projseg.views.cover_test import among, listed_segments
from projseg.views.definitions.definition import stored_groups_spec
from projseg.views.part_files import Folder, readable, stored_groups_of
from projseg.views.stored_results import table_of_result
from projseg.views.view_dimensions import built_with, newest_dimensions
from projseg.views.view_records import ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion

_DIGITS = 1e-9
"""By what part of the largest number of a state its doubles may differ, which are sums of rows in
any order: a sum of deviations is zero but for such noise."""


def verify_views(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry | None = None, *, deep: bool = False
) -> list[Finding]:
    """Check a store, or one of its views."""
    views = [view] if view is not None else list(store.views.values())
    return [found for one in views for found in _of_view(snapshot, store, one, deep=deep)]


def _of_view(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry, *, deep: bool
) -> Iterator[Finding]:
    where = f"{VIEWS}{view.name}"
    if view.is_result:
        yield from _of_result(store, view, where)
        return
    try:
        parts = store.parts(view)
        listed = listed_segments(snapshot)
        newest = newest_dimensions(snapshot, view) if deep else {}
    except ProjsegError as error:
        yield Finding(where, str(error))
        return
    seen: set[str] = set()
    for part in parts:
        name = f"{VIEWS}{part.segment.file}"
        try:
            cover = store.cover(part)
            segment = open_uncached(snapshot.storage, readable(part))
            verify_segment(segment)
            found = []
            if deep and listed.issuperset(cover):
                found = list(_of_part(snapshot, view, part, cover, built_with(part, newest)))
        except ProjsegError as error:
            yield Finding(name, str(error))
            continue
        yield from found
        if not seen.isdisjoint(cover):
            double = min(seen.intersection(cover))
            yield Finding(name, f"another part stands for {double} too")
        seen.update(cover)


def _of_result(store: StoreVersion, view: ViewEntry, where: str) -> Iterator[Finding]:
    """Check the files of a stored result; what its SELECT gives, only Spark can tell."""
    if view.result is UNSET:
        return
    try:
        rows = table_of_result(store.storage, view.result)
        if rows.row_count != view.row_count:
            yield Finding(where, f"it has {rows.row_count} rows, and {view.row_count} are listed")
        for entry in rows.segments:
            verify_segment(open_uncached(rows.storage, entry))
    except ProjsegError as error:
        yield Finding(where, str(error))


def _of_part(
    snapshot: Snapshot,
    view: ViewEntry,
    part: ViewPart,
    cover: tuple[str, ...],
    known: Mapping[str, TableDimension] | None,
) -> Iterator[Finding]:
    """Fold a part's segments again, unless a version of a dimension is no longer kept."""
    if known is None:
        return
    name = f"{VIEWS}{part.segment.file}"
    spec = stored_groups_spec(view, snapshot.properties, known)
    folder, schema = Folder(snapshot, spec), stored_schema(snapshot.properties)
    stored = in_key_order(stored_groups_of(snapshot, schema, spec, part), spec.primitives)
    pieces = list(folder.fold(among(snapshot, set(cover))))
    anew = pieces[0] if len(pieces) == 1 else folder.merged(pieces)
    groups = in_key_order(folder.groups_of(anew), spec.primitives)
    if not _same_groups(groups, stored, spec.primitives):
        yield Finding(
            name, "its groups are not those of the segments it stands for; refresh the view in full"
        )


def _same_groups(found: Partial, stored: Partial, primitives: tuple[Primitive, ...]) -> bool:
    """Whether groups in one order have equal keys and states, but for last digits of doubles."""
    if found.group_count != stored.group_count:
        return False
    for place in range(len(found.keys)):
        keys = zip(*(key_arrow(one, place).to_pylist() for one in (found, stored)), strict=True)
        if not all(_same(left, right, 0.0) for left, right in keys):
            return False
    return all(
        _same_state(left, right)
        for place in range(len(primitives))
        for left, right in zip(_states(found, place), _states(stored, place), strict=True)
    )


def _states(groups: Partial, place: int) -> Iterator[tuple[object, ...]]:
    columns = groups.state_columns(place).values()
    return zip(*(column.to_arrow().to_pylist() for column in columns), strict=True)


def _same_state(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    numbers = [abs(one) for one in (*left, *right) if isinstance(one, float)]
    noise = _DIGITS * max(filter(math.isfinite, numbers), default=0.0)
    return all(_same(one, other, noise) for one, other in zip(left, right, strict=True))


def _same(left: object, right: object, noise: float) -> bool:
    if isinstance(left, list) and isinstance(right, list):  # distinct values, in the rows' order
        return sorted(map(repr, left)) == sorted(map(repr, right))
    if isinstance(left, float) and isinstance(right, float):
        is_close = math.isclose(left, right, rel_tol=_DIGITS, abs_tol=noise)
        return is_close or (math.isnan(left) and math.isnan(right))
    return left == right
