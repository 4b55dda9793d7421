"""The request of one `df.write...save()`: the table's properties and how to publish."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError
from projseg.spark_datasource.option_table import COMPACT_SINCE, TABLE_PROPERTIES, WRITE_PLAN
from projseg.spark_datasource.options import Options, write_location
from projseg.spark_datasource.schemas import depends_on_zone, zone_missing
from projseg.spark_datasource.write_plan import WritePlan
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote
from projseg.table_layer.metadata.known_properties import known_ones
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions

IF_EXISTS: Final = ("append", "error", "ignore")
_OF_ONE_WRITE: Final = (
    "ifExists",
    "replaceInterval",
    "replaceWhere",
    "overwriteSchema",
    "txnAppId",
    "txnVersion",
)


@dataclass(frozen=True)
class WriteRequest:
    """One write to one table; a property that was not given is None.

    Time column and granularity must agree with those of an existing table; properties are those of
    a new one. Projections and indexes are JSON objects as `Table.create` takes them. `if_exists` is
    one of `IF_EXISTS`. Rows replace those of `replace_interval`, `[start, end)` in microseconds
    UTC, or those for which the Spark SQL `replace_where` is true. With `merges_schema`, columns
    that the table lacks are added and narrower ones widened; with `overwrites_schema`, the columns
    of the rows replace the table's. Under `transaction`, an application and its number, the write
    happens at most once. With `is_compacted_later`, the extension does what follows the commit.
    `plan` has what a write by name does beside adding rows; the layout of this request then has no
    use.
    """

    location: str
    time_column: str | None = None
    segment_granularity: str | None = None
    cluster_by: tuple[str, ...] | None = None
    target_segment_rows: int | None = None
    projections: tuple[Any, ...] | None = None
    indexes: tuple[Any, ...] | None = None
    properties: dict[str, str] | None = None
    if_exists: str = "append"
    replace_interval: tuple[int, int] | None = None
    replace_where: str | None = None
    timezone: str | None = None
    merges_schema: bool = False
    overwrites_schema: bool = False
    transaction: tuple[str, int] | None = None
    note: CommitNote = NO_NOTE
    storage_options: StorageOptions = NO_OPTIONS
    is_compacted_later: bool = False
    plan: WritePlan | None = None

    @property
    def storage(self) -> Storage:
        """Where the table is or will be."""
        return open_storage(self.location, self.storage_options)


def parse_write_request(given: Mapping[str, str]) -> WriteRequest:
    """Read and check the options of one save."""
    options = Options(given)
    options.require_writable()
    target_rows = options.integer("targetSegmentRows")
    if target_rows is not None and target_rows < 1:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option 'targetSegmentRows' is {target_rows}; it must be 1 or more",
        )
    return WriteRequest(
        location=write_location(options),
        time_column=options.text("timeColumn"),
        segment_granularity=options.text("segmentGranularity"),
        cluster_by=options.list("clusterBy"),
        target_segment_rows=target_rows,
        projections=_declarations("projections", options.text("projections")),
        indexes=_declarations("indexes", options.text("indexes")),
        properties=known_ones(json.loads(given.get(TABLE_PROPERTIES, "{}"))) or None,
        if_exists=options.choice("ifExists", IF_EXISTS) or "append",
        replace_interval=_interval(options),
        replace_where=options.text("replaceWhere"),
        timezone=options.text("timezone"),
        merges_schema=options.flag("mergeSchema"),
        overwrites_schema=options.flag("overwriteSchema"),
        transaction=_transaction(options),
        note=CommitNote({}, options.text("userName"), options.text("userMetadata")),
        storage_options=options.storage_options,
        is_compacted_later=COMPACT_SINCE in given,
        plan=WritePlan.from_json(given[WRITE_PLAN]) if given.get(WRITE_PLAN) else None,
    )


def declared_options(request: WriteRequest) -> dict[str, Any]:
    """Return a table's declarations in the options of a write, as for `declare_properties`."""
    given: dict[str, Any] = {
        "time_column": request.time_column,
        "segment_granularity": request.segment_granularity,
        "cluster_by": request.cluster_by,
        "target_segment_rows": request.target_segment_rows,
        "projections": request.projections,
        "indexes": request.indexes,
        "properties": request.properties,
    }
    return {name: value for name, value in given.items() if value is not None}


def parse_stream_write_request(given: Mapping[str, str]) -> WriteRequest:
    """Read and check the options of a stream's batches."""
    options = Options(given)
    for name in _OF_ONE_WRITE:
        if options.text(name) is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION",
                f"option '{name}' is of a single write and a stream makes many, each exactly once; "
                "leave it out, or write each batch by foreachBatch",
            )
    return parse_write_request(given)


def _interval(options: Options) -> tuple[int, int] | None:
    text, zone = options.text("replaceInterval"), options.text("timezone")
    if text is None:
        return None

    def meaning(zone: str) -> Interval:
        return Interval.parse(text, zone)

    if zone is None and depends_on_zone(meaning):
        raise zone_missing("replaceInterval", text)
    interval = meaning(zone or "UTC")
    return interval.start_us, interval.end_us


def _declarations(option: str, text: str | None) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        declared = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option '{option}' is not JSON ({error}); give an array of declarations",
        ) from None
    many = declared if isinstance(declared, list) else [declared]
    if not all(isinstance(one, dict) for one in many):
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option '{option}' must be a JSON array of objects, one for each declaration",
        )
    return tuple(many)


def _transaction(options: Options) -> tuple[str, int] | None:
    application, number = options.text("txnAppId"), options.integer("txnVersion")
    if application is None and number is None:
        return None
    if application is None or number is None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "options 'txnAppId' and 'txnVersion' name a transaction together; give both",
        )
    return application, number
