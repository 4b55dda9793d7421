"""What parts of a star's view store for a query, and why they do not answer it."""

from __future__ import annotations

from collections.abc import Mapping

from projseg.algebra.expressions.joined_values import path_of
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.join import key_values
from projseg.errors import without_secrets
from projseg.reader.dimensions import TableDimension
from projseg.reader.plan.version_facts import VersionFacts
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.definitions.definition import is_absent, view_spec
from projseg.views.view_dimensions import holds_rows_of, known_dimensions
from projseg.views.view_records import GROUPS, ViewEntry, ViewPart


class SpecsOfParts:
    """What parts of a view store, as far as their dimensions have the rows that a query reads."""

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
        return refused and unstored_join(self._view, self._query, refused)

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


def unstored_join(view: ViewEntry, query: QuerySpec, refused: Reason) -> Reason:
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
