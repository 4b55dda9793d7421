"""Which views of a store may answer a query, known by the columns that they mention.

No view is bound for it: for each column there is a row of bits over all views, made once for each
version of the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.bound_query import QuerySpec
from projseg.memory.cache import KEPT
from projseg.reader.plan.query_plan import WiderVerdict
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import TableSchema, named_schema
from projseg.views.choice.specs_of_parts import unstored_join
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import StoreVersion

_VIEW_BYTES: Final = 512
Bits = NDArray[np.bool_]


class ListedViews(msgspec.Struct, frozen=True):
    """The views of one version of a store, smallest first, and what columns they mention.

    Parameters
    ----------
    views : tuple of ViewEntry
        By their groups, then by name.
    groups, states : dict of str to bool[views]
        By stored column, which views' groups mention it, and which views' groups or aggregates.
    is_empty, is_disabled, is_result : bool[views]
        Which views have nothing to answer from, which are not to be used, and which answer only
        their own SELECT, in Spark.
    """

    views: tuple[ViewEntry, ...]
    groups: dict[str, Bits]
    states: dict[str, Bits]
    is_empty: Bits
    is_disabled: Bits
    is_result: Bits

    def reasons(self, snapshot: Snapshot, query: QuerySpec) -> list[Reason | None]:
        """Return for each view why it is not even matched; None: it may answer."""
        found: list[Reason | None] = [None] * len(self.views)
        left = np.ones(len(self.views), np.bool_)

        def refuse(which: Bits, reason: Reason) -> None:
            nonlocal left
            for place in np.flatnonzero(which & left).tolist():
                found[place] = reason
            left &= ~which

        self._ban(query, refuse)
        table_id = snapshot.properties.table_id
        is_other = _bits(view.fact.table_id != table_id for view in self.views)
        refuse(is_other, Reason(ReasonCode.VIEW_BROKEN, "the table is another one"))
        if query.is_row_scan:
            refuse(left, Reason(ReasonCode.ROW_SCAN))
        refuse(self.is_empty, Reason(ReasonCode.VIEW_EMPTY))
        refuse(self.is_result, Reason(ReasonCode.OTHER_SELECT))
        known = left.copy()
        self._refuse_by_columns(named_schema(snapshot.properties), query, refuse)
        if query.joins:
            for place in np.flatnonzero(known & ~left).tolist():
                reason = found[place]
                found[place] = reason and unstored_join(self.views[place], query, reason)
        return found

    def _ban(self, query: QuerySpec, refuse: Callable[[Bits, Reason], None]) -> None:
        """Refuse the views that the user does not want."""
        context = query.context
        if context.exclude_views or context.use_view is not None:
            names = [view.name.casefold() for view in self.views]
            excluded = {name.casefold() for name in context.exclude_views}
            is_named = _bits(name in excluded for name in names)
            refuse(is_named, Reason(ReasonCode.EXCLUDED, "excludeViews names it"))
            if context.use_view is not None:
                wanted = context.use_view.casefold()
                shown = f"useView names '{context.use_view}'"
                is_other = _bits(name != wanted for name in names)
                refuse(is_other, Reason(ReasonCode.EXCLUDED, shown))
        refuse(self.is_disabled, Reason(ReasonCode.VIEW_DISABLED))

    def _refuse_by_columns(
        self, schema: TableSchema, query: QuerySpec, refuse: Callable[[Bits, Reason], None]
    ) -> None:
        """Refuse the views that mention a column of the query nowhere."""
        nowhere = np.zeros(len(self.views), np.bool_)

        def lack(name: str, known: dict[str, Bits]) -> Bits:
            if name == query.time_column:
                return nowhere
            forms = schema.forms.get(name)
            stored = (name,) if forms is None else tuple(form.name for form in forms)
            has = nowhere
            for one in stored:
                has = has | known.get(one, nowhere)
            return ~has

        for name in sorted(name for key in query.keys for name in key.expression.columns):
            refuse(lack(name, self.groups), Reason(ReasonCode.MISSING_GROUPING_COLUMN, name))
        for condition in query.conditions:
            for name in sorted(condition.columns):
                refuse(lack(name, self.states), Reason(ReasonCode.FILTER_COLUMN_NOT_STORED, name))
        for primitive in query.primitives:
            reason = Reason(ReasonCode.AGGREGATOR_NOT_STORED, primitive.text)
            for name in sorted({n for one in primitive.arguments for n in one.columns}):
                refuse(lack(name, self.states), reason)


class Nominated(msgspec.Struct, frozen=True):
    """The views that may answer a query, smallest first, and why others may not.

    Parameters
    ----------
    views : tuple of ViewEntry
        Those that may.
    refused : tuple of WiderVerdict
        Of the others.
    """

    views: tuple[ViewEntry, ...]
    refused: tuple[WiderVerdict, ...]


def nominated_views(store: StoreVersion, snapshot: Snapshot, query: QuerySpec) -> Nominated:
    """Return the views that are to be matched; kept for queries that mention the same columns.

    Raises
    ------
    CorruptTableError
        If a list is missing or damaged.
    """
    listed = listed_views(store)
    if query.joins:
        return _nominated(listed, snapshot, query)
    context = query.context
    mentioned = (
        tuple(tuple(key.expression.columns) for key in query.keys),
        tuple(tuple(condition.columns) for condition in query.conditions),
        tuple((p.text, *(tuple(a.columns) for a in p.arguments)) for p in query.primitives),
    )
    steered = (query.is_row_scan, query.time_column, context.use_view, context.exclude_views)
    version = (snapshot.storage.location, snapshot.version, snapshot.file.write_id)
    found: Nominated = KEPT.get_or_load(
        ("nominated views", *store.identity, version, mentioned, steered),
        lambda: _nominated(listed, snapshot, query),
        lambda made: 1024 + 128 * len(made.refused),
    )
    return found


def _nominated(listed: ListedViews, snapshot: Snapshot, query: QuerySpec) -> Nominated:
    reasons = listed.reasons(snapshot, query)
    both = list(zip(listed.views, reasons, strict=True))
    return Nominated(
        tuple(view for view, reason in both if reason is None),
        tuple(WiderVerdict(v.name, 0, 0, 0, reason) for v, reason in both if reason is not None),
    )


def _bits(values: Iterable[bool]) -> Bits:
    return np.fromiter(values, np.bool_)


def listed_views(store: StoreVersion) -> ListedViews:
    """Return the views of a version of a store, made ready once while they are kept.

    Raises
    ------
    CorruptTableError
        If a list is missing or damaged.
    """
    found: ListedViews = KEPT.get_or_load(
        ("listed views", *store.identity),
        lambda: _made_ready(store),
        lambda made: 1024 + _VIEW_BYTES * len(made.views),
    )
    return found


def _made_ready(store: StoreVersion) -> ListedViews:
    views = sorted(store.views.values(), key=lambda view: (view.row_count, view.name))
    groups: dict[str, list[int]] = defaultdict(list)
    states: dict[str, list[int]] = defaultdict(list)
    for place, view in enumerate(views):
        for name in view.group_columns:
            groups[name].append(place)
        for name in view.state_columns:
            states[name].append(place)
    for name, places in groups.items():
        states[name] += places
    is_empty = _bits(not view.is_built for view in views)
    is_disabled = _bits(not view.is_enabled for view in views)
    is_result = _bits(view.is_result for view in views)
    return ListedViews(
        tuple(views),
        {name: _at(places, len(views)) for name, places in groups.items()},
        {name: _at(places, len(views)) for name, places in states.items()},
        is_empty,
        is_disabled,
        is_result,
    )


def _at(places: list[int], size: int) -> Bits:
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found
