"""The table of options of `format("projseg")`, and those that only the extension sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from projseg.algebra.query.context import HINTS, STEERING

WORK_OPTION: Final = "projseg.work"
"""What the extension sets for a read whose tasks write segments."""
COMPACT_SINCE: Final = "projseg.compactsince"
"""What the extension sets for a write after which it compacts the table itself."""

ROW_NUMBERS: Final = "projseg.rownumbers"
"""What the extension sets for a read that returns the numbers of rows."""
ROW_NUMBER: Final = "__projseg_row"
"""The column that it returns them in."""
ROW_CHANGE: Final = "projseg.change"
"""What the extension sets for a write that changes rows by their numbers."""
WRITE_PLAN: Final = "projseg.plan"
"""What the extension sets for a write by the name that a catalog gives a table."""
TABLE_PROPERTIES: Final = "projseg.properties"
"""What the extension sets for a write that may make the table of a catalog's entry."""
EXTERNAL_FILES: Final = "projseg.external"
"""What the extension sets for a read of files from outside."""
HINT_PREFIX: Final = "projseg.hint."
"""Before the option, in lower case, by which the extension says a hint."""
# Beside these that the version it names is pinned, and what hints say.
ADDED_BY_EXTENSION: Final = frozenset(
    {
        "projseg.pinned",
        "projseg.view",
        WORK_OPTION,
        COMPACT_SINCE,
        ROW_CHANGE,
        ROW_NUMBERS,
        WRITE_PLAN,
        TABLE_PROPERTIES,
        EXTERNAL_FILES,
        *(f"{HINT_PREFIX}{one.key.lower()}" for one in HINTS.values()),
    }
)

_SHARED_WITH_READS: Final = frozenset(
    {"path", "paths", "columns", "filter", "interval", "timezone", "threads", "fillMissingColumns"}
    | {"parallelism"}
)
"""Options of reads that mean the same in a stream, which reads rows and no older version."""


class OptionKind(Enum):
    """How an option's text is read."""

    TEXT = "text"
    LIST = "list"
    FLAG = "true or false"
    INTEGER = "integer"


@dataclass(frozen=True)
class Option:
    """One option: its documented name, how its text is read, whose it is, and what it does."""

    name: str
    kind: OptionKind
    is_for_read: bool
    is_for_write: bool
    meaning: str


def _of_stream(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=False, is_for_write=False, meaning=meaning)


def _read(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=True, is_for_write=False, meaning=meaning)


def _write(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=False, is_for_write=True, meaning=meaning)


def _both(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=True, is_for_write=True, meaning=meaning)


def _steering() -> Iterator[Option]:
    """Yield the steering options; a write has times to read in a zone, too."""
    for one in STEERING.values():
        if one.is_option:
            kind = OptionKind[one.form.takes.upper()]
            is_for_write = one.key == "timezone"
            yield Option(one.key, kind, True, is_for_write, one.meaning)


STREAM_OPTIONS: Final[tuple[Option, ...]] = (
    _of_stream(
        "startingVersion",
        OptionKind.TEXT,
        "The first version whose new rows are read, or `latest`; all rows there are if left out.",
    ),
    _of_stream(
        "startingTimestamp",
        OptionKind.TEXT,
        "Start at the first version committed at or after this time.",
    ),
    _of_stream(
        "maxSegmentsPerTrigger",
        OptionKind.INTEGER,
        "The most segments of one batch, from Spark 4.2 on; all that are there if left out.",
    ),
    _of_stream(
        "ignoreDeletes",
        OptionKind.FLAG,
        "Pass over versions that only took rows away, instead of stopping.",
    ),
    _of_stream(
        "ignoreChanges",
        OptionKind.FLAG,
        "Also read versions that replaced rows: all segments they added, old rows among them.",
    ),
)

