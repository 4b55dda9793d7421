"""The request of one read, or of a stream, as plain text that can be pickled.

Spark reads options in one process, plans in a second and runs tasks in others. The request travels
between them, and each side binds it to the pinned snapshot again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from projseg.algebra.query.context import STEERING
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError
from projseg.spark_datasource.option_table import OF_STREAMS, STREAM_NAMES
from projseg.spark_datasource.options import Options, bad_value, parse_choice, read_location
from projseg.table_layer.metadata.versions_and_tags import holds_table
from projseg.table_layer.metadata_tables import METADATA_TABLES
from projseg.table_layer.storage.locate_storage import is_uri, open_storage
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions

_AGGREGATIONS: Final = ("final", "partial")
# Options that a read of a metadata table has a use for.
_OF_METADATA: Final = frozenset(
    {"path", "paths", "metadataTable", "versionAsOf", "timestampAsOf", "tag", "timezone"}
    | {"fillMissingColumns"}
)

# Options that say what to read of which version, and not what to ask of it.
_BESIDE_WHOLE: Final = (
    (_OF_METADATA - {"metadataTable", "timezone"}) | {"query", "explain"} | {"parallelism"}
)

LATEST: Final = "latest"


@dataclass(frozen=True)
class ReadRequest:
    """One scan of one table, at a location without a metadata suffix.

    The version is given by number, by an ISO 8601 instant or by tag; planning pins the newest
    otherwise. `metadata_table` is one of `METADATA_TABLES`, read instead of rows; with
    `is_explain`, rows of the plan are. The query has no time zone where the options name none. With
    `fills_missing`, columns that Spark wants and the answer lacks are null. `parallelism` is how
    many tasks run at once, None for as many as the planning machine has processors.
    """

    location: str
    version: int | None = None
    timestamp: str | None = None
    tag: str | None = None
    metadata_table: str | None = None
    is_explain: bool = False
    query: Query = field(default_factory=Query)
    fills_missing: bool = False
    storage_options: StorageOptions = NO_OPTIONS
    parallelism: int | None = None

    @property
    def storage(self) -> Storage:
        """The table's storage."""
        return open_storage(self.location, self.storage_options)

    def pinned(self, version: int) -> ReadRequest:
        """Return the same request of exactly one table version."""
        return replace(self, version=version, timestamp=None, tag=None)

    @property
    def timezone(self) -> str | None:
        """The time zone that the options name."""
        return self.query.query_context.timezone

    def in_zone(self, zone: str) -> ReadRequest:
        """Return the same request, asked in a time zone."""
        return replace(self, query=self.query.in_zone(zone))

    def of_base_rows(self) -> ReadRequest:
        """Return the same request, answered from no projection."""
        context = {**(self.query.context or {}), "noProjections": True}
        return replace(self, query=replace(self.query, context=context))


def parse_read_request(given: Mapping[str, str]) -> ReadRequest:
    """Read and check the options of one load."""
    options = Options(given)
    options.require_readable()
    location, metadata_table = _split_suffix(read_location(options))
    asked_table = options.choice("metadataTable", tuple(METADATA_TABLES))
    if asked_table and metadata_table not in (None, asked_table):
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option 'metadataTable' is '{asked_table}' and the path ends in '#{metadata_table}'; "
            "give one of them",
        )
    metadata_table = asked_table or metadata_table
    request = ReadRequest(
        location=location,
        version=options.integer("versionAsOf"),
        timestamp=options.text("timestampAsOf"),
        tag=options.text("tag"),
        metadata_table=metadata_table,
        is_explain=options.flag("explain"),
        query=_query(options),
        fills_missing=options.flag("fillMissingColumns"),
        storage_options=options.storage_options,
        parallelism=_count(options, "parallelism"),
    )
    _require_one_version(options)
    _require_one_answer(request, options)
    return request


def _split_suffix(location: str) -> tuple[str, str | None]:
    """Split a location from its metadata suffix, unless the whole text locates a table."""
    base, mark, suffix = location.rpartition("#")
    if not mark or (not is_uri(location) and holds_table(location)):
        return location, None
    return base, parse_choice("metadataTable", suffix, tuple(METADATA_TABLES))


