"""What is declared of one option of `format("projseg")`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

WORK_OPTION: Final = "projseg.work"
"""What the extension sets for a read whose tasks write segments."""
COMPACT_SINCE: Final = "projseg.compactsince"
"""What the extension sets for a write after which it compacts the table itself."""

ROW_NUMBERS: Final = "projseg.rownumbers"
"""What the extension sets for a read that returns the numbers of rows."""
ROW_NUMBER: Final = "__projseg_row"
"""The column that it returns them in."""
ROW_CHANGE: Final = "projseg.change"
"""What the extension sets for a write that changes rows by their numbers."""
WRITE_PLAN: Final = "projseg.plan"
"""What the extension sets for a write by the name that a catalog gives a table."""
EXTERNAL_FILES: Final = "projseg.external"
"""What the extension sets for a read of files from outside."""
# Beside these that the version it names is pinned, and what hints say.
ADDED_BY_EXTENSION: Final = frozenset(
    {
        "projseg.pinned",
        "projseg.view",
        WORK_OPTION,
        COMPACT_SINCE,
        ROW_CHANGE,
        ROW_NUMBERS,
        WRITE_PLAN,
        EXTERNAL_FILES,
        "projseg.hint.useprojection",
        "projseg.hint.forceprojections",
        "projseg.hint.noprojections",
    }
)


class OptionKind(Enum):
    """How an option's text is read."""

    TEXT = "text"
    LIST = "list"
    FLAG = "true or false"
    INTEGER = "integer"


@dataclass(frozen=True)
class Option:
    """One option: its documented name, how its text is read, whose it is, and what it does."""

    name: str
    kind: OptionKind
    is_for_read: bool
    is_for_write: bool
    meaning: str
