"""Which views of a store may answer a query: by their columns, their parts, or an earlier state.

No view is bound to know it by its columns: for each column there is a row of bits over all views,
made once for each version of the store. Parts of a star's view answer if their dimensions have the
rows that the query reads. An earlier state is a version of each table such that at some instant,
not long ago, all of them were the newest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.algebra.expressions.joined_values import path_of
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.join import key_values
from projseg.errors import without_secrets
from projseg.memory.cache import KEPT
from projseg.reader.dimensions import TableDimension
from projseg.reader.plan.query_plan import WiderVerdict
from projseg.reader.plan.version_facts import VersionFacts
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.table_schema import TableSchema, named_schema
from projseg.views.definitions.definition import is_absent, view_spec
from projseg.views.view_dimensions import holds_rows_of, known_dimensions
from projseg.views.view_records import GROUPS, ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion

_VIEW_BYTES: Final = 512
_Bits = NDArray[np.bool_]

_SECOND: Final = 1_000_000


class ListedViews(msgspec.Struct, frozen=True):
    """The views of one version of a store, by their number of groups and name, and their columns.

    By stored column, bool[views] says whose groups mention it (`groups`), and whose groups or
    aggregates (`states`). A view may have nothing to answer from, be disabled, or answer its own
    SELECT in Spark alone (`is_result`).
    """

    views: tuple[ViewEntry, ...]
    groups: dict[str, _Bits]
    states: dict[str, _Bits]
    is_empty: _Bits
    is_disabled: _Bits
    is_result: _Bits

    def reasons(self, snapshot: Snapshot, query: QuerySpec) -> list[Reason | None]:
        """Return for each view why it is not even matched; None if it may answer."""
        found: list[Reason | None] = [None] * len(self.views)
        left = np.ones(len(self.views), np.bool_)

        def refuse(which: _Bits, reason: Reason) -> None:
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
                found[place] = reason and _unstored_join(self.views[place], query, reason)
        return found

    def _ban(self, query: QuerySpec, refuse: Callable[[_Bits, Reason], None]) -> None:
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
        self, schema: TableSchema, query: QuerySpec, refuse: Callable[[_Bits, Reason], None]
    ) -> None:
        """Refuse the views that mention a column of the query nowhere."""
        nowhere = np.zeros(len(self.views), np.bool_)

        def lack(name: str, known: dict[str, _Bits]) -> _Bits:
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
    """The views that may answer a query, smallest first, and why others may not."""

    views: tuple[ViewEntry, ...]
    refused: tuple[WiderVerdict, ...]


def nominated_views(store: StoreVersion, snapshot: Snapshot, query: QuerySpec) -> Nominated:
    """Return the views that are to be matched; kept for queries that mention the same columns."""
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


def listed_views(store: StoreVersion) -> ListedViews:
    """Return the views of a version of a store, made ready once while they are kept."""
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


def _bits(values: Iterable[bool]) -> _Bits:
    return np.fromiter(values, np.bool_)


def _at(places: list[int], size: int) -> _Bits:
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


class SpecsOfParts:
    """The specs of a view's parts, as far as their dimensions have the rows that a query reads."""

    def __init__(self, snapshot: Snapshot, view: ViewEntry, query: QuerySpec) -> None:
        self._snapshot, self._view, self._query = snapshot, view, query
        self._names = {one.table_id: one.alias for one in view.dimensions}
        self._asked: dict[str, dict[TableDimension, None]] = {}
        for node in query.joins:
            dimension = path_of(node).dimension
            self._asked.setdefault(dimension.table_id, {})[dimension] = None
        self._known: dict[tuple[TableDimension, ...], VersionFacts | Reason] = {}

    def of(self, part: ViewPart) -> VersionFacts | Reason:
        """Return the facts about parts built with the same dimensions, or why it is of no use."""
        usable = known_dimensions(part, self._asked)
        key = tuple(usable.values())
        if key not in self._known:
            self._known[key] = self._facts(usable, part)
        return self._known[key]

    def _facts(self, usable: Mapping[str, TableDimension], part: ViewPart) -> VersionFacts | Reason:
        view = self._view
        spec = view_spec(view, self._snapshot.properties, usable)
        if isinstance(spec, str):
            return Reason(ReasonCode.VIEW_BROKEN, spec)
        if any(map(is_absent, spec.filter_conjuncts)):
            return self.reason(part, None) or Reason(ReasonCode.FILTER_NOT_IMPLIED, view.name)
        return VersionFacts(self._snapshot, known={(GROUPS, view.definition_hash): spec})

    def reason(self, part: ViewPart, refused: Reason | None) -> Reason | None:
        """Return why a part does not answer, in terms of the dimensions that the query reads."""
        for state in part.paths:
            versions = self._asked.get(state.table_id, ())
            if versions and not any(holds_rows_of(one, state) for one in versions):
                if (repeated := self._repeated(state.table_id)) is not None:
                    return repeated
                version = next(iter(versions)).snapshot.version
                shown = f"{self._names[state.table_id]} (version {version}, built at "
                return Reason(ReasonCode.DIMENSION_CHANGED, f"{shown}{state.version})")
        return refused and _unstored_join(self._view, self._query, refused)

    def _repeated(self, table_id: str) -> Reason | None:
        """Return why a view did not follow a dimension, if one key of it has several rows now."""
        error = self._view.last_error
        if error is None or error.code != "PROJSEG_JOIN_KEY_NOT_UNIQUE":
            return None
        for path in map(path_of, self._query.joins):
            value = path.dimension.repeated(path) if path.dimension.table_id == table_id else None
            if value is not None:
                shown = f"{self._names[table_id]} ({key_values(path.names, value)})"
                return Reason(ReasonCode.KEY_NOT_UNIQUE, shown)
        return None


