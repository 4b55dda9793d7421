"""The request of one `spark.readStream...load()`, as plain text that can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from projseg.errors import InvalidInputError
from projseg.spark_datasource.options import Options, bad_value
from projseg.spark_datasource.reads.read_request import ReadRequest, parse_read_request
from projseg.spark_datasource.reads.stream_options import OF_STREAMS, STREAM_NAMES

LATEST: Final = "latest"


@dataclass(frozen=True)
class StreamRequest:
    """A stream of the rows of one table.

    Parameters
    ----------
    rows : ReadRequest
        What is read of each segment.
    version : int, "latest" or None
        The first version whose new rows are read; None: all rows of the newest come first.
    timestamp : str or None
        Start at the first version committed at or after this ISO 8601 instant.
    segments_max : int or None
        The most segments of one batch.
    ignores_deletes, ignores_changes : bool
        Whether versions that took rows away, or replaced some, are no error.
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
    """Read and check the options of one stream.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_OPTION, PROJSEG_BAD_OPTION or PROJSEG_PATH_MISSING.
    """
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
        segments_max=_segments_max(options),
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


def _segments_max(options: Options) -> int | None:
    many = options.integer("maxSegmentsPerTrigger")
    if many is not None and many < 1:
        raise bad_value("maxSegmentsPerTrigger", str(many), "1 or more")
    return many
