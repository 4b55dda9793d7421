"""A read request bound to one table version: its columns, and its plan."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from projseg.algebra.interval import Interval
from projseg.algebra.query_spec import QuerySpec, bind_query
from projseg.algebra.result_order import ascending
from projseg.errors import InvalidInputError
from projseg.memory.lazy import cached_property
from projseg.reader.query import QueryPlan, plan_query
from projseg.spark_datasource.metadata_tables import metadata_rows
from projseg.spark_datasource.read_request import ReadRequest
from projseg.spark_datasource.schemas import spark_schema
from projseg.table_layer.snapshot import Snapshot, history, open_snapshot
from projseg.table_layer.storage import Storage, open_storage


class Scan:
    """What one load reads.

    Parameters
    ----------
    request : ReadRequest
        Of any version; the newest is pinned where it names none.

    Raises
    ------
    InvalidInputError
        If there is no such table or version, or the query does not fit it.
    """

    def __init__(self, request: ReadRequest) -> None:
        self.storage = open_storage(request.location)
        self.snapshot = _snapshot(self.storage, request)
        self.request = request.pinned(self.snapshot.version)

    @cached_property
    def query(self) -> QuerySpec:
        """The request's query, bound to the table.

        Final groups come in the order of their keys: a LIMIT that Spark applies to them, of which
        sources in Python are not told, then keeps the same ones whatever they were read from.
        """
        properties = self.snapshot.properties
        arguments = self.request.query_arguments()
        query = bind_query(properties.schema, properties.time_column, **arguments)
        return query if self.request.is_partial else replace(query, order_by=ascending(query.keys))

    def plan(self, wanted: Collection[str]) -> QueryPlan:
        """Return which segments to read, each from which source.

        Parameters
        ----------
        wanted : collection of str
            Columns that are asked of a row scan. One is read even where none of them is known: it
            says how many rows there are.
        """
        query = self.query
        if query.is_row_scan:
            folded = {name.casefold() for name in wanted}
            known = tuple(c for c in query.columns if c.name.casefold() in folded)
            query = replace(query, columns=known or query.columns[:1])
        return plan_query(self.snapshot, query)

    def told_rows(self) -> pa.Table | None:
        """Return rows that are about the table or the plan, or None if the request is a query."""
        if self.request.metadata_table is not None:
            return metadata_rows(self.snapshot, self.request.metadata_table)
        if self.request.is_explain:
            # Imported here: explanations draw on a library that no other request needs.
            from projseg.explain import Explain

            return Explain.of(self.storage, plan_query(self.snapshot, self.query)).segments
        return None

    def spark_schema(self) -> StructType:
        """Return the columns of the answer."""
        told = self.told_rows()
        return spark_schema(self.query.output_schema if told is None else told.schema)


def _snapshot(storage: Storage, request: ReadRequest) -> Snapshot:
    if request.timestamp is None:
        return open_snapshot(storage, request.version)
    moment = Interval.parse(f"{request.timestamp}/PT0S", _zone(request)).start_us
    for snapshot in history(storage):
        if snapshot.timestamp_us <= moment:
            return snapshot
    raise InvalidInputError(
        "PROJSEG_UNKNOWN_VERSION",
        f"table {storage.location} has no version that was current at {request.timestamp}; its "
        "oldest kept version is younger",
    )


def _zone(request: ReadRequest) -> str:
    return str(dict(request.context).get("timezone", "UTC"))
