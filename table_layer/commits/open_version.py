"""Open the table version that a caller means: by its number, or by an instant."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, datetime
from typing import Final, TypeAlias

from msgspec import UNSET

from projseg.algebra.time.interval import Interval, micros_to_iso
from projseg.errors import InvalidInputError
from projseg.memory.forks import late_import
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.versions_and_tags import (
    latest_version,
    list_versions,
    tagged_version,
)
from projseg.table_layer.storage.storage_contract import Storage

InstantLike: TypeAlias = str | date | datetime
_STATES_FROM: Final = 1 << 40  # as in `source_state`
INSTANT_FORM: Final = "an ISO 8601 time, such as 2015-09-12T00:00Z or 2015-09-12 02:00:00+02:00"


def open_as_of(
    storage: Storage,
    version: int | None = None,
    timestamp: InstantLike | None = None,
    tag: str | None = None,
) -> Snapshot:
    """Pin a version by its number, an instant or a tag, the newest by default.

    An instant, without a zone in UTC, chooses the newest version committed at or before it. The
    newest of a table over a source is pinned with what the source lists now.
    """
    named = {"version": version, "timestamp": timestamp, "tag": tag}
    given = [f"{what} '{value}'" for what, value in named.items() if value is not None]
    if len(given) > 1:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"{' and '.join(given)} each name a version of {storage.location}; give one",
        )
    if timestamp is not None:
        return version_at(storage, instant_us(timestamp))
    if tag is not None:
        version = tagged_version(open_snapshot(storage).tags, tag, storage.location)
    if isinstance(version, int) and version >= _STATES_FROM:
        with late_import:
            from projseg.table_layer.foreign.source_state import open_numbered

        return open_numbered(storage, version)
    found = open_snapshot(storage, version)
    if version is None and found.properties.source is not UNSET:
        # Imported here, so that tables without a source are opened without it.
        with late_import:
            from projseg.table_layer.foreign.source_state import at_source

        return at_source(found)
    return found


def instant_us(timestamp: InstantLike, timezone: str = "UTC") -> int:
    """Return an instant, of which a text is ISO 8601, in microseconds UTC."""
    try:
        return Interval.parse((timestamp, timestamp), timezone).start_us
    except InvalidInputError as error:
        if error.code not in ("PROJSEG_BAD_INTERVAL", "PROJSEG_BAD_PERIOD"):
            raise
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"timestamp '{timestamp}' is not {INSTANT_FORM}"
        ) from None


def version_at(storage: Storage, instant: int) -> Snapshot:
    """Pin the newest version committed at or before an instant, in microseconds UTC.

    No version states an earlier time than the one before it, so a few are read and not all.
    """
    newest = latest_version(storage)
    oldest = min(list_versions(storage), default=newest)
    versions = range(oldest, newest + 1)
    earlier = bisect_right(versions, instant, key=lambda v: open_snapshot(storage, v).timestamp_us)
    if earlier == 0:
        first = micros_to_iso(open_snapshot(storage, oldest).timestamp_us)
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VERSION",
            f"table {storage.location} keeps no version committed at or before "
            f"{micros_to_iso(instant)}; its oldest is version {oldest} of {first}: ask for that "
            "time or a later one",
        )
    return open_snapshot(storage, versions[earlier - 1])