def _unstored_join(view: ViewEntry, query: QuerySpec, refused: Reason) -> Reason:
    """Return the first dimension of a query that a view knows neither by its key nor itself.

    Nor does it know one of which it keeps other columns.
    """
    known = {one.table_id: one.alias for one in view.dimensions}
    for node in query.joins:
        dimension = path_of(node).dimension
        names = frozenset[str]().union(*(one.columns for one in node.arguments))
        if dimension.table_id not in known and not names.issubset(view.group_columns):
            location = without_secrets(dimension.snapshot.storage.location)
            return Reason(ReasonCode.JOIN_NOT_STORED, location.rstrip("/").rpartition("/")[2])
        if dimension.table_id in known and to_sql(node) in refused.detail:
            name = ".".join((known[dimension.table_id], *map(str, node.parameters[1:])))
            return Reason(ReasonCode.JOIN_NOT_STORED, name)
    return refused


def earlier_states(
    store: StoreVersion, fact: Snapshot, tables: Mapping[str, Snapshot], seconds: float
) -> Iterator[tuple[ViewEntry, dict[str, Snapshot]]]:
    """Yield views of a fact, smallest first, with the state at which each was refreshed.

    A state has a Snapshot by table id, and lasted until at most `seconds` ago; views of the present
    state are left out.
    """
    oldest = now_us() - round(seconds * _SECOND)
    table_id = fact.properties.table_id
    for view in listed_views(store).views:
        is_of_use = view.is_enabled and view.is_built and view.fact.table_id == table_id
        if not is_of_use or table_id not in view.refreshed:
            continue
        state = _state_of(view, tables)
        if state is None or all(state[one].version == tables[one].version for one in tables):
            continue
        lives = [_life_of(one) for one in state.values()]
        ends = [life[1] for life in lives if life is not None and life[1] is not None]
        if None in lives or min(ends, default=oldest) <= oldest:
            continue
        # Of one table alone, every version was the newest once, if only for less than its clock's
        # unit.
        starts = [life[0] for life in lives if life is not None]
        if len(lives) == 1 or max(starts) < min(ends):
            yield view, state


def _state_of(view: ViewEntry, tables: Mapping[str, Snapshot]) -> dict[str, Snapshot] | None:
    """Return tables at the versions that a view was refreshed at; others stay as they are."""
    found: dict[str, Snapshot] = {}
    for table_id, snapshot in tables.items():
        refreshed = view.refreshed.get(table_id)
        if refreshed is None or refreshed.version == snapshot.version:
            found[table_id] = snapshot
            continue
        then = None
        if refreshed.version < snapshot.version:
            then = read_version(snapshot.storage, refreshed.version)
        if then is None or then.file.write_id != refreshed.write_id:
            return None
        found[table_id] = then
    return found


def _life_of(snapshot: Snapshot) -> tuple[int, int | None] | None:
    """Return when a version began to be the newest, and ended; None if it is not known."""
    following = read_version(snapshot.storage, snapshot.version + 1)
    if following is not None:
        return snapshot.timestamp_us, following.timestamp_us
    is_followed = read_version(snapshot.storage, snapshot.version) is None
    return None if is_followed else (snapshot.timestamp_us, None)
