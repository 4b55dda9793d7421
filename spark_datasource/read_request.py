"""What one `spark.read...load()` asks for, as plain text that pickles.

Spark reads options in one process, plans in a second and runs tasks in others; what travels between
them is this, and each side binds it to the pinned snapshot anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from projseg.errors import InvalidInputError
from projseg.spark_datasource.options import Options, parse_choice
from projseg.spark_datasource.table_location import read_location
from projseg.table_layer.storage import is_uri
from projseg.table_layer.versions import is_table

METADATA_TABLES: Final = ("segments", "projections", "projectionStats", "columns", "history")
_AGGREGATIONS: Final = ("final", "partial")
# Options that a read of a metadata table has a use for.
_OF_METADATA: Final = frozenset(
    {"path", "paths", "metadataTable", "versionAsOf", "timestampAsOf", "timezone"}
    | {"fillMissingColumns"}
)


@dataclass(frozen=True)
class ReadRequest:
    """One scan of one table.

    Parameters
    ----------
    location : str
        The table's location, without a metadata suffix.
    version : int or None
        The table version to read; None means the newest, until planning pins it.
    timestamp : str or None
        Read the version that was current at this ISO 8601 instant.
    metadata_table : str or None
        One of `METADATA_TABLES`: rows about the table instead of its rows.
    is_explain : bool
        Rows of the plan instead of its answer.
    is_partial : bool
        One row for each group and task, instead of one for each group.
    group_by, aggregators : tuple of str
        SQL text; both empty means a row scan.
    granularity, filter, interval : str or None
        As in the options of the same names.
    columns : tuple of str or None
        Columns of a row scan; None means all.
    fills_missing : bool
        Whether columns that Spark wants and the answer lacks are null.
    context : tuple of (str, object)
        Context flags, as `Table.query` takes them.
    """

    location: str
    version: int | None = None
    timestamp: str | None = None
    metadata_table: str | None = None
    is_explain: bool = False
    is_partial: bool = False
    group_by: tuple[str, ...] = ()
    aggregators: tuple[str, ...] = ()
    granularity: str | None = None
    filter: str | None = None
    interval: str | None = None
    columns: tuple[str, ...] | None = None
    fills_missing: bool = False
    context: tuple[tuple[str, Any], ...] = ()

    def pinned(self, version: int) -> ReadRequest:
        """Return the same request of exactly one table version."""
        return replace(self, version=version, timestamp=None)

    @property
    def timezone(self) -> str | None:
        """The time zone that the options name."""
        return dict(self.context).get("timezone")

    def in_zone(self, zone: str) -> ReadRequest:
        """Return the same request, asked in a time zone."""
        others = tuple(item for item in self.context if item[0] != "timezone")
        return replace(self, context=(*others, ("timezone", zone)))

    def query_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `bind_query`."""
        return {
            "group_by": self.group_by,
            "aggregators": self.aggregators,
            "granularity": self.granularity,
            "filter": self.filter,
            "interval": self.interval,
            "columns": self.columns,
            "context": dict(self.context),
        }


def parse_read_request(given: Mapping[str, str]) -> ReadRequest:
    """Read and check the options of one load.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_OPTION, PROJSEG_BAD_OPTION or PROJSEG_PATH_MISSING.
    """
    options = Options(given)
    options.require_readable()
    location, metadata_table = _split_suffix(read_location(options))
    asked_table = options.choice("metadataTable", METADATA_TABLES)
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
        metadata_table=metadata_table,
        is_explain=options.flag("explain"),
        is_partial=options.choice("aggregation", _AGGREGATIONS) == "partial",
        group_by=options.list("groupBy") or (),
        aggregators=options.list("aggregators") or (),
        granularity=options.text("granularity"),
        filter=options.text("filter"),
        interval=options.text("interval"),
        columns=options.list("columns"),
        fills_missing=options.flag("fillMissingColumns"),
        context=tuple(_context(options)),
    )
    _require_one_version(request)
    _require_one_answer(request, options)
    return request


def _split_suffix(location: str) -> tuple[str, str | None]:
    """Divide a location from the metadata table that it names, unless a table is right there."""
    base, mark, suffix = location.rpartition("#")
    if not mark or (not is_uri(location) and is_table(location)):
        return location, None
    return base, parse_choice("metadataTable", suffix, METADATA_TABLES)


def _context(options: Options) -> list[tuple[str, Any]]:
    given: dict[str, Any] = {
        "useProjection": options.text("useProjection"),
        "forceProjections": options.flag("forceProjections") or None,
        "noProjections": options.flag("noProjections") or None,
        "excludeProjections": options.list("excludeProjections"),
        "timezone": options.text("timezone"),
        "threads": options.integer("threads"),
    }
    return [(name, value) for name, value in given.items() if value is not None]


def _require_one_version(request: ReadRequest) -> None:
    if request.version is not None and request.timestamp is not None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "options 'versionAsOf' and 'timestampAsOf' both name a version; give one",
        )


def _require_one_answer(request: ReadRequest, options: Options) -> None:
    """Refuse options of a query where no query is asked, rather than pass over them."""
    if request.metadata_table is not None:
        for name in options.given_names:
            if name not in _OF_METADATA and options.text(name) is not None:
                raise InvalidInputError(
                    "PROJSEG_BAD_OPTION",
                    f"option '{name}' is of a query and metadata table '{request.metadata_table}' "
                    "is none; leave one out, and select and filter the table's rows in Spark",
                )
    is_row_scan = not (request.group_by or request.aggregators or request.granularity)
    if request.is_partial and is_row_scan:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "option 'aggregation' is 'partial' and nothing is aggregated; give 'groupBy' or "
            "'aggregators', or leave it out to read rows",
        )
