"""Plots of runs as SVG text, to be put into an HTML page."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from projseg.benchmarks.figures import bandwidth_share, peer_ratio
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
_PEERS: Final = ("#c46210", "#e9a23b", "#a23e48", "#d98880", "#7d7d7d", "#b5b5b5")


def plot_times(run: Run) -> str:
    """Return medians of every engine on a logarithmic scale, a line for each query."""

    def median(engine: EngineRun, query: str) -> float | None:
        timing = engine.timings.get(query)
        return timing.median_ms if timing else None

    figure, axes = _scattered(run, run.present, median)
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds, warm median")
    return _svg(figure)


def plot_ratios(run: Run) -> str:
    """Return our medians over the best peer's, with the target of a third."""
    figure, axes = _scattered(run, _own(run), partial(peer_ratio, run))
    axes.axvline(1.0, color="#444444", linewidth=0.8)
    axes.axvline(1 / 3, color="#444444", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("time over the best peer's; dotted: a third")
    return _svg(figure)


def plot_bandwidth(run: Run) -> str:
    """Return the share of memory bandwidth that our queries reach."""

    def percentage(engine: EngineRun, query: str) -> float | None:
        timing = engine.timings.get(query)
        share = bandwidth_share(run, timing) if timing else None
        return None if share is None else 100.0 * share

    figure, axes = _scattered(run, _own(run), percentage)
    axes.set_xlabel("bytes read a second, per cent of the bandwidth measured")
    return _svg(figure)


def plot_loading(run: Run) -> str:
    """Return rows loaded a second."""
    loaded = [engine for engine in run.present if engine.ingest is not None]
    figure, axes = _figure(height=1.2 + 0.3 * len(loaded))
    for position, (engine, colour) in enumerate(_coloured(loaded)):
        assert engine.ingest is not None
        axes.barh(position, run.row_count / engine.ingest.seconds / 1e6, color=colour)
    axes.set_xlabel("million rows a second, without settling")
    _name_rows(axes, [engine.title for engine in loaded])
    return _svg(figure)


def plot_sizes(run: Run) -> str:
    """Return bytes on disk: base rows, and what is made from them beside."""
    loaded = [engine for engine in run.present if engine.ingest is not None]
    figure, axes = _figure(height=1.2 + 0.3 * len(loaded))
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


def plot_growth(runs: Sequence[Run], engine_name: str) -> str:
    """Return an engine's medians over the number of rows, a line for each query."""
    ordered = sorted(runs, key=lambda run: run.row_count)
    figure, axes = _figure(height=5.0)
    for query in ordered[0].queries:
        points = [
            (run.row_count, engine.timings[query.name].median_ms)
            for run in ordered
            if (engine := run.engine(engine_name)) is not None
            and query.name in engine.timings
            and engine.timings[query.name].median_ms
        ]
        if len(points) > 1:
            style = "-" if query.covered_by else ":"
            axes.plot(
                *zip(*points, strict=True), style, marker=".", label=query.name, linewidth=1.2
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel("milliseconds, warm median; solid: covered by a projection")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=7)
    return _svg(figure)


def _own(run: Run) -> list[EngineRun]:
    return [engine for engine in run.present if not engine.is_peer and engine.timings]


def _scattered(
    run: Run, engines: Sequence[EngineRun], value: Callable[[EngineRun, str], float | None]
) -> tuple[Any, Any]:
    """Return a plot with a line for each query and a point for each engine that has a value."""
    names = [query.name for query in run.queries]
    figure, axes = _figure(height=1.5 + 0.3 * len(names))
    for engine, colour in _coloured(engines):
        found = {row: value(engine, name) for row, name in enumerate(names)}
        points = [(x, row) for row, x in found.items() if x]
        if points:
            marker = "o" if engine.is_peer else "D"
            axes.scatter(
                *zip(*points, strict=True), color=colour, marker=marker, s=28, label=engine.title
            )
    _name_rows(axes, names)
    if axes.has_data():
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8)
    return figure, axes


def _figure(*, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # optional and slow to import: extra [bench]

    figure = Figure(figsize=(9.0, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=True, axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _coloured(engines: Sequence[EngineRun]) -> list[tuple[EngineRun, str]]:
    """Return each engine with its colour: greens and blues are ours."""
    peers = [engine.name for engine in engines if engine.is_peer]
    ours = [engine.name for engine in engines if not engine.is_peer]
    return [
        (
            engine,
            _PEERS[peers.index(engine.name) % len(_PEERS)]
            if engine.is_peer
            else _OURS[ours.index(engine.name) % len(_OURS)],
        )
        for engine in engines
    ]


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _svg(figure: Any) -> str:
    """Return the figure as an SVG element, without the XML prologue and dates."""
    from matplotlib import rc_context  # as in `_figure`

    buffer = io.StringIO()
    # Text stays text, and the same figure gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "projseg"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
