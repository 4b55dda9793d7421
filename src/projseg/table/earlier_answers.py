"""Answers that may be old: from a view at its last refresh, with all tables as they were then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.query.request import Query
from projseg.errors import ProjectionNotUsableError, ProjsegError
from projseg.reader.plan.query_plan import QueryPlan
from projseg.table.version_reader import VersionReader

if TYPE_CHECKING:
    from projseg.table.sql_statements import BoundSelect

_Asked = TypeVar("_Asked")
Versions: TypeAlias = Sequence[VersionReader]


def _earlier_versions(fact: VersionReader, tables: Versions, seconds: float) -> Iterator[
    tuple[str, tuple[VersionReader, ...]]
]:  # fmt: skip
    """Yield views of a table with the versions of tables at which each was refreshed."""
    # Imported here, so that a process that asks tables without views starts without it.
    from projseg.views.nominated_views import earlier_states

    store = fact.view_store()
    if store is None:
        return
    snapshots = {one.properties.table_id: one.snapshot for one in tables}
    for view, state in earlier_states(store, fact.snapshot, snapshots, seconds):
        if view.is_result:
            continue
        found = tuple(
            one.at(state[one.properties.table_id], store if one is fact else UNSET)
            for one in tables
        )
        yield view.name, found


def earlier_answer(
    fact: VersionReader,
    tables: Versions,
    seconds: float,
    present: Callable[[], QueryPlan],
    at: Callable[[str, Versions], tuple[_Asked, QueryPlan]],
) -> _Asked | None:
    """Return a statement bound to an earlier state, by `at`; None if the present plan is whole."""
    if not fact.has_views or not all(table.may_be_older for table in tables):
        return None
    try:
        if is_whole(present()):
            return None
    except ProjectionNotUsableError:
        pass
    for name, versions in _earlier_versions(fact, tables, seconds):
        try:
            asked, plan = at(name, versions)
        except ProjsegError:  # a column that was added since, a view that does not answer
            continue
        if plan.is_wide:
            return asked
    return None


def is_whole(plan: QueryPlan) -> bool:
    """Whether a view answers, without a segment."""
    return plan.is_wide and all(one.entry.file.startswith("views/") for one in plan.segments)


def as_old_as(reader: VersionReader, query: Query) -> tuple[VersionReader, Query]:
    """Return the version of which a query is asked, and what: an earlier one if it may be."""
    seconds = query.query_context.max_staleness
    if seconds is None or query.joins:
        return reader, query

    def at(name: str, versions: Versions) -> tuple[tuple[VersionReader, Query], QueryPlan]:
        (older,) = versions
        asked = replace_fields(query, context={**dict(query.context or {}), "useView": name})
        return (older, asked), older.plan(asked)

    found = earlier_answer(reader, [reader], seconds, lambda: reader.plan(query), at)
    return (reader, query) if found is None else found


def earlier_select(
    bound: BoundSelect,
    versions: Versions,
    seconds: float,
    bound_at: Callable[[str, Versions], BoundSelect],
) -> BoundSelect:
    """Return a SELECT over several tables, bound to them or to one earlier state of all."""

    def at(name: str, versions: Versions) -> tuple[BoundSelect, QueryPlan]:
        earlier = bound_at(name, versions)
        return replace(earlier, is_earlier=True), earlier.version.plan_bound(earlier.query)

    present = partial(bound.version.plan_bound, bound.query)
    found = earlier_answer(bound.version, versions, seconds, present, at)
    return bound if found is None else found
