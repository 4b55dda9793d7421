"""`Explain`: the source that each segment answers from, why no other; and HTML for notebooks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from projseg.algebra.planning.why_not import ReasonCode
from projseg.algebra.query.request import Query
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.plan_figures import (
    BASE_ROWS,
    FOREIGN_ROWS,
    PlanFigures,
    SourceRead,
    false_segments,
    plan_figures,
    planned_reads,
    postings_segments,
    run_and_measure,
)
from projseg.table_layer.storage.storage_contract import Storage

if TYPE_CHECKING:
    from rich.tree import Tree

SEGMENTS_SCHEMA: Final = pa.schema(
    [
        ("segment", pa.string()),
        ("interval", pa.string()),
        ("source", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("rejected", pa.map_(pa.string(), pa.string())),
    ]
)
ANALYZED_SCHEMA: Final = SEGMENTS_SCHEMA.append(
    pa.field("estimated_milliseconds", pa.float64())
).append(pa.field("milliseconds", pa.float64()))

INDEXES_SCHEMA: Final = pa.schema(
    [
        ("index", pa.string()),
        ("column", pa.string()),
        ("condition", pa.string()),
        ("used", pa.bool_()),
        ("reason", pa.string()),
        ("segments", pa.int64()),
        ("left", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("false_segments", pa.int64()),
        ("postings_segments", pa.int64()),
    ]
)

_SEGMENTS_SHOWN: Final = 20
_MEGABYTE: Final = 1e6
_NANOSECONDS: Final = 1e6  # in a millisecond
_UNBROKEN: Final = 10_000  # characters a line of `str()` may have: whoever shows it wraps it

_SHOWN_MAX: Final = 20  # names in a list, and rows of a table


@dataclass(frozen=True, repr=False)
class Explain:
    """How a query is answered; `str()` draws it as a tree.

    Segments that are answered from one source, for the same reasons, share a branch of the tree.

    Parameters
    ----------
    segments : pa.Table
        A row for each source read: segment, interval, source (a projection's name, null for base
        rows, `foreign` for rows in foreign files, `metadata`), rows, bytes, rejected (reason by
        source). An analysed plan also has milliseconds, of one thread, and estimated_milliseconds,
        by which the planner chose. A segment that is answered from two sources, one for whole
        buckets and one for the edges, has two rows.
    query : Query
        The query that is explained.
    figures : PlanFigures
        Totals of what the query reads, and the most rows that it returns.
    total_milliseconds : float or None
        The milliseconds of the whole query, if it was analysed.
    views : tuple of dict
        One dict for each view that was considered: name, parts (that are read), segments and rows
        (that its parts cover), reason (why it does not answer, or None if it answers).
    indexes : pa.Table
        A row for each condition on an indexed column: index, column, condition, used, reason (a
        code that says why it is not used, or not for all segments), segments (before it), left
        (segments after it), files, bytes (of filters to read). An analysed plan also has
        false_segments (opened segments that held no row of the query) and postings_segments
        (segments whose postings gave the matching values of the column).
    version : int or None
        The earlier version of the table that `maxStaleness` chose; None means the present one.
    hypothetical : frozenset of str
        Names of projections and indexes from `what_if`, which the plan assumes and the table does
        not have.
    without : tuple of str
        Names of projections that the table has, and that the plan assumes to be missing.
    """

    segments: pa.Table
    query: Query
    figures: PlanFigures
    total_milliseconds: float | None = None
    views: tuple[dict[str, Any], ...] = ()
    indexes: pa.Table = field(default_factory=INDEXES_SCHEMA.empty_table)
    version: int | None = None
    hypothetical: frozenset[str] = frozenset()
    without: tuple[str, ...] = ()

    @property
    def is_hypothetical(self) -> bool:
        """Whether the plan assumes projections other than the stored ones."""
        return bool(self.hypothetical or self.without)

    @property
    def pruned_segments(self) -> int:
        """Segments that metadata proves to hold no matching row."""
        return self.figures.pruned_segments

    @property
    def sources(self) -> dict[str, int]:
        """The number of reads of each source; base rows count as `base`."""
        return dict(Counter(map(_source_name, self.segments.column("source").to_pylist())))

    @property
    def rejections(self) -> dict[str, dict[str, int]]:
        """How often each source was refused, by reason code; base rows count as `base`."""
        counts: dict[str, Counter[str]] = {}
        for rejected in self.segments.column("rejected").to_pylist():
            for name, reason in rejected:
                counts.setdefault(name, Counter())[reason.split(" ")[0]] += 1
        return {name: dict(codes) for name, codes in counts.items()}

    def named_segments(self) -> list[dict[str, Any]]:
        """Return `segments` as mappings in which the source of base rows is called `base`.

        Returns
        -------
        list of dict
            One dict for each source that is read; its `rejected` is a mapping, too.
        """
        return [
            {**row, "source": _source_name(row["source"]), "rejected": dict(row["rejected"])}
            for row in self.segments.to_pylist()
        ]

    def to_json(self) -> str:
        """Return the whole explanation as JSON text; base rows are called `base`.

        Returns
        -------
        str
            An object: query (as `Query.to_json` writes it), sources, rejections, pruned_segments,
            rows and bytes to read, rows_returned_max, segments, opened_segments, views, indexes if
            any was consulted, and milliseconds if the query was analysed.
        """
        content: dict[str, Any] = {
            "query": json.loads(self.query.to_json()),
            "sources": self.sources,
            "rejections": self.rejections,
            "pruned_segments": self.pruned_segments,
            "rows": self.figures.rows,
            "bytes": self.figures.bytes,
            "rows_returned_max": self.figures.rows_returned_max,
            "opened_segments": self.figures.opened_segments,
            "segments": self.named_segments(),
            "views": list(self.views),
        }
        if self.version is not None:
            content["version"] = self.version
        if self.is_hypothetical:
            content |= {"what_if": sorted(self.hypothetical), "without": list(self.without)}
        if len(self.indexes):
            content["indexes"] = self.indexes.to_pylist()
        if self.total_milliseconds is not None:
            content["milliseconds"] = self.total_milliseconds
        return json.dumps(content, ensure_ascii=False)

    def __str__(self) -> str:
        # Imported here, so that a process that draws no plan starts without it.
        from rich.console import Console

        console = Console(width=_UNBROKEN, no_color=True, highlight=False)
        with console.capture() as captured:
            console.print(self)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def __repr__(self) -> str:
        return f"<Explain: {self._sources_text()}; {self.pruned_segments} segments pruned>"

    def __rich__(self) -> Tree:
        # Imported here, so that a process that draws no plan starts without it.
        from rich.text import Text
        from rich.tree import Tree

        tree = Tree(Text(self._headline()))
        for use in self.indexes.to_pylist():
            tree.add(Text(self._marked(_index_line(use), use["index"])))
        left = _SEGMENTS_SHOWN
        for rows in self._groups():
            branch = tree.add(Text(self._marked(_group_line(rows), rows[0]["source"])))
            for reason in _not_used(rows):
                branch.add(Text(f"not {reason}"))
            for row in rows[:left]:
                branch.add(Text(_segment_line(row)))
            if len(rows) > left:
                branch.add(Text(f"... {len(rows) - left:,} more segments; see .segments"))
            left = max(left - len(rows), 0)
        for view in self.views:
            tree.add(Text(_view_line(view)))
        return tree

    def _repr_html_(self) -> str:
        """Return the explanation as a notebook shows it: a line for each source and its reasons."""
        lines = [
            (
                self._marked(source, source),
                f"{len(group):,}",
                f"{rows:,}",
                f"{size:,}",
                "; ".join(_not_used(group)),
            )
            for group in self._groups()
            for source, rows, size in [(group[0]["source"], *_totals(group))]
        ]
        header = ("source", "segments", "rows", "bytes", "not used")
        query, _, reads = self._headline().rpartition("\n")
        uses = self.indexes.to_pylist()
        asked = [html_line(self._marked(_index_line(use), use["index"])) for use in uses]
        return html_block(query, html_rows(header, lines), *asked, html_line(reads))

    def _groups(self) -> list[list[dict[str, Any]]]:
        """Return the reads, those of one source for the same reasons together."""
        groups: dict[Any, list[dict[str, Any]]] = {}
        for row in self.named_segments():
            groups.setdefault(_shared(row), []).append(row)
        return list(groups.values())

    def _sources_text(self) -> str:
        found = (self._marked(f"{count:,} x {name}", name) for name, count in self.sources.items())
        return ", ".join(found) or "none"

    def _marked(self, text: str, source: str) -> str:
        """Return a line about a source, which says so if there is no such source."""
        return f"{text} (what if)" if source in self.hypothetical else text

    def _headline(self) -> str:
        took = "" if self.total_milliseconds is None else f"; {self.total_milliseconds:.1f} ms"
        reads = f"{self.figures.rows:,} rows, {self.figures.bytes:,} bytes"
        took += "" if self.version is None else f"; at version {self.version} (maxStaleness)"
        took += f"; without {', '.join(self.without)}" if self.without else ""
        return (
            f"{self.query}\n"
            f"reads {reads} from {self._sources_text()}; "
            f"{self.pruned_segments} segments pruned{took}"
        )


def explain_plan(
    storage: Storage, query: Query, plan: QueryPlan, *, analyze: bool = False
) -> Explain:
    """Return the explanation of a plan; `analyze` runs it and measures."""
    total = None
    if analyze:
        reads, total = run_and_measure(storage, plan)
    else:
        reads = list(planned_reads(plan))
    uses = [{name: getattr(use, name) for name in use.__struct_fields__} for use in plan.indexes]
    if analyze and any(use.used for use in plan.indexes):
        opened = false_segments(storage, plan)
        uses = [{**use, "false_segments": opened if use["used"] else None} for use in uses]
    if analyze and uses:
        searched = postings_segments(storage, plan)
        uses = [{**use, "postings_segments": searched[use["definition_hash"]]} for use in uses]
    schema = ANALYZED_SCHEMA if analyze else SEGMENTS_SCHEMA
    table = pa.Table.from_pylist([_row(read) for read in reads], schema)
    views = tuple(
        {
            "name": one.name,
            "parts": one.parts,
            "segments": one.segments,
            "rows": one.row_count,
            "reason": None if one.reason is None else str(one.reason),
        }
        for one in plan.wider
    )
    indexes = pa.Table.from_pylist(uses, INDEXES_SCHEMA)
    return Explain(table, query, plan_figures(plan, reads), total, views, indexes)


def _row(read: SourceRead) -> dict[str, Any]:
    return {
        "segment": read.name,
        "interval": read.interval,
        "source": read.source,
        "rows": read.row_count,
        "bytes": read.byte_count,
        "rejected": [(name, str(reason)) for name, reason in read.rejected.items()],
        "estimated_milliseconds": read.cost / _NANOSECONDS,
        "milliseconds": read.milliseconds,
    }


def _index_line(use: dict[str, Any]) -> str:
    what = f"index {use['index']} on {use['column']}: "
    reason = "" if use["reason"] is None else f"; {use['reason']}"
    if use["postings_segments"]:
        reason += f"; postings of {use['postings_segments']:,} name the values"
    if not use["used"]:
        return f"{what}not used for {use['condition']}{reason}"
    plural = "s" * (use["files"] != 1)
    size = f"of {use['files']:,} file{plural}, {use['bytes'] / _MEGABYTE:.1f} MB"
    return f"{what}{use['segments']:,} segments to {use['left']:,}, {size}{reason}"


def _source_name(source: str | None) -> str:
    return BASE_ROWS if source is None else source


def _shared(row: dict[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the source and the reasons that segments of one branch share."""
    reasons = (
        (name, ReasonCode.COSTLIER if reason.startswith(ReasonCode.COSTLIER) else reason)
        for name, reason in row["rejected"].items()
    )
    return row["source"], tuple(reasons)


