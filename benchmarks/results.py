"""Results of a scenario: figures in one form, as JSON and Markdown, and two runs compared.

Only projseg's own figures can regress. The machine may be slower during one of two runs. Where both
contain peers, the median ratio of the peers' times measures this drift, and every time of the later
run is divided by it. A query regressed when both its median and its minimum did, which one
disturbed round cannot cause.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from projseg.errors import InvalidInputError

RESULTS_VERSION: Final = 3  # earlier files hold figures of other forms
_FULL_SHARE: Final = 0.5  # of a table's cells that must be known for one column a way

SLOWER_BY_MORE_THAN: Final = 0.25
LARGER_BY_MORE_THAN: Final = 0.02
_NOISE: Final = {"ms": 0.1, "s": 0.1}  # smaller differences are noise
_FREE: Final = {"rounds", "peers", "queries"}  # arguments in which compared runs may differ

_Key = tuple[str, str, str]


class Figure(msgspec.Struct, frozen=True):
    """The measures of one case, by their names, whose last word is the unit.

    Figures of one table stand together in a report. `case` is a query's name or a step, `way` how
    it is done or by which engine; values are numbers, texts, and lists of the figures of each
    round, the most important first.
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

    Raises InvalidInputError if the file is missing, is not such JSON, or has another format
    version.
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


def render_results(results: ScenarioResults) -> str:
    """Return the conditions, each table of figures, and what went wrong."""
    parts = [_conditions(results)]
    for name in dict.fromkeys(figure.table for figure in results.figures):
        figures = [figure for figure in results.figures if figure.table == name]
        parts.append(render_figures(figures, results.peers))
    verdict = [] if results.has_wrong_answers else ["every answer that was compared agrees"]
    parts.append("\n".join([*results.problems, *verdict]))
    return "\n\n".join(parts) + "\n"


def render_figures(figures: Sequence[Figure], peers: Sequence[str]) -> str:
    """Return the figures of one table.

    Where most cases have figures of several ways, the first measure has a column a way, and a
    second table has all measures of projseg's own ways; otherwise one table has all measures.
    """
    name = figures[0].table
    cases = {figure.case for figure in figures}
    ways = list(dict.fromkeys(figure.way for figure in figures))
    is_full = len(figures) > _FULL_SHARE * len(cases) * len(ways)
    if len(cases) == 1 or len(ways) == 1 or not is_full:
        return _by_measure(name, figures)
    own = [figure for figure in figures if figure.way not in peers]
    details = [_by_measure(f"{name}, all measures", own)] if own and len(own[0].values) > 1 else []
    return "\n\n".join([_by_way(name, figures, ways, peers), *details])


def format_measure(measure: str, value: Any) -> str:
    """Return a value by the unit that ends its measure's name; of several rounds, the median."""
    if isinstance(value, list):
        value = statistics.median(value) if value else None
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if measure.endswith(("bytes", "memory")):
        return _format_bytes(value)
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or not value else f"{value:.1g}"


def _conditions(results: ScenarioResults) -> str:
    machine = results.machine
    arguments = " ".join(f"{name}={value}" for name, value in results.arguments.items())
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    changed = " with local changes" if machine["has_local_changes"] else ""
    return (
        f"`projseg bench run {results.scenario} {arguments}`: {machine['started']};"
        f" {machine['cpu']}, {machine['cpu_count']} processors, load {machine['load_average']},"
        f" {_format_bytes(machine['memory_bytes'])}; {machine['system']}, Python"
        f" {machine['python']}; {versions}; commit {(machine['commit'] or 'unknown')[:10]}{changed}"
    )


def _by_way(name: str, figures: Sequence[Figure], ways: Sequence[str], peers: Sequence[str]) -> str:
    """Return the first measure: a row a case, a column a way, then our ratios to the best peer."""
    measure = next(iter(figures[0].values))
    found = {(figure.case, figure.way): figure.number(measure) for figure in figures}
    texts = {
        (figure.case, figure.way): format_measure(measure, figure.values.get(measure))
        for figure in figures
    }
    is_rate = measure.startswith("per ")
    own = [way for way in ways if way not in peers] if any(way in peers for way in ways) else []
    ratios: dict[str, list[float]] = {way: [] for way in own}
    rows = []
    for case in dict.fromkeys(figure.case for figure in figures):
        row = [case, *(texts.get((case, way), "-") for way in ways)]
        best_of = [value for way in ways if way in peers and (value := found.get((case, way)))]
        best = (max if is_rate else min)(best_of) if best_of else None
        for way in own:
            value = found.get((case, way))
            ratio = None if not value or not best else best / value if is_rate else value / best
            ratios[way] += [ratio] if ratio else []
            row.append(_ratio(ratio))
        rows.append(row)
    if own:
        means = (statistics.geometric_mean(some) if some else None for some in ratios.values())
        rows.append(["geometric mean", *("" for _ in ways), *map(_ratio, means)])
    headings = ["case", *ways, *(f"{way} / best peer" for way in own)]
    note = "\n\n\\* a projection covers it; bold: a peer is faster" if own else ""
    return _table(f"{name}, {measure}", headings, rows) + note


