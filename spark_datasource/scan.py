"""A read request bound to one table version: its columns, its plan, or rows about the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.types import StructType

from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec, ascending
from projseg.algebra.time.duration import DAY
from projseg.errors import InvalidInputError
from projseg.memory.forks import cached_property
from projseg.reader.plan.query_plan import QueryPlan, WiderSources, plan_query
from projseg.segment_format.format_limits import name_key
from projseg.spark_datasource.options import bad_value
from projseg.spark_datasource.read_request import ReadRequest
from projseg.spark_datasource.schemas import depends_on_zone, spark_schema, zone_missing
from projseg.table_layer.commits.open_version import (
    INSTANT_FORM,
    instant_us,
    open_as_of,
    version_at,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata_tables import METADATA_TABLES
from projseg.table_layer.storage.storage_contract import Storage


class Scan:
    """What one load reads; the newest version is pinned where the request names none.

    `definitions` has, by hash, those of projections in segments of other versions that are to be
    read.
    """

    def __init__(
        self, request: ReadRequest, definitions: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.storage = request.storage
        self.snapshot = _snapshot(self.storage, request)
        self.definitions = dict(definitions)
        if definitions.keys() - self.snapshot.definitions.keys():
            known = {**definitions, **self.snapshot.definitions}
            self.snapshot = self.snapshot.with_file(replace(self.snapshot.file, definitions=known))
        self.request = request.pinned(self.snapshot.number)

    @cached_property
    def query(self) -> QuerySpec:
        """The request's query, bound to the table.

        Final groups come in key order. Spark does not tell a Python source of its LIMIT; with this
        order the LIMIT keeps the same groups from whatever source they were read.
        """
        query = self._bound(self.request)
        if query.is_partial or query.order_by:
            return query
        return replace(query, order_by=ascending(query.keys))

    @cached_property
    def is_zone_missing(self) -> bool:
        """Whether the answer depends on the session's time zone, and the options name none.

        The answer's columns never do.
        """
        if self.request.timezone is not None or self.request.metadata_table is not None:
            return False

        def meaning(zone: str) -> QuerySpec:
            return replace(self._bound(self.request.in_zone(zone)), context=self.query.context)

        with fixed_instant():
            is_missing = depends_on_zone(meaning)
        if is_missing and _depends_on_instant(lambda: meaning("UTC")):
            raise InvalidInputError(
                "PROJSEG_TIME_ZONE_MISSING",
                "the query depends on its instant and on the session's time zone, which Spark "
                "tells only to its tasks, each at an instant of its own; give option 'timezone'",
            )
        return is_missing

    def candidates(self) -> Sequence[SegmentEntry]:
        """Return the segments that may have to be read, whatever the session's time zone is."""
        within = self.query.interval
        if within is None or within.is_empty:
            return self.snapshot.segments
        # No zone is as far as a day from UTC, so neither is any end of the interval.
        return self.snapshot.segments_between(within.start_us - DAY, within.end_us + DAY)

    def plan(
        self, wanted: Collection[str], entries: Sequence[SegmentEntry] | None = None
    ) -> QueryPlan:
        """Return which segments, of `entries` or of all, to read, each from which source.

        `wanted` has the columns of a row scan; if the answer has none of them, one column is read
        for the number of rows.
        """
        query = self.query
        if query.is_row_scan:
            folded = {name_key(name) for name in wanted}
            known = tuple(c for c in query.columns if name_key(c.name) in folded)
            query = replace(query, columns=known or query.columns[:1])
        return plan_query(self.snapshot, query, entries, wider=self._views())

    def description_rows(self) -> pa.Table | None:
        """Return rows that describe the table or the plan, or None if the request is a query."""
        if self.request.metadata_table is not None:
            return METADATA_TABLES[self.request.metadata_table].rows(self.snapshot)
        if self.request.is_explain:
            # Imported here: explanations draw on a library that no other request needs.
            from projseg.explain import explain_plan

            plan = plan_query(self.snapshot, self.query, wider=self._views())
            return explain_plan(self.storage, self.request.query, plan).segments
        return None

    @cached_property
    def answer_schema(self) -> pa.Schema:
        """The columns of the answer."""
        if self.request.metadata_table is not None:
            return METADATA_TABLES[self.request.metadata_table].rows(self.snapshot).schema
        output = self.query.output_schema
        if not self.request.is_explain:
            return output
        # Imported here, as in `description_rows`.
        from projseg.explain import SEGMENTS_SCHEMA

        return SEGMENTS_SCHEMA

    def spark_schema(self) -> StructType:
        """Return the columns of the answer, as Spark has them."""
        return spark_schema(self.answer_schema)

    def _views(self) -> WiderSources | None:
        """Return the table's views, which answer groups."""
        if self.query.is_row_scan or not self.snapshot.properties.has_views:
            return None
        # Imported here: most tables have no views.
        from projseg.views.choose_view import sources_of

        return sources_of(self.snapshot, for_tasks=True)

    def _bound(self, request: ReadRequest) -> QuerySpec:
        properties, query = self.snapshot.properties, request.query
        if not query.joins:
            return bind_query(properties.schema, properties.time_column, query)
        # Imported here, so that a process that joins nothing starts without it.
        from projseg.reader.dimensions import bound_star

        return bound_star(self.snapshot, query, storage_options=request.storage_options)


def _snapshot(storage: Storage, request: ReadRequest) -> Snapshot:
    if request.timestamp is None:
        return open_as_of(storage, request.version, tag=request.tag)
    return version_at(storage, moment("timestampAsOf", request.timestamp, request.timezone))


def _depends_on_instant(meaning: Callable[[], QuerySpec]) -> bool:
    found = []
    for year in (2000, 2001):
        with fixed_instant(datetime(year, 1, 1, tzinfo=UTC)):
            found.append(meaning())
    return found[0] != found[1]


def moment(option: str, timestamp: str, zone: str | None) -> int:
    """Return the instant that an option names, in microseconds UTC."""

    def meaning(zone: str) -> int:
        try:
            return instant_us(timestamp, zone)
        except InvalidInputError as error:
            if error.code != "PROJSEG_BAD_ARGUMENT":
                raise
            raise bad_value(option, timestamp, INSTANT_FORM) from None

    if zone is None and depends_on_zone(meaning):
        raise zone_missing(option, timestamp)
    return meaning(zone or "UTC")
