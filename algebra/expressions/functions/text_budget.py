"""How much text one evaluation may make: functions that lengthen text ask before they do.

A few bytes of a file, or of a query, may stand for any amount of text: `repeat`, `lpad`, or the one
long text of a dictionary beside the number of each row. Who evaluates over many rows takes
`TextsTooLargeError` as the word to try fewer of them at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from projseg.errors import LimitExceededError

TEXT_BYTES_MAX: Final = 16 << 20
"""Text that a call may make of several rows, unless its arguments take about as much."""

_GROWTH_MAX: Final = 2  # times what the arguments take


class TextsTooLargeError(LimitExceededError):
    """The texts of several rows take too much together; those of fewer rows may not."""


def texts_too_large(row_count: int) -> TextsTooLargeError:
    """Return the error of so many rows."""
    return TextsTooLargeError(
        "PROJSEG_TEXT_TOO_LONG",
        f"an expression makes too much text of {row_count} rows; use fewer rows or shorter texts",
    )


def text_limit(arguments: Sequence[pa.Array | pa.Scalar]) -> int:
    """Return how many bytes of text a call may make of these arguments."""
    taken: int = sum(a.nbytes for a in arguments if isinstance(a, pa.Array))
    return max(TEXT_BYTES_MAX, _GROWTH_MAX * taken)


def check_text_bytes(
    byte_count: int, arguments: Sequence[pa.Array | pa.Scalar], row_count: int
) -> None:
    """Refuse to make so much text, except of a single row.

    Raises
    ------
    TextsTooLargeError
        If the texts of fewer rows should be made at a time.
    """
    if row_count > 1 and byte_count > text_limit(arguments):
        raise texts_too_large(row_count)
