"""`Advice`: what to add to a table and what to drop, each with its evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final

from projseg.advisor.advice_items import AdviceItem, AdvisedShape
from projseg.advisor.apply_advice import Building, apply_items
from projseg.explain import html_block, html_line, html_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.advisor.other_candidates import Candidate
    from projseg.table import Table
    from projseg.table.writes import Commit

_MEGABYTE: Final = 1e6
_NAME_WIDTH: Final = 28


@dataclass(frozen=True)
class Advice:
    """What a table should store for its logged queries.

    Nothing was changed; `apply` carries the advice out.

    Parameters
    ----------
    table : str
        The table's location.
    version : int
        The version of the table that was examined.
    log : dict
        from, to, queries, shapes, unbound, hinted, failed, torn, doors, other_tables.
    budget_bytes, bytes_before, bytes_after : int
        Bytes of projections, indexes and views: the most allowed, the present ones, and those after
        the advice is applied.
    base_bytes : int
        Bytes of the rows.
    items : tuple of AdviceItem
        The things to do, the most useful first.
    shapes : tuple of AdvisedShape
        The shapes of the logged queries, ordered by their total time, longest first.
    not_examined : tuple of str
        The candidates that there was no time to examine.
    candidates : mapping of str to Candidate
        The projections, indexes and views to add, by name; `apply` uses them.
    """

    table: str
    version: int
    log: dict[str, Any]
    budget_bytes: int
    bytes_before: int
    bytes_after: int
    base_bytes: int
    items: tuple[AdviceItem, ...]
    shapes: tuple[AdvisedShape, ...]
    not_examined: tuple[str, ...] = ()
    candidates: Mapping[str, Candidate] = field(default_factory=dict, repr=False)

    def sql(self) -> str:
        """Return the statements of Spark SQL that carry the advice out.

        Returns
        -------
        str
            One statement on each line; empty if there is nothing to do.
        """
        return "\n".join(f"{item.statement};" for item in self.items)

    def to_json(self) -> str:
        """Return the advice as JSON text.

        Returns
        -------
        str
            An object: table, version, log, budget_bytes, bytes_before, bytes_after, items, shapes,
            not_examined.
        """
        content = {
            "table": self.table,
            "version": self.version,
            "log": self.log,
            "budget_bytes": self.budget_bytes,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "items": [vars(item) for item in self.items],
            "shapes": [vars(shape) for shape in self.shapes],
            "not_examined": list(self.not_examined),
        }
        return json.dumps(content, ensure_ascii=False)

    def apply(
        self,
        table: Table,
        *,
        drop: bool = False,
        materialize: bool = True,
        spark: SparkSession | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> list[Commit]:
        """Declare what is advised in one commit, and build it for the existing segments.

        Parameters
        ----------
        table : Table
            The table, which may have newer versions than the examined one.
        drop : bool
            Also drop the unused things that the advice names, in the same commit.
        materialize : bool
            Whether to build the projections in all existing segments, in one pass, then filters and
            views, and to merge small segments if that is advised. With False only segments written
            from now on have the projections and indexes.
        spark : SparkSession or None
            The session whose job builds them; None means that threads of this process do.
        on_progress : callable or None
            A function that is called with the number of finished segments and the number of all
            segments, in each pass.

        Returns
        -------
        list of Commit
            The versions written; the list is empty if the table has everything already.

        Raises
        ------
        InvalidInputError
            PROJSEG_ADVICE_STALE if a name or a column has another meaning by now; nothing was
            changed. PROJSEG_PINNED_VERSION.
        CommitError, StorageError, CorruptionError
            What `Table.add_projection` raises; what was declared stays declared. Apply again to do
            the rest.
        """
        wanted = [item for item in self.items if drop or item.kind != "drop"]
        building = Building(materialize, spark, on_progress)
        return apply_items(table, wanted, self.candidates, building)

    @property
    def _differing(self) -> tuple[AdvisedShape, ...]:
        """Shapes whose measured answers differ with the advice: a fault of projseg."""
        return tuple(shape for shape in self.shapes if shape.is_same_answer is False)

    def __str__(self) -> str:
        lines = (
            *self._headline().split("\n"),
            *map(_item_line, self.items),
            *self._left_lines(),
            *self._measured_lines(),
        )
        return "\n".join(map(_printable, lines))

    def __repr__(self) -> str:
        names = ", ".join(f"{_word(item.kind)} {item.name}" for item in self.items) or "nothing"
        return f"<Advice for {self.table}: {names}>"

    def _repr_html_(self) -> str:
        """Return the advice as a notebook shows it."""
        header = ("", "name", "bytes", "rows", "queries", "ms now", "ms then", "saved")
        rows = [
            (
                _word(item.kind),
                item.label,
                size_text(item.bytes),
                f"{item.rows:,}",
                f"{item.queries:,}",
                _ms(item.milliseconds_before),
                _ms(item.milliseconds_after),
                seconds_text(item.saved_seconds),
            )
            for item in self.items
        ]
        first, *rest = self._headline().split("\n")
        statements = f"<pre>{escape(self.sql())}</pre>" if self.items else ""
        lines = [html_line(line) for line in (*rest, *self._left_lines())]
        return html_block(first, html_rows(header, rows) if rows else "", *lines, statements)

    def _headline(self) -> str:
        log = self.log
        if not log["queries"]:
            others = ", ".join(log["other_tables"]) or "none"
            return f"The log has no query of {self.table}; its tables are: {others}."
        doors = _listed(list(log["doors"]))
        days = f" in {log['days']:.0f} days" if log["days"] >= 1 else ""
        total = sum((shape.median_ms or 0.0) * shape.count for shape in self.shapes) / 1000
        unbound = f"; {log['unbound']:,} of them name what the table lacks" * bool(log["unbound"])
        return (
            f"{log['queries']:,} queries{days} of {doors}, {log['shapes']:,} shapes{unbound}; "
            f"all of them took {seconds_text(total)}.\n"
            f"Base {size_text(self.base_bytes)}; {size_text(self.budget_bytes)} may be taken, "
            f"{size_text(self.bytes_before)} are."
        )

    def _left_lines(self) -> list[str]:
        """Return lines about what nothing was advised for."""
        reasons: dict[str, list[float]] = {}
        for shape in self.shapes:
            if shape.why_not:
                took = shape.count * (shape.median_ms or 0.0) / 1000
                found = reasons.setdefault(shape.why_not, [0, 0.0])
                found[0], found[1] = found[0] + 1, found[1] + took
        lines = []
        if reasons:
            total = sum(took for _, took in reasons.values())
            texts = [
                f"{count} shape{'s' * (count > 1)} {_explained(reason)}"
                for reason, (count, _) in sorted(reasons.items(), key=lambda one: -one[1][1])
            ]
            lines.append(f"left   {seconds_text(total)}: {', '.join(texts)}")
        lines += [f"not examined: {text}" for text in self.not_examined]
        return lines

    def _measured_lines(self) -> list[str]:
        """Return lines about what was measured: of shapes that are answered otherwise, the rest."""
        served = {one for item in self.items for one in item.shapes}
        lines = [
            f"measured on some segments: {_ms(shape.measured_before)} -> "
            f"{_ms(shape.measured_after)}, expected {_ms(shape.measured_expected)}: {shape.query}"
            for shape in self.shapes
            if shape.id in served and shape.measured_after is not None
        ]
        return lines + [f"ANSWERS DIFFER: {shape.query}" for shape in self._differing]


def _printable(line: str) -> str:
    """Return a line without control characters, whatever texts the log contains."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def _explained(reason: str) -> str:
    """Return why nothing was advised, with the remedy if the reader has one."""
    return f"{reason} ({_REASONS[reason]})" if reason in _REASONS else reason


