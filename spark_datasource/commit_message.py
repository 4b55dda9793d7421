"""The message from a task to the commit: the segments that it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import zstandard
from pyspark.sql.datasource import WriterCommitMessage

from projseg import __version__
from projseg.errors import InvalidInputError, LimitExceededError
from projseg.table_layer.metadata_limits import METADATA_BYTES_MAX
from projseg.table_layer.segment_entry import SegmentEntry

_ENTRIES: Final = msgspec.json.Decoder(list[SegmentEntry])


@dataclass(frozen=True)
class SegmentsWritten(WriterCommitMessage):
    """The segments that one task attempt wrote.

    Parameters
    ----------
    entries : bytes
        Its manifest entries, as zstandard over JSON: a task of many segments stays far below the
        64 KiB that a commit message should not pass.
    release : str
        The projseg release that wrote them.
    """

    entries: bytes
    release: str

    @classmethod
    def of(cls, entries: Sequence[SegmentEntry]) -> SegmentsWritten:
        """Return the message for these segments.

        Raises
        ------
        LimitExceededError
            If `unpacked` would not take it.
        """
        text = msgspec.json.encode(list(entries))
        if len(text) > METADATA_BYTES_MAX:
            raise LimitExceededError(
                "PROJSEG_METADATA_TOO_LARGE",
                f"a task wrote {len(entries)} segments, {len(text)} bytes to list and at most "
                f"{METADATA_BYTES_MAX} are read; write with more tasks or larger segments",
            )
        return cls(zstandard.compress(text), __version__)

    def unpacked(self) -> list[SegmentEntry]:
        """Return the segments, checked as far as their types go.

        Raises
        ------
        LimitExceededError
            Before memory is taken for more than `METADATA_BYTES_MAX`.
        InvalidInputError
            PROJSEG_BAD_COMMIT_ENTRY if these are not the bytes of such a message.
        """
        try:
            # zstandard allocates what the frame declares; one that declares nothing says 2**64 - 1.
            declared = zstandard.get_frame_parameters(self.entries).content_size
            if declared > METADATA_BYTES_MAX:
                raise LimitExceededError(
                    "PROJSEG_METADATA_TOO_LARGE",
                    f"a task's commit message declares {declared} bytes; at most "
                    f"{METADATA_BYTES_MAX} are read: write again",
                )
            return _ENTRIES.decode(zstandard.decompress(self.entries))
        except (zstandard.ZstdError, msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInputError(
                "PROJSEG_BAD_COMMIT_ENTRY",
                f"a task's commit message cannot be read: {error}; write again, with one release "
                "of projseg on all executors",
            ) from error
