"""Findings of verification, worded for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from projseg.errors import ProjsegError, one_line
from projseg.table_layer.metadata.footer_match import Mismatch


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in one file of a table.

    Parameters
    ----------
    file : str
        Its name in the table.
    what : str
        Which fact is wrong.
    expected : str
        What the table or the file claims; empty if the file cannot be read that far.
    found : str
        What is there.
    """

    file: str
    what: str
    expected: str = ""
    found: str = ""

    @property
    def problem(self) -> str:
        """All of it as one line."""
        if not self.expected and not self.found:
            return self.what
        return one_line(f"{self.what}: expected {self.expected}, found {self.found}")


def findings(file: str, mismatches: Iterable[Mismatch]) -> Iterator[Finding]:
    """Yield what a check of one file yields, and the error that ends it, if one does."""
    try:
        for what, expected, found in mismatches:
            yield Finding(file, one_line(what), one_line(str(expected)), one_line(str(found)))
    except ProjsegError as error:
        yield Finding(file, str(error))
    except OSError as error:
        yield Finding(file, one_line(f"{type(error).__name__}: {error}"))
