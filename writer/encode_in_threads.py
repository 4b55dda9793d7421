"""When columns are handed to other threads."""

from __future__ import annotations

from typing import Final

_ROWS_MIN: Final = 1 << 14


def are_worth_threads(row_count: int) -> bool:
    """Whether work on columns of so many rows takes longer than handing it to a thread."""
    return row_count >= _ROWS_MIN