OPTIONS: Final[tuple[Option, ...]] = (
    _both(
        "path",
        OptionKind.TEXT,
        "The table's location, a directory or `file:` URI; `#segments` and the like read metadata.",
    ),
    _both(
        "paths",
        OptionKind.TEXT,
        "What Spark makes of `load([...])`: a JSON array with one location.",
    ),
    _read(
        "query",
        OptionKind.TEXT,
        "A whole query as JSON, as `Query.to_json` writes it, instead of the options below.",
    ),
    _read(
        "groupBy",
        OptionKind.LIST,
        "Grouping columns, `expression [AS name]` each.",
    ),
    _read(
        "aggregators",
        OptionKind.LIST,
        "Aggregates, `sum(added) FILTER (WHERE ...) AS added` each.",
    ),
    _read(
        "aggregation",
        OptionKind.TEXT,
        "`final` (default): one row a group; `partial`: states for each group and task.",
    ),
    _read(
        "granularity",
        OptionKind.TEXT,
        "Druid's name or an ISO period: groups by the floored time column first.",
    ),
    _read(
        "filter",
        OptionKind.TEXT,
        "Keeps rows for which this condition is true.",
    ),
    _read(
        "interval",
        OptionKind.TEXT,
        "Half-open range of the time column, `2015-09-12/2015-09-13` or with a period.",
    ),
    _read(
        "columns",
        OptionKind.LIST,
        "Columns or expressions of a row scan; all columns if left out.",
    ),
    *_steering(),
    _read(
        "parallelism",
        OptionKind.INTEGER,
        "Tasks that run at once and share the rows; the driver's processors if left out.",
    ),
    _read(
        "versionAsOf",
        OptionKind.INTEGER,
        "The table version to read; the newest if left out.",
    ),
    _read(
        "timestampAsOf",
        OptionKind.TEXT,
        "Read the newest version committed at or before this time.",
    ),
    _read(
        "tag",
        OptionKind.TEXT,
        "Read the table version that has this name.",
    ),
    _read(
        "fillMissingColumns",
        OptionKind.FLAG,
        "Columns of a given schema that the answer lacks are null instead of an error.",
    ),
    _read(
        "metadataTable",
        OptionKind.TEXT,
        "The rows of a metadata table, in place of the table's; they are listed below.",
    ),
    _read(
        "explain",
        OptionKind.FLAG,
        "Return the plan as rows instead of the answer.",
    ),
    _write(
        "timeColumn",
        OptionKind.TEXT,
        "The column that intervals and segment granularity go by.",
    ),
    _write(
        "segmentGranularity",
        OptionKind.TEXT,
        "A segment lies within one such chunk of time; `all` if left out.",
    ),
    _write(
        "clusterBy",
        OptionKind.LIST,
        "Sort order of a segment's rows; time is last unless it is named.",
    ),
    _write(
        "targetSegmentRows",
        OptionKind.INTEGER,
        "Rows at which a segment is full; 3,000,000 if left out.",
    ),
    _write(
        "projections",
        OptionKind.TEXT,
        "A JSON array of projection declarations, in any of the three forms.",
    ),
    _write(
        "indexes",
        OptionKind.TEXT,
        "A JSON array of index declarations: name, columns, kind, fpp, postings.",
    ),
    _write(
        "replaceInterval",
        OptionKind.TEXT,
        "With mode `overwrite`: replace exactly this interval.",
    ),
    _write(
        "replaceWhere",
        OptionKind.TEXT,
        "With mode `overwrite`: replace exactly the rows for which this condition is true.",
    ),
    _write(
        "ifExists",
        OptionKind.TEXT,
        "Where a table is there: `append` (default), `error`, or `ignore` to write nothing.",
    ),
    _write(
        "mergeSchema",
        OptionKind.FLAG,
        "Add columns that the table lacks, and widen those whose rows have a wider type.",
    ),
    _write(
        "overwriteSchema",
        OptionKind.FLAG,
        "With mode `overwrite`: put the columns of the rows in place of the table's.",
    ),
    _write(
        "userName",
        OptionKind.TEXT,
        "Who writes, for the table's history; it is not found out otherwise.",
    ),
    _write(
        "userMetadata",
        OptionKind.TEXT,
        "Any text, for the table's history.",
    ),
    _write(
        "txnAppId",
        OptionKind.TEXT,
        "With `txnVersion`: names the application, so that a repeated write does nothing.",
    ),
    _write(
        "txnVersion",
        OptionKind.INTEGER,
        "The application's number of this write; lower or equal ones are done already.",
    ),
    *STREAM_OPTIONS,
)
STREAM_NAMES: Final = frozenset(option.name for option in STREAM_OPTIONS)

OF_STREAMS: Final = STREAM_NAMES | _SHARED_WITH_READS
