"""Reasons why a mutant may survive, from survivors.toml: each names a line and what it becomes.

Neither moving a line nor changing its comment parts it from its reason.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutations import Mutant

REASONS = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Explanation:
    """Why no test can or need tell a mutant of the module `path` from what is written there.

    `place` is the function that holds the line; None where the module has the line but once.
    """

    path: str
    was: str
    becomes: str
    reason: str
    place: str | None = None

    def fits(self, path: str, mutant: Mutant) -> bool:
        """Whether it is about this mutant."""
        is_there = self.place in (None, mutant.place)
        return is_there and (self.path, self.was, self.becomes) == (
            path,
            mutant.was,
            mutant.becomes,
        )


def read_explanations(file: Path = REASONS) -> list[Explanation]:
    """Return all reasons: a table for each module, with the lines of each mutant and its reason."""
    modules = tomllib.loads(file.read_text())
    return [
        Explanation(path, entry["was"], becomes, entry["reason"], entry.get("in"))
        for path, entries in modules.items()
        for entry in entries
        for becomes in entry["becomes"]
    ]