def _count(options: Options, name: str) -> int | None:
    count = options.integer(name)
    if count is not None and count < 1:
        raise bad_value(name, str(count), "1 or more")
    return count


def _query(options: Options) -> Query:
    whole = options.text("query")
    if whole is not None:
        _refuse_beside_whole(options)
        return Query.from_json(whole)
    return Query(
        group_by=options.list("groupBy") or (),
        aggregators=options.list("aggregators") or (),
        granularity=options.text("granularity"),
        filter=options.text("filter"),
        interval=options.text("interval"),
        columns=options.list("columns"),
        aggregation=options.choice("aggregation", _AGGREGATIONS) or "final",
        context={one.key: options.value(one.key) for one in STEERING.values() if one.is_option},
    )


def _refuse_beside_whole(options: Options) -> None:
    for name in options.given_names:
        if name not in _BESIDE_WHOLE and options.text(name) is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION",
                f"option '{name}' is given beside option 'query'; put it into the query",
            )


def _require_one_version(options: Options) -> None:
    naming = ("versionAsOf", "timestampAsOf", "tag")
    given = [f"'{name}'" for name in naming if options.text(name) is not None]
    if len(given) > 1:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION", f"options {' and '.join(given)} each name a version; give one"
        )


def _require_one_answer(request: ReadRequest, options: Options) -> None:
    """Refuse options of a query where a metadata table is read, instead of ignoring them."""
    if request.metadata_table is not None:
        for name in options.given_names:
            if name not in _OF_METADATA and options.text(name) is not None:
                raise InvalidInputError(
                    "PROJSEG_BAD_OPTION",
                    f"option '{name}' is of a query and metadata table '{request.metadata_table}' "
                    "is none; leave one out, and select and filter the table's rows in Spark",
                )
    if request.query.is_partial and request.query.is_row_scan:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "option 'aggregation' is 'partial' and nothing is aggregated; give 'groupBy' or "
            "'aggregators', or leave it out to read rows",
        )


@dataclass(frozen=True)
class StreamRequest:
    """A stream of the rows of one table.

    New rows are read from `version` on, or from the first version committed at or after
    `timestamp`, an ISO 8601 instant; otherwise all rows of the newest come first. A batch has at
    most `segments_max` segments. Versions that deleted or replaced rows are errors unless ignored.
    """

    rows: ReadRequest
    version: int | str | None = None
    timestamp: str | None = None
    segments_max: int | None = None
    ignores_deletes: bool = False
    ignores_changes: bool = False


def has_stream_options(given: Mapping[str, str]) -> bool:
    """Whether some of the options have a meaning in a stream only."""
    return not STREAM_NAMES.isdisjoint(Options(given).given_names)


def parse_stream_request(given: Mapping[str, str]) -> StreamRequest:
    """Read and check the options of one stream."""
    options = Options(given)
    for name in options.given_names:
        if name not in OF_STREAMS and options.text(name) is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION",
                f"option '{name}' has no meaning in a stream, which reads new rows of one table as "
                "they are; leave it out, and group and join in Spark",
            )
    stream_names = {name.lower() for name in STREAM_NAMES}
    rows = {name: text for name, text in given.items() if name.lower() not in stream_names}
    return StreamRequest(
        rows=parse_read_request(rows),
        version=_version(options),
        timestamp=_timestamp(options),
        segments_max=_count(options, "maxSegmentsPerTrigger"),
        ignores_deletes=options.flag("ignoreDeletes"),
        ignores_changes=options.flag("ignoreChanges"),
    )


def _version(options: Options) -> int | str | None:
    text = options.text("startingVersion")
    if text is None or text.strip().lower() == LATEST:
        return None if text is None else LATEST
    if not text.strip().isdecimal():
        raise bad_value("startingVersion", text, "a version's number, or 'latest'")
    return int(text)


def _timestamp(options: Options) -> str | None:
    text = options.text("startingTimestamp")
    if text is not None and options.text("startingVersion") is not None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "options 'startingVersion' and 'startingTimestamp' each say where to start; give one",
        )
    return text
