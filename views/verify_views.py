"""Check a store of views: its lists, covers and files, and deeply the groups of its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa

from projseg.aggregation.merge import in_key_order
from projseg.aggregation.partial import Partial, key_arrow
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import ProjsegError
from projseg.maintenance.verification.findings import Finding
from projseg.segment_format.file.verify_file import verify_segment
from projseg.table_layer.metadata.footer_match import open_uncached
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.paths import VIEWS
from projseg.views.cover_test import among, listed_segments
from projseg.views.definition import stored_groups_spec
from projseg.views.part_files import Folder, readable, stored_groups_of
from projseg.views.view_records import ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion

_DIGITS = 1e-9
"""Sums of doubles depend on the order of rows in their last digits."""


def verify_views(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry | None = None, *, deep: bool = False
) -> list[Finding]:
    """Check a store, or one of its views.

    Parameters
    ----------
    snapshot : Snapshot
        The table.
    store : StoreVersion
        The store.
    view : ViewEntry or None
        The only view that is looked at; None: all.
    deep : bool
        Also fold the segments of each valid part again, and compare.

    Returns
    -------
    list of Finding
        One for each fault.
    """
    views = [view] if view is not None else list(store.views.values())
    return [found for one in views for found in _of_view(snapshot, store, one, deep=deep)]


def _of_view(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry, *, deep: bool
) -> Iterator[Finding]:
    where = f"{VIEWS}{view.name}"
    try:
        parts = store.parts(view)
        listed = listed_segments(snapshot)
        spec = stored_groups_spec(view, snapshot.properties)
    except ProjsegError as error:
        yield Finding(where, str(error))
        return
    folder = Folder(snapshot, spec)
    seen: set[str] = set()
    for part in parts:
        name = f"{VIEWS}{part.segment.file}"
        try:
            cover = store.cover(part)
            segment = open_uncached(snapshot.storage, readable(part))
            verify_segment(segment)
            found = list(_of_part(snapshot, folder, part, cover, listed, deep=deep))
        except ProjsegError as error:
            yield Finding(name, str(error))
            continue
        yield from found
        if not seen.isdisjoint(cover):
            double = min(seen.intersection(cover))
            yield Finding(name, f"another part stands for {double} too")
        seen.update(cover)


def _of_part(
    snapshot: Snapshot,
    folder: Folder,
    part: ViewPart,
    cover: tuple[str, ...],
    listed: set[str],
    *,
    deep: bool,
) -> Iterator[Finding]:
    if not deep or not listed.issuperset(cover):
        return
    name = f"{VIEWS}{part.segment.file}"
    schema, spec = stored_schema(snapshot.properties), folder.spec
    stored = in_key_order(stored_groups_of(snapshot, schema, spec, part), spec.primitives)
    pieces = list(folder.fold(among(snapshot, set(cover))))
    anew = pieces[0] if len(pieces) == 1 else folder.merged(pieces)
    groups = in_key_order(folder.groups_of(anew), spec.primitives)
    if rows_of(groups, spec.primitives) != rows_of(stored, spec.primitives):
        yield Finding(
            name, "its groups are not those of the segments it stands for; refresh the view in full"
        )


def rows_of(groups: Partial, primitives: tuple[Primitive, ...]) -> list[tuple[object, ...]]:
    """Return groups as rows, doubles without their last digits."""
    columns: list[pa.Array] = [key_arrow(groups, place) for place in range(len(groups.keys))]
    for place in range(len(primitives)):
        columns += [vector.to_arrow() for vector in groups.state_columns(place).values()]
    lists = [[_rounded(value) for value in column.to_pylist()] for column in columns]
    return list(zip(*lists, strict=True))


def _rounded(value: object) -> object:
    if isinstance(value, float) and math.isfinite(value) and value:
        digits = -math.floor(math.log10(abs(value) * _DIGITS))
        return round(value, digits)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
