"""Plots of runs as SVG text, to be put into an HTML page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from projseg.benchmarks.figures import (
    bandwidth_share,
    medians_by_rows,
    own_engines,
    peer_ratio,
)
from projseg.benchmarks.peers.registry import ENGINES
from projseg.benchmarks.records import EngineRun, Run

__all__ = [
    "plot_bandwidth",
    "plot_growth",
    "plot_loading",
    "plot_ratios",
    "plot_sizes",
    "plot_times",
]

_OURS: Final = ("#0b6e4f", "#6bbf59", "#08a4bd", "#446df6")
_WIDTH: Final = 9.0  # inches
_PLOTS_ABREAST: Final = 4
_GRID: Final = "#e0e0e0"
_PEERS: Final = ("#c46210", "#e9a23b", "#a23e48", "#d98880", "#7d7d7d", "#b5b5b5")


def plot_times(run: Run) -> str:
    """Return medians of every engine on a logarithmic scale, a line for each query."""

    def median(engine: EngineRun, query: str) -> float | None:
        timing = engine.timings.get(query)
        return timing.median_ms if timing else None

    figure, axes = _scattered(run, run.present, median)
    _scale_by_powers(axes)
    axes.set_xlabel("milliseconds, warm median")
    return _svg(figure)


def plot_ratios(run: Run) -> str:
    """Return our medians over the best peer's, with the target of a third."""
    figure, axes = _scattered(run, own_engines(run), partial(peer_ratio, run))
    axes.axvline(1.0, color="#444444", linewidth=0.8)
    axes.axvline(1 / 3, color="#444444", linewidth=0.8, linestyle=":")
    _scale_by_powers(axes)
    axes.set_xlabel("time over the best peer's; dotted: a third")
    return _svg(figure)


def plot_bandwidth(run: Run) -> str:
    """Return the share of memory bandwidth that our queries reach."""

    def percentage(engine: EngineRun, query: str) -> float | None:
        timing = engine.timings.get(query)
        share = bandwidth_share(run, timing) if timing else None
        return None if share is None else 100.0 * share

    figure, axes = _scattered(run, own_engines(run), percentage)
    axes.set_xlabel("bytes read a second, per cent of the bandwidth measured")
    return _svg(figure)


def plot_loading(run: Run) -> str:
    """Return rows loaded a second."""
    loaded = [engine for engine in run.present if engine.ingest is not None]
    figure, (axes,) = _figure(height=1.2 + 0.3 * len(loaded))
    for position, (engine, colour) in enumerate(_coloured(loaded)):
        assert engine.ingest is not None
        axes.barh(position, run.row_count / engine.ingest.seconds / 1e6, color=colour)
    axes.set_xlabel("million rows a second, without settling")
    _name_rows(axes, [engine.title for engine in loaded])
    return _svg(figure)


def plot_sizes(run: Run) -> str:
    """Return bytes on disk: base rows, and what is made from them beside."""
    loaded = [engine for engine in run.present if engine.ingest is not None]
    figure, (axes,) = _figure(height=1.2 + 0.3 * len(loaded))
    for position, (engine, colour) in enumerate(_coloured(loaded)):
        ingest = engine.ingest
        assert ingest is not None
        axes.barh(position, ingest.base_bytes / 1e6, color=colour)
        axes.barh(
            position,
            ingest.projection_bytes / 1e6,
            left=ingest.base_bytes / 1e6,
            color=colour,
            alpha=0.5,
        )
    axes.set_xlabel("MB; lighter: projections or rollups")
    _name_rows(axes, [engine.title for engine in loaded])
    return _svg(figure)


