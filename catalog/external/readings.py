"""How a text file is written, and what its readers hand over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.evaluation.typed_columns import Converted, ValueForm
from projseg.segment_format.format_limits import COLUMNS_MAX


@dataclass(frozen=True)
class TextForm:
    """How a text file is written.

    Parameters
    ----------
    delimiter : str or None
        The delimiter of CSV; None means a comma, and a file with another delimiter is refused.
    quote : str
        The quote of CSV; if empty, no character is a quote.
    has_header : bool
        Whether the first line of CSV has the names of columns.
    nulls : tuple of str or None
        Texts that mean null; None means empty ones, NULL, N/A and the like.
    columns : tuple of str or None
        The names of columns of CSV without header; None if they are numbered.
    skipped_lines : int
        Lines before the header or the first row.
    declared : pa.Schema or None
        The columns that are read, and their types; None means all columns, with the types that the
        first block has.
    encoding : str or None
        Python's name of the encoding; None means UTF-8, or the encoding of a byte order mark.
    renames : mapping of str to str
        Names in the file, and the table's for them.
    excluded : set of str
        Columns that are left out.
    values : ValueForm
        How values are written.
    texts : set of str
        Columns of text that take numbers of JSON, too.
    leaves_others : bool
        Whether columns that the table lacks are left out, and not refused.
    """

    delimiter: str | None = None
    quote: str = '"'
    has_header: bool = True
    nulls: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    skipped_lines: int = 0
    declared: pa.Schema | None = None
    encoding: str | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    values: ValueForm = field(default_factory=ValueForm)
    texts: frozenset[str] = frozenset()
    leaves_others: bool = False

    def names(self, found: Iterable[str]) -> list[str | None]:
        """Return what a file's columns are called; None for those that are left out.

        A name of other case is meant only where the file has none of the same.
        """
        names = list(found)
        changes: dict[str, str | None] = {**self.renames, **dict.fromkeys(self.excluded)}
        by_fold = {own.lower(): new for own, new in changes.items() if own not in names}
        return [changes[n] if n in changes else by_fold.get(n.lower(), n) for n in names]


class TypeNote(NamedTuple):
    """Why a column was taken for texts, which a person may not expect."""

    name: str
    reason: str


class Broken(NamedTuple):
    """A line that is no row, and why."""

    number: int
    line: bytes
    reason: str


class Reading(NamedTuple):
    """Some rows of a file, in columns of the table's order.

    `where` returns the number and the text of the lines that rows stand in, `cell` the text of a
    row's value in a column; `broken` has the lines among them that are no rows.
    """

    columns: list[Converted]
    row_count: int
    where: Callable[[Sequence[int]], list[tuple[int, bytes]]]
    cell: Callable[[int, int], str]
    broken: list[Broken]


def not_utf8(line: bytes) -> str | None:
    """Return where a line is not UTF-8, if anywhere."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return (
            f"byte 0x{line[error.start]:02X} at its place {error.start + 1} is not UTF-8; "
            "convert it, or name its --encoding, such as latin-1, to projseg import"
        )
    return None


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse a file with one name for two columns, and one with too many columns."""
    problem = None
    if len(names) > COLUMNS_MAX:
        problem = f"it has more than {COLUMNS_MAX} columns"
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            problem = (
                f"columns '{other}' and '{name}' have one name, as names have no case; mend the "
                "file, or import it with --rename or --exclude"
            )
            break
    if problem is not None:
        raise InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{path}: {problem}")
