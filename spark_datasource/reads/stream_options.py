"""The options of `spark.readStream.format("projseg")`."""

from __future__ import annotations

from typing import Final

from projseg.spark_datasource.option_record import Option, OptionKind


def _of_stream(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=False, is_for_write=False, meaning=meaning)


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
STREAM_NAMES: Final = frozenset(option.name for option in STREAM_OPTIONS)

SHARED_WITH_READS: Final = frozenset(
    {"path", "paths", "columns", "filter", "interval", "timezone", "threads", "fillMissingColumns"}
    | {"parallelism"}
)
"""Options of reads that mean the same in a stream, which reads rows and no older version."""

OF_STREAMS: Final = STREAM_NAMES | SHARED_WITH_READS