def plot_growth(runs: Sequence[Run]) -> str:
    """Return medians over the number of rows: a small plot for each query, a line for each engine.

    Queries and engines that only one number of rows has are left out.
    """
    engines = list({engine.name: engine for run in runs for engine in run.present}.values())
    lines: dict[str, list[tuple[EngineRun, str, dict[int, float]]]] = {}
    for query in dict.fromkeys(query.name for run in runs for query in run.queries):
        for engine, colour in _coloured(engines):
            medians = medians_by_rows(runs, engine.name, query)
            if len(medians) > 1:
                lines.setdefault(query, []).append((engine, colour, medians))
    row_count = max(1, -(-len(lines) // _PLOTS_ABREAST))
    figure, all_axes = _figure(
        height=0.8 + 1.7 * row_count, row_count=row_count, column_count=_PLOTS_ABREAST
    )
    labelled: dict[str, Any] = {}
    for axes, (query, drawn) in zip(all_axes, lines.items(), strict=False):
        for engine, colour, medians in reversed(drawn):  # the first on top
            (labelled[engine.title],) = axes.plot(
                list(medians), list(medians.values()), marker=_marker(engine), color=colour,
                markersize=3.5, linewidth=1.2,
            )  # fmt: skip
        axes.set_title(query, fontsize=8)
        axes.grid(visible=True, axis="y", color=_GRID, linewidth=0.6)
        _name_row_counts(axes, sorted({run.row_count for run in runs}))
    for axes in all_axes[len(lines) :]:
        axes.set_visible(False)
    _scale_by_powers(all_axes[0], "y")  # shared by all
    figure.supxlabel("rows", fontsize=8)
    figure.supylabel("milliseconds, warm median", fontsize=8)
    titles = [engine.title for engine in engines if engine.title in labelled]
    lines_drawn = [labelled[title] for title in titles]
    place = {"loc": "outside upper left", "ncols": 4, "frameon": False, "fontsize": 8}
    figure.legend(lines_drawn, titles, **place)
    return _svg(figure)


def _scattered(
    run: Run, engines: Sequence[EngineRun], value: Callable[[EngineRun, str], float | None]
) -> tuple[Any, Any]:
    """Return a plot with a line for each query and a point for each engine that has a value."""
    names = [query.name for query in run.queries]
    figure, (axes,) = _figure(height=1.5 + 0.3 * len(names))
    for index, (engine, colour) in enumerate(_coloured(engines)):
        found = {row: value(engine, name) for row, name in enumerate(names)}
        points = [(x, row) for row, x in found.items() if x]
        if points:
            axes.scatter(
                *zip(*points, strict=True),
                color=colour,
                marker=_marker(engine),
                s=28,
                zorder=3 + len(engines) - index,  # the first of our engines is what matters most
                label=engine.title,
            )
    _name_rows(axes, names)
    if axes.has_data():
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8)
    return figure, axes


def _figure(
    *, height: float, row_count: int = 1, column_count: int = 1
) -> tuple[Any, Sequence[Any]]:
    """Return a figure of this height in inches, and its plots row by row."""
    from matplotlib.figure import Figure  # optional and slow to import: extra [bench]

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    plots = figure.subplots(row_count, column_count, squeeze=False, sharey=True).ravel().tolist()
    for axes in plots:
        axes.grid(visible=True, axis="x", color=_GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(which="both", labelsize=7)
        axes.xaxis.label.set_size(8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure, plots


def _marker(engine: EngineRun) -> str:
    return "o" if engine.is_peer else "D"


def _coloured(engines: Sequence[EngineRun]) -> list[tuple[EngineRun, str]]:
    """Return each engine with its colour, the same in every plot: greens and blues are ours."""
    coloured = []
    for engine in engines:
        colours = _PEERS if engine.is_peer else _OURS
        known = [kind.name for kind in ENGINES if kind.is_peer == engine.is_peer]
        index = known.index(engine.name) if engine.name in known else len(known)
        coloured.append((engine, colours[index % len(colours)]))
    return coloured


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _scale_by_powers(axes: Any, axis: str = "x") -> None:
    """Make an axis logarithmic, its powers of ten written out: 0.1, 1, 10."""
    from matplotlib.ticker import LogFormatter  # as in `_figure`

    axes.set(**{f"{axis}scale": "log"})
    ticks = getattr(axes, f"{axis}axis")
    ticks.set_major_formatter(lambda value, _: f"{value:,g}")
    ticks.set_minor_formatter(LogFormatter())  # names some only where there are few powers


def _name_row_counts(axes: Any, counts: Sequence[int]) -> None:
    """Mark the measured numbers of rows on a logarithmic axis and no others, shortened: 60M."""
    axes.set_xscale("log")
    axes.set_xticks(counts, [_shortened(count) for count in counts])
    axes.set_xticks([], minor=True)


def _shortened(count: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:g}{unit}"
    return str(count)


def _svg(figure: Any) -> str:
    """Return the figure as an SVG element, without the XML prologue and dates."""
    from matplotlib import rc_context  # as in `_figure`

    buffer = io.StringIO()
    # Text stays text, and the same figure gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "projseg"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
