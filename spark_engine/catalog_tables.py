"""What the engine process does for a catalog whose tables are the folders of a warehouse.

Each operation takes the content of a request, with `warehouse` and mostly `namespace` and `table`,
and replies with `result`; `ProjsegCatalog.scala` asks. `layout` is for writes to any table, and
`RebalanceWrites.scala` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import InvalidInputError
from projseg.spark_engine.replies import Reply
from projseg.spark_engine.statement_requests import apply_column_changes
from projseg.spark_engine.warehouse import Warehouse, described, set_properties
from projseg.table import Table
from projseg.table_layer.commits.open_version import version_at
from projseg.table_layer.storage.locate_storage import open_storage

Request: TypeAlias = Mapping[str, Any]


def _described(warehouse: Warehouse, request: Request) -> dict[str, Any]:
    """Describe a table, at its newest version, at `version` or at `timestamp_us`."""
    location = warehouse.table(request["namespace"], request["table"])
    version = request.get("version")
    if (instant := request.get("timestamp_us")) is not None:
        version = version_at(open_storage(location), instant).version
    return described(Table(location, version))


def _layout(request: Request) -> Reply:
    """Tell a table's time column, and the chunks of time that its segments lie within.

    Of a table that is not made yet, they are those of the request.
    """
    try:
        options = request.get("storage_options")
        properties = Table(request["location"], storage_options=options).properties
        column, granularity = properties.time_column, properties.segment_granularity
    except InvalidInputError as error:
        if error.code != "PROJSEG_NOT_A_TABLE":
            raise
        column = request.get("time_column")
        granularity = request.get("segment_granularity", "all")
    cut = Granularity.parse(granularity)
    chunk = {"months": cut.months, "micros": cut.micros, "origin": cut.origin}
    return {"time_column": column, **chunk}, b""


def _operation(act: Callable[[Warehouse, Request], object]) -> Callable[[Request], Reply]:
    return lambda request: ({"result": act(Warehouse(request["warehouse"]), request)}, b"")


_ACTS: Final[dict[str, Callable[[Warehouse, Request], object]]] = {
    "namespaces": lambda w, _: w.namespaces(),
    "namespace": lambda w, r: str(w.namespace(r["namespace"])),
    "create_namespace": lambda w, r: w.create_namespace(r["namespace"]),
    "drop_namespace": lambda w, r: w.drop_namespace(r["namespace"], cascade=r["cascade"]),
    "tables": lambda w, r: w.tables(r["namespace"]),
    "describe_table": _described,
    "stage_table": lambda w, r: str(w.staged(r["namespace"])),
    "publish_table": lambda w, r: w.publish(
        r["staged"], r["namespace"], r["table"], replace=r["replace"]
    ),
    "discard_table": lambda w, r: w.discard(r["staged"]),
    "rename_table": lambda w, r: w.rename(
        r["namespace"], r["table"], r["new_namespace"], r["new_table"]
    ),
    "drop_table": lambda w, r: w.drop(r["namespace"], r["table"]),
    "change_table": lambda _, r: apply_column_changes(Table(r["location"]), r["changes"]),
    "set_properties": lambda _, r: set_properties(Table(r["location"]), r["properties"]),
}
TABLES: Final = {
    "layout": _layout,
    **{name: _operation(act) for name, act in _ACTS.items()},
}
