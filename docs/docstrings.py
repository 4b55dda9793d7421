"""Reads NumPy docstrings: a summary, paragraphs, and the sections that the house style has."""

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

SECTIONS = ("Parameters", "Returns", "Raises")


@dataclass(frozen=True)
class Entry:
    """One entry of a section.

    Parameters
    ----------
    names : tuple of str
        Parameters or errors that the entry describes; none for Returns.
    kind : str
        The type, as the docstring writes it.
    meaning : str
        The rest, as one paragraph.
    """

    names: tuple[str, ...]
    kind: str
    meaning: str


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts.

    Parameters
    ----------
    summary : str
        The first paragraph.
    paragraphs : list of str
        Those between it and the sections.
    sections : dict of str to list of Entry
        By name, in order; a section that is not there is empty.
    """

    summary: str
    paragraphs: list[str] = field(default_factory=list)
    sections: dict[str, list[Entry]] = field(default_factory=dict)


def parsed(documented: Any) -> Docstring:
    """Return the docstring of a function, class or property in parts.

    Raises
    ------
    SystemExit
        If it has a section of another name.
    """
    text = inspect.cleandoc(documented.__doc__ or "")
    prose, *rest = re.split(r"(?m)^(\w+)\n-{3,}\n", text)
    summary, *paragraphs = [part.strip() for part in prose.strip().split("\n\n")]
    sections: dict[str, list[Entry]] = {name: [] for name in SECTIONS}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        if name not in SECTIONS:
            raise SystemExit(f"{documented!r} has a section '{name}'; there are {SECTIONS}")
        sections[name] = _entries(name, body)
    return Docstring(summary, paragraphs, sections)


def _entries(section: str, body: str) -> list[Entry]:
    found = re.findall(r"^(\S.*)\n?((?:(?:[ ]+.*)?\n?)*)", body.strip(), re.MULTILINE)
    return [_entry(section, head, rest) for head, rest in found]


def _entry(section: str, head: str, rest: str) -> Entry:
    meaning = " ".join(rest.split())
    if section == "Returns":
        return Entry((), head, meaning)
    names, _, kind = head.partition(" : ")
    return Entry(tuple(names.replace("*", "").split(", ")), kind, meaning)
