"""Segment entries as few bytes, to travel between a driver and its tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import zstandard

from projseg.errors import InvalidInputError, LimitExceededError
from projseg.table_layer.metadata.metadata_limits import METADATA_BYTES_MAX
from projseg.table_layer.metadata.segment_entry import SegmentEntry

LOGGER: Final = logging.getLogger("projseg.spark")

_ENTRIES: Final = msgspec.json.Decoder(list[SegmentEntry])


def packed(entries: Sequence[SegmentEntry]) -> bytes:
    """Return entries as zstandard over JSON.

    Raises
    ------
    LimitExceededError
        If `unpacked` would not take them.
    """
    text = msgspec.json.encode(list(entries))
    if len(text) > METADATA_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_METADATA_TOO_LARGE",
            f"a task has {len(entries)} segments, {len(text)} bytes to list and at most "
            f"{METADATA_BYTES_MAX} are read; write with more tasks or larger segments",
        )
    return zstandard.compress(text)


def unpacked(entries: bytes) -> list[SegmentEntry]:
    """Return entries, checked as far as their types go.

    Raises
    ------
    LimitExceededError
        Before memory is taken for more than `METADATA_BYTES_MAX`.
    InvalidInputError
        PROJSEG_BAD_COMMIT_ENTRY if these are not bytes of `packed`.
    """
    try:
        # zstandard allocates what the frame declares; one that declares nothing says 2**64 - 1.
        declared = zstandard.get_frame_parameters(entries).content_size
        if declared > METADATA_BYTES_MAX:
            raise LimitExceededError(
                "PROJSEG_METADATA_TOO_LARGE",
                f"a task's commit message declares {declared} bytes; at most "
                f"{METADATA_BYTES_MAX} are read: write again",
            )
        return _ENTRIES.decode(zstandard.decompress(entries))
    except (zstandard.ZstdError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_COMMIT_ENTRY",
            f"a task's commit message cannot be read: {error}; write again, with one release "
            "of projseg on all executors",
        ) from error


def warn_of_releases(releases: Iterable[str]) -> None:
    """Say so if several releases wrote."""
    if len(set(releases)) > 1:
        LOGGER.warning("executors run different releases of projseg; install one everywhere")
