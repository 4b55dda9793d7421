"""Every error this package raises on purpose, and the registry of their codes.

ProjsegError
├── CorruptionError              stored bytes break SPEC.md; never retry, never guess
│   ├── CorruptSegmentError
│   └── CorruptTableError
├── UnsupportedFeatureError      the bytes may be valid, but not for this reader
├── LimitExceededError           honouring the request would pass a stated limit
├── InvalidInputError            the caller's data or options are wrong (also ValueError)
│   └── ProjectionNotUsableError useProjection or forceProjections cannot be met
├── EvaluationError              Spark's ANSI mode would refuse this value (also ArithmeticError)
└── CommitError
    ├── CommitConflictError      someone else won; safe to retry
    └── CommitStateUnknownError  it may have landed; look before you retry

A message is one line that says what was asked, what was found and what to do. Codes are stable;
`CODES` is the one list of them, from which the error reference is made.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

CODES: Final[dict[str, str]] = {
    "PROJSEG_BAD_ARGUMENT": "An argument of a call lies outside its stated range.",
    "PROJSEG_UNKNOWN_COLUMN": "A name is not a column of the table, nor an output of the query.",
    "PROJSEG_BAD_EXPRESSION": "An expression is not valid Spark SQL, or its types do not fit.",
    "PROJSEG_UNSUPPORTED_FUNCTION": "An expression uses a function or syntax unknown to projseg.",
    "PROJSEG_BAD_PERIOD": "A text is not an ISO 8601 period.",
    "PROJSEG_BAD_GRANULARITY": "A text is neither a granularity's name nor a period that can cut time.",
    "PROJSEG_BAD_INTERVAL": "An interval is malformed, reversed, or leaves years 1 to 9999.",
    "PROJSEG_UNKNOWN_TIME_ZONE": "A time zone is neither an offset nor a known region.",
    "PROJSEG_EVALUATION_OVERFLOW": "A computed value does not fit its type.",
    "PROJSEG_EVALUATION_DIVIDE_BY_ZERO": "An expression divides by zero.",
    "PROJSEG_EVALUATION_BAD_CAST": "A value cannot be cast to the type asked for.",
    "PROJSEG_EVALUATION_BAD_ARGUMENT": "A function met an argument outside its domain.",
}


class ProjsegError(Exception):
    """Base of every deliberate projseg error.

    Parameters
    ----------
    code : str
        A key of `CODES`.
    message : str
        One self-contained line.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


class CorruptionError(ProjsegError):
    """Stored bytes contradict SPEC.md."""


class CorruptSegmentError(CorruptionError):
    """A byte of a segment file contradicts SPEC.md; the message says which file, section, offset."""


class CorruptTableError(CorruptionError):
    """A snapshot or manifest contradicts SPEC.md, or a file that it lists is missing."""


class UnsupportedFeatureError(ProjsegError):
    """The file, type or expression may be valid, but this release does not know it."""


class LimitExceededError(ProjsegError):
    """Refused before allocating: a declared size passes a limit of `limits.py`."""


class InvalidInputError(ProjsegError, ValueError):
    """The caller's data, options or declarations are wrong."""


class ProjectionNotUsableError(InvalidInputError):
    """`useProjection` or `forceProjections` was asked for and cannot be met."""


class EvaluationError(ProjsegError, ArithmeticError):
    """An expression met a value for which Spark's ANSI mode raises: overflow, bad cast, x / 0."""


class CommitError(ProjsegError):
    """The commit did not happen; nothing committed before is harmed."""


class CommitConflictError(CommitError):
    """Another writer changed what this commit depends on; safe to retry from a new snapshot."""


class CommitStateUnknownError(CommitError):
    """The commit may have landed; read the table's history before retrying."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the nearest known name, or an empty string."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    return f"; did you mean '{by_fold[near[0]]}'?" if near else ""
