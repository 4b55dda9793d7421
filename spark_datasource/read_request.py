"""What one `spark.read...load()` asks for, as plain text that pickles.

Spark reads options in one process, plans in a second and runs tasks in others; what travels between
them is this, and each side binds it to the pinned snapshot anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from projseg.errors import InvalidInputError, did_you_mean
from projseg.spark_datasource.options import Options

METADATA_TABLES: Final = ("segments", "projections", "projectionStats", "columns", "history")
_AGGREGATIONS: Final = ("final", "partial")


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
    context: tuple[tuple[str, Any], ...] = ()

    def pinned(self, version: int) -> ReadRequest:
        """Return the same request of exactly one table version."""
        return replace(self, version=version, timestamp=None)

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
    location, metadata_table = _split_suffix(location_of(options))
    asked_table = options.text("metadataTable")
    if asked_table is not None:
        metadata_table = _choice("metadataTable", asked_table, METADATA_TABLES)
    aggregation = _choice("aggregation", options.text("aggregation") or "final", _AGGREGATIONS)
    request = ReadRequest(
        location=location,
        version=options.integer("versionAsOf"),
        timestamp=options.text("timestampAsOf"),
        metadata_table=metadata_table,
        is_explain=options.flag("explain"),
        is_partial=aggregation == "partial",
        group_by=options.list("groupBy") or (),
        aggregators=options.list("aggregators") or (),
        granularity=options.text("granularity"),
        filter=options.text("filter"),
        interval=options.text("interval"),
        columns=options.list("columns"),
        context=tuple(_context(options)),
    )
    _require_one_version(request)
    return request


def location_of(options: Options) -> str:
    """Return the one table location that the options name.

    Raises
    ------
    InvalidInputError
        PROJSEG_PATH_MISSING, or PROJSEG_BAD_OPTION for several locations.
    """
    path, paths = options.text("path"), options.text("paths")
    if paths is not None:
        locations = json.loads(paths)
        if not isinstance(locations, list) or len(locations) != 1:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION",
                f"load() was given the locations {paths}; projseg reads one table at a time, so "
                "load each and union them",
            )
        path = str(locations[0])
    if path is None:
        raise InvalidInputError(
            "PROJSEG_PATH_MISSING",
            "no table location was given; use load('/path') or save('/path'), or in SQL a "
            "TEMPORARY VIEW ... USING projseg OPTIONS (path '/path'), or SELECT ... FROM t WITH "
            "(path = '/path') and INSERT INTO t WITH (path = '/path'), since Spark does not hand a "
            "catalog table's options over",
        )
    return path


def _split_suffix(location: str) -> tuple[str, str | None]:
    base, mark, suffix = location.rpartition("#")
    if not mark:
        return location, None
    return base, _choice("metadataTable", suffix, METADATA_TABLES)


def _choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    by_folded = {choice.lower(): choice for choice in allowed}
    chosen = by_folded.get(text.strip().lower())
    if chosen is None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option '{name}' is '{text}'; it must be one of {', '.join(allowed)}"
            f"{did_you_mean(text, allowed)}",
        )
    return chosen


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
