"""What a scenario measured: figures in one form, with one JSON file."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import msgspec

from projseg.errors import InvalidInputError

RESULTS_VERSION = 3  # earlier files hold figures of other forms


class Figure(msgspec.Struct, frozen=True):
    """The measures of one case, by their names, whose last word is the unit.

    Parameters
    ----------
    table : str
        Figures of one table stand together in a report.
    case : str
        What was done: a query's name, a step.
    way : str
        How, or by which engine.
    values : dict
        Numbers, texts, and lists of the figures of each round. The first measure matters most.
    """

    table: str
    case: str
    way: str
    values: dict[str, Any]

    def number(self, measure: str) -> float | None:
        """Return a measure's number, of several rounds the median; None for texts."""
        value = self.values.get(measure)
        if isinstance(value, list):
            return statistics.median(value) if value else None
        return value if isinstance(value, int | float) else None


class ScenarioResults(msgspec.Struct):
    """One run of a scenario."""

    scenario: str
    arguments: dict[str, Any]
    machine: dict[str, Any]
    figures: list[Figure]
    peers: list[str] = []  # the ways that are not projseg
    problems: list[str] = []  # engines that are missing, failures, answers that differ
    format_version: int = RESULTS_VERSION

    @property
    def has_wrong_answers(self) -> bool:
        """Whether an engine failed, or gave another answer than the reference."""
        return any(not problem.startswith("missing") for problem in self.problems)


def save_results(results: ScenarioResults, path: Path) -> None:
    """Write results as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def load_results(path: Path) -> ScenarioResults:
    """Read results that `save_results` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing, is not such JSON, or has another format version.
    """
    try:
        results = msgspec.json.decode(path.read_bytes(), type=ScenarioResults)
    except OSError as error:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"cannot read {path}: {error}") from error
    except msgspec.MsgspecError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"{path} is not a result of this release's `projseg bench run`: {error}",
        ) from error
    if results.format_version != RESULTS_VERSION:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"{path} has form {results.format_version}, this release reads {RESULTS_VERSION}",
        )
    return results
