"""Which stored results may answer a SELECT over versions of tables, and why others may not.

Spark compares the SELECT itself: here are its tables, its session, and what the query allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.context import QueryContext
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.choice.earlier_states import earlier_states
from projseg.views.choice.nominated_views import listed_views
from projseg.views.definitions.result_definition import ResultDefinition
from projseg.views.results.result_refresh import changed_table
from projseg.views.view_records import StoredResult, ViewEntry
from projseg.views.view_store import StoreVersion


class AskedSelect(msgspec.Struct, frozen=True):
    """A SELECT of which stored results are asked.

    Parameters
    ----------
    nomination : str
        Hash of its tables and operators.
    tables : dict of str to Snapshot
        Its tables by id, at the versions that it reads.
    session : dict of str to str
        As of `ResultDefinition`.
    context : QueryContext
        What its query says of views.
    """

    nomination: str
    tables: dict[str, Snapshot]
    session: dict[str, str]
    context: QueryContext

    def reason_against(self, view: ViewEntry) -> Reason | None:
        """Return why a result that is nominated must not answer; None: it may."""
        return self._steered(view) or self._outdated(view)

    def _steered(self, view: ViewEntry) -> Reason | None:
        context, name = self.context, view.name.casefold()
        if context.use_view is not None and context.use_view.casefold() != name:
            return Reason(ReasonCode.EXCLUDED, f"useView names '{context.use_view}'")
        if name in map(str.casefold, context.exclude_views):
            return Reason(ReasonCode.EXCLUDED, "excludeViews names it")
        if not view.is_enabled:
            return Reason(ReasonCode.VIEW_DISABLED)
        return None

    def _outdated(self, view: ViewEntry) -> Reason | None:
        session = ResultDefinition.of(view).session
        if session != self.session:
            keys = sorted(dict(session.items() ^ self.session.items()))
            return Reason(ReasonCode.OTHER_SELECT, f"{', '.join(keys)} is another here")
        changed = changed_table(view, self.tables)
        if changed is None:
            return None
        return Reason(ReasonCode.DIMENSION_CHANGED, self._versions(view, changed))

    def _versions(self, view: ViewEntry, alias: str) -> str:
        table_id = next(one.table_id for one in view.dimensions if one.alias == alias)
        known, table = view.refreshed.get(table_id), self.tables.get(table_id)
        if known is None or table is None:
            return alias
        return f"{alias} (version {table.version}, built at {known.version})"


def nominations(store: StoreVersion) -> Iterator[str]:
    """Yield the hashes of the SELECTs of which a store keeps the rows."""
    for view in listed_views(store).views:
        if view.is_enabled and view.result is not UNSET:
            yield view.result.nomination


class Answering(NamedTuple):
    """A stored result that may answer a SELECT: its view, its rows, its tables by id."""

    view: ViewEntry
    result: StoredResult
    tables: Mapping[str, Snapshot]


def answering_results(
    store: StoreVersion, fact: Snapshot, asked: AskedSelect
) -> tuple[list[Answering], dict[str, Reason]]:
    """Return the results that may answer a SELECT, and why others may not.

    Parameters
    ----------
    store : StoreVersion
        The store.
    fact : Snapshot
        The table in whose folder the store is.
    asked : AskedSelect
        The SELECT.

    Raises
    ------
    CorruptTableError
        If a list is missing or damaged.
    """
    found: list[Answering] = []
    refused: dict[str, Reason] = {}
    named = {
        view.name: view.result
        for view in listed_views(store).views
        if view.result is not UNSET and view.result.nomination == asked.nomination
    }
    if not asked.context.allows_views:
        return [], {name: Reason(ReasonCode.EXCLUDED, "noViews") for name in named}
    for name, result in named.items():
        view = store.view(name)
        reason = asked.reason_against(view)
        if reason is None:
            found.append(Answering(view, result, asked.tables))
        else:
            refused[name] = reason
    seconds = asked.context.max_staleness
    if found or seconds is None:
        return found, refused
    for view, state in earlier_states(store, fact, asked.tables, seconds):
        older = msgspec.structs.replace(asked, tables=state)
        if view.name in named and older.reason_against(view) is None:
            found.append(Answering(view, named[view.name], state))
    return found, refused
