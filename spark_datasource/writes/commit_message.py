"""The message from a task to the commit: the segments that it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from projseg import __version__
from projseg.table_layer.metadata.entry_codec import packed, unpacked
from projseg.table_layer.metadata.segment_entry import SegmentEntry


@dataclass(frozen=True)
class SegmentsWritten(WriterCommitMessage):
    """The segments that one task attempt wrote.

    Parameters
    ----------
    entries : bytes
        Its manifest entries, packed: a task of many segments stays far below the 64 KiB that a
        commit message should not pass.
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
            As of `packed`.
        """
        return cls(packed(entries), __version__)

    def unpacked(self) -> list[SegmentEntry]:
        """Return the segments.

        Raises
        ------
        LimitExceededError, InvalidInputError
            As of `unpacked`.
        """
        return unpacked(self.entries)