def _by_measure(name: str, figures: Sequence[Figure]) -> str:
    """Return all measures: a row a case and way; of a single case, it is in the title."""
    measures = list(dict.fromkeys(measure for figure in figures for measure in figure.values))
    cases = {figure.case for figure in figures}
    has_ways = any(figure.way for figure in figures)
    rows = []
    for figure in figures:
        words = [figure.case] if len(cases) > 1 or not has_ways else []
        words += [figure.way] if has_ways else []
        values = (format_measure(measure, figure.values.get(measure)) for measure in measures)
        rows.append([*words, *values])
    headings = ["case"] if len(cases) > 1 or not has_ways else []
    title = name if headings else f"{name}, {figures[0].case}"
    return _table(title, [*headings, *(["way"] if has_ways else []), *measures], rows)


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are padded to one width."""
    cells = [[text.replace("*", r"\*").replace("|", r"\|") for text in headings]]
    cells += [[_escaped(text) for text in row] for row in rows]
    widths = [max(4, *(len(row[index]) for row in cells)) for index in range(len(headings))]
    is_text = [
        index == 0 or any(row[index].strip("*-")[:1].isalpha() for row in cells[1:])
        for index in range(len(headings))
    ]
    lines = [
        " | ".join(
            text.ljust(width) if left else text.rjust(width)
            for text, width, left in zip(row, widths, is_text, strict=True)
        )
        for row in cells
    ]
    marks = (
        "-" * width if left else "-" * (width - 1) + ":"
        for width, left in zip(widths, is_text, strict=True)
    )
    lines.insert(1, " | ".join(marks))
    return f"{title}:\n\n" + "\n".join(f"| {line} |" for line in lines)


def _escaped(text: str) -> str:
    is_bold = text.startswith("**")
    return text if is_bold else text.replace("*", r"\*").replace("|", r"\|")


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"


def _format_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two runs."""

    drift: float  # how much slower the machine was in the later run, by the peers
    ratios: dict[_Key, float]  # (table, case, way) -> later / earlier of the first measure
    regressions: tuple[str, ...]  # a sentence each


def compare_results(
    earlier: ScenarioResults, later: ScenarioResults, *, tolerance: float = SLOWER_BY_MORE_THAN
) -> Comparison:
    """Compare projseg's figures, in cases of both runs, of one scenario over the same rows.

    A time may grow by the share `tolerance`. Raises InvalidInputError if the runs are of other
    scenarios, or differ in arguments other than rounds, engines and queries.
    """
    plans = [{"scenario": one.scenario, **one.arguments} for one in (earlier, later)]
    for name in sorted((plans[0].keys() | plans[1].keys()) - _FREE):
        before, after = (plan.get(name) for plan in plans)
        if before != after:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"the runs differ in {name}: {before} and {after}; compare runs of equal arguments",
            )
    pairs = list(_pairs(earlier, later))
    changes = [
        _least(after, measure) / _least(before, measure)
        for before, after in pairs
        if before.way in earlier.peers and (measure := _time_of(before)) and _least(before, measure)
    ]
    drift = statistics.median(changes) if changes else 1.0
    ratios: dict[_Key, float] = {}
    problems: list[str] = []
    for before, after in pairs:
        if before.way in earlier.peers:
            continue
        measure = _time_of(before)
        if measure and (first := before.number(measure)):
            ratio = (after.number(measure) or 0.0) / drift / first
            ratios[before.table, before.case, before.way] = ratio
        problems += _worse(before, after, drift, tolerance)
    problems += [problem for problem in later.problems if problem not in earlier.problems]
    return Comparison(drift, ratios, tuple(problems))


def _pairs(earlier: ScenarioResults, later: ScenarioResults) -> Iterator[tuple[Figure, Figure]]:
    found = {(one.table, one.case, one.way): one for one in later.figures}
    for one in earlier.figures:
        if (other := found.get((one.table, one.case, one.way))) is not None:
            yield one, other


def _time_of(figure: Figure) -> str | None:
    """Return the first measure where it is a time that both runs can compare."""
    measure = next(iter(figure.values), "")
    return measure if measure.rpartition(" ")[2] in _NOISE and figure.number(measure) else None


def _least(figure: Figure, measure: str) -> float:
    value: Any = figure.values.get(measure) or 0.0
    return float(min(value)) if isinstance(value, list) else float(value)


def _worse(before: Figure, after: Figure, drift: float, tolerance: float) -> Iterator[str]:
    """Yield a sentence for each measure that grew too much: the time, and bytes that are stored."""
    subject = " ".join(filter(None, (before.way, before.table, before.case)))
    time = _time_of(before)
    for measure in before.values.keys() & after.values.keys():
        first, second = before.number(measure), after.number(measure)
        if first is None or second is None:
            continue
        if measure == time:
            noise = _NOISE[measure.rpartition(" ")[2]]
            least = (_least(before, measure), _least(after, measure))
            is_worse = all(
                new / drift > old * (1.0 + tolerance) and new / drift - old > noise
                for old, new in ((first, second), least)
            )
        else:
            is_stored = measure.endswith("bytes")
            is_worse = is_stored and second > first * (1.0 + LARGER_BY_MORE_THAN)
        if is_worse:
            texts = (format_measure(measure, value) for value in (first, second))
            yield f"{subject}: {measure} {' became '.join(texts)} (drift {drift:.2f})"
