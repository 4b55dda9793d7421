"""How much text one evaluation may make; functions that lengthen text check it before they do.

A few bytes of a file or a query can stand for any amount of text: by `repeat` or `lpad`, or by one
long text of a dictionary that is joined with a number of each row. Callers that evaluate many rows
try fewer rows at a time when `TextsTooLargeError` is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from projseg.errors import LimitExceededError

TEXT_BYTES_MAX: Final = 16 << 20
"""Bytes of text that a call may make for several rows; more if its arguments are that large."""

_GROWTH_MAX: Final = 2  # times what the arguments take


class TextsTooLargeError(LimitExceededError):
    """The texts of several rows take too much memory together; those of fewer rows may fit."""


def texts_too_large(row_count: int) -> TextsTooLargeError:
    """Return the error of an evaluation over `row_count` rows."""
    return TextsTooLargeError(
        "PROJSEG_TEXT_TOO_LONG",
        f"an expression makes too much text of {row_count} rows; use fewer rows or shorter texts",
    )


def text_limit(arguments: Sequence[pa.Array | pa.Scalar]) -> int:
    """Return how many bytes of text a call may make from these arguments."""
    taken: int = sum(a.nbytes for a in arguments if isinstance(a, pa.Array))
    return max(TEXT_BYTES_MAX, _GROWTH_MAX * taken)


def check_text_bytes(
    byte_count: int, arguments: Sequence[pa.Array | pa.Scalar], row_count: int
) -> None:
    """Refuse to make `byte_count` bytes of text if that is too much, except for a single row.

    Raises
    ------
    TextsTooLargeError
        If the texts exceed `text_limit` and there are several rows.
    """
    if row_count > 1 and byte_count > text_limit(arguments):
        raise texts_too_large(row_count)