def _not_used(rows: list[dict[str, Any]]) -> list[str]:
    """Return why each projection was not used in segments that share their reasons."""
    where = " (in the first segment)" if len(rows) > 1 else ""
    return [
        f"{name}: {reason}{where if reason.startswith(ReasonCode.COSTLIER) else ''}"
        for name, reason in rows[0]["rejected"].items()
    ]


def _totals(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Return the rows and bytes of several reads."""
    return sum(row["rows"] for row in rows), sum(row["bytes"] for row in rows)


def _group_line(rows: list[dict[str, Any]]) -> str:
    source = "base rows" if rows[0]["source"] == BASE_ROWS else rows[0]["source"]
    if source == FOREIGN_ROWS:
        count = len({row["segment"] for row in rows})
        return f"foreign rows: {count:,} file{'s' * (count != 1)}, {_sizes(rows)}"
    segments = "1 segment" if len(rows) == 1 else f"{len(rows):,} segments"
    return f"{source}: {segments}, {_sizes(rows)}"


def _view_line(view: dict[str, Any]) -> str:
    if view["reason"] is not None:
        return f"not view {view['name']}: {view['reason']}"
    parts = "1 part" if view["parts"] == 1 else f"{view['parts']:,} parts"
    return f"from view {view['name']}: {parts} for {view['segments']:,} segments"


def _segment_line(row: dict[str, Any]) -> str:
    during = f" during {row['interval']}" if row["interval"] else ""
    return f"{row['segment']}{during}: {_sizes([row])}"


def _sizes(rows: list[dict[str, Any]]) -> str:
    row_count, byte_count = _totals(rows)
    took = ""
    if "milliseconds" in rows[0]:
        measured, estimated = (
            sum(row[name] for row in rows) for name in ("milliseconds", "estimated_milliseconds")
        )
        took = f", {measured:.2f} ms (estimated {estimated:.2f})"
    return f"{row_count:,} rows, {byte_count:,} bytes{took}"


def html_block(title: str, *parts: str) -> str:
    """Return a block under a title; the parts are HTML already."""
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def html_line(text: str) -> str:
    """Return a line of plain text."""
    return f"<div>{escape(text)}</div>"


def html_fields(named: Iterable[tuple[str, str]]) -> str:
    """Return one line for each name and its text."""
    return _table(f"<th>{escape(name)}</th><td>{escape(text)}</td>" for name, text in named)


def html_rows(header: Sequence[str], texts: Sequence[Sequence[str]]) -> str:
    """Return a table of texts, cut after its first rows."""
    lines = [_cells("th", header), *(_cells("td", row) for row in texts[:_SHOWN_MAX])]
    left = len(texts) - _SHOWN_MAX
    return _table(lines) + (html_line(f"... {left:,} more") if left > 0 else "")


def shown_names(names: Sequence[str]) -> str:
    """Return names in one line, cut after the first; plain text, not HTML."""
    left = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" ... {left:,} more" if left > 0 else "")


def _cells(kind: str, texts: Iterable[str]) -> str:
    return "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts)


def _table(lines: Iterable[str]) -> str:
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