_REASONS: Final = {
    "ROW_SCAN": "rows are asked for, not groups",
    "LITERAL_HIDDEN": "a constant is hidden; log with PROJSEG_QUERY_LOG_LITERALS=expressions",
    "TOO_LITTLE": "what could be won is not worth its bytes",
    "JOINED": "other tables are read",
}


def _word(kind: str) -> str:
    """Return the verb of an item, as it is printed."""
    return kind if kind in ("drop", "compact") else "add"


def _item_line(item: AdviceItem) -> str:
    size = "" if item.kind == "compact" else size_text(item.bytes)
    head = f"{_word(item.kind):<6} {item.label:<{_NAME_WIDTH}} {size:>9}"
    if item.kind == "drop":
        return f"{head}   {item.evidence['reason']}"
    return f"{head}   {_taken_text(item)}   {_saved_text(item)}"


def _taken_text(item: AdviceItem) -> str:
    """Return the words about an addition beside its bytes."""
    evidence = item.evidence
    if item.kind == "compact":
        return f"{evidence['segments']:,} segments to {evidence['segments_left']:,}"
    builds = f"builds in {seconds_text(item.build_seconds)}"
    if item.kind == "index":
        left, count = evidence.get("segments_left", 0), evidence.get("segments", 0)
        return f"key in {left:,.1f} of {count:,.0f} segments   {builds}"
    error = f" +-{item.rows_error:.0%}" if item.rows_error >= 0.005 else ""
    return f"{item.rows:,} rows{error}   {builds}"


def _saved_text(item: AdviceItem) -> str:
    before, after = _ms(item.milliseconds_before), _ms(item.milliseconds_after)
    plural = "s" * (len(item.shapes) != 1)
    replaces = f"   replaces {', '.join(item.replaces)}" if item.replaces else ""
    return (
        f"serves {item.queries:,} queries of {len(item.shapes)} shape{plural}: "
        f"{before} -> about {after}   saves {seconds_text(item.saved_seconds)}{replaces}"
    )


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names) or "no door"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def size_text(byte_count: float) -> str:
    """Return a number of bytes as text for people."""
    if byte_count >= 1000 * _MEGABYTE:
        return f"{byte_count / 1e9:.1f} GB"
    if byte_count >= _MEGABYTE / 10:
        return f"{byte_count / _MEGABYTE:.1f} MB"
    return f"{byte_count / 1000:.1f} kB"


def seconds_text(seconds: float) -> str:
    """Return a length of time as a person reads it."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
