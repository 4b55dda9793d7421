"""What a commit says of itself besides its change: who, with what, and on which version."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from projseg import __version__
from projseg.errors import HALF_A_CHARACTER, InvalidInputError, LimitExceededError, is_storable
from projseg.table_layer.metadata.metadata_limits import COMMIT_TEXT_BYTES_MAX
from projseg.table_layer.metadata.segment_entry import Count

COMMIT_INFO: Final = "commit_info"
"""The feature that a snapshot names if it holds `CommitInfo`."""


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a snapshot states of its commit, for the table's history.

    Parameters
    ----------
    read_version : int or None
        The version that the change was made for; None for a new table.
    parameters : dict of str to str
        What the operation was asked to do.
    user_name, user_metadata : str or None
        As the caller gave them.
    engine : str
        The software that committed.
    """

    read_version: Count | None
    parameters: dict[str, str]
    user_name: str | None
    user_metadata: str | None
    engine: str


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What a caller wants the history to say of a commit.

    Parameters
    ----------
    parameters : mapping of str to str
        What the operation was asked to do.
    user_name, user_metadata : str or None
        Given by the user, never guessed.

    Raises
    ------
    LimitExceededError
        If a text is too long for a table's metadata.
    InvalidInputError
        PROJSEG_BAD_ARGUMENT if it is no text, or has no form in UTF-8.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    user_name: str | None = None
    user_metadata: str | None = None

    def __post_init__(self) -> None:
        texts = {"user name": self.user_name, "user metadata": self.user_metadata}
        for what, text in {**texts, **self.parameters}.items():
            if text is not None and not isinstance(text, str):
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT", f"{what} of a commit is {text!r}, not a text"
                )
            if text is not None and not is_storable(text):
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT", f"{what} of a commit {HALF_A_CHARACTER}: {text!r}"
                )
            if text is not None and len(text.encode()) > COMMIT_TEXT_BYTES_MAX:
                raise LimitExceededError(
                    "PROJSEG_METADATA_TOO_LARGE",
                    f"{what} of a commit has {len(text.encode())} bytes; a table's history keeps "
                    f"at most {COMMIT_TEXT_BYTES_MAX}",
                )

    def asking(self, **parameters: str | None) -> CommitNote:
        """Return this note of an operation with parameters; those that are None are left out."""
        given = {name: text for name, text in parameters.items() if text is not None}
        return CommitNote(given, self.user_name, self.user_metadata)

    def info(self, read_version: int) -> CommitInfo:
        """Return what the snapshot is to state; below 0 there is no version that was read."""
        return CommitInfo(
            read_version=read_version if read_version >= 0 else None,
            parameters=dict(self.parameters),
            user_name=self.user_name,
            user_metadata=self.user_metadata,
            engine=f"projseg {__version__}",
        )


NO_NOTE: Final = CommitNote()


def now_us() -> int:
    """Return this machine's time, microseconds UTC."""
    return time.time_ns() // 1000
