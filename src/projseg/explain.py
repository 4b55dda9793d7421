"""`Explain`: which source each segment answers from, and why the others were not used."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.query_spec import QuerySpec
from projseg.reader.query import QueryPlan
from projseg.reader.source_reads import SourceRead, planned_reads, run_and_measure
from projseg.table_layer.storage import Storage

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
ANALYZED_SCHEMA: Final = SEGMENTS_SCHEMA.append(pa.field("milliseconds", pa.float64()))

_SEGMENTS_SHOWN: Final = 20


@dataclass(frozen=True)
class Explain:
    """How a query is answered; `str()` draws it as a tree.

    Parameters
    ----------
    segments : pa.Table
        A row for each source read: segment, interval, source (a projection's name, null for base
        rows, `metadata`), rows, bytes, rejected (reason by projection); analysed also milliseconds.
        A segment answered from two sources, whole buckets and ragged edges, has two rows.
    pruned_segments : int
        Segments that metadata proves to hold no matching row.
    query : QuerySpec
        What was asked.
    total_milliseconds : float or None
        Of the whole query, if it was analysed.
    """

    segments: pa.Table
    pruned_segments: int
    query: QuerySpec
    total_milliseconds: float | None = None

    @classmethod
    def of(cls, storage: Storage, plan: QueryPlan, *, analyze: bool = False) -> Explain:
        """Return the explanation of a plan; `analyze` runs it and measures."""
        total = None
        if analyze:
            reads, total = run_and_measure(storage, plan)
        else:
            reads = list(planned_reads(plan))
        schema = ANALYZED_SCHEMA if analyze else SEGMENTS_SCHEMA
        table = pa.Table.from_pylist([_row(read) for read in reads], schema)
        return cls(table, plan.pruned_count, plan.query, total)

    @property
    def sources(self) -> dict[str, int]:
        """How many reads have each source; base rows count as `base`."""
        names = self.segments.column("source").to_pylist()
        return dict(Counter("base" if name is None else name for name in names))

    @property
    def rejections(self) -> dict[str, dict[str, int]]:
        """How often each projection was refused, by reason code."""
        counts: dict[str, Counter[str]] = {}
        for rejected in self.segments.column("rejected").to_pylist():
            for name, reason in rejected:
                counts.setdefault(name, Counter())[reason.split(" ")[0]] += 1
        return {name: dict(codes) for name, codes in counts.items()}

    def to_json(self) -> str:
        """Return the whole explanation as JSON text."""
        segments = [{**row, "rejected": dict(row["rejected"])} for row in self.segments.to_pylist()]
        content: dict[str, Any] = {
            "query": describe_query(self.query),
            "sources": self.sources,
            "rejections": self.rejections,
            "pruned_segments": self.pruned_segments,
            "segments": segments,
        }
        if self.total_milliseconds is not None:
            content["milliseconds"] = self.total_milliseconds
        return json.dumps(content, ensure_ascii=False)

    def __str__(self) -> str:
        console = Console(width=120, no_color=True, highlight=False)
        with console.capture() as captured:
            console.print(self.__rich__())
        return captured.get().rstrip()

    def __rich__(self) -> Tree:
        tree = Tree(Text(self._headline()))
        rows = self.segments.to_pylist()
        for row in rows[:_SEGMENTS_SHOWN]:
            branch = tree.add(Text(_segment_line(row)))
            for name, reason in row["rejected"]:
                branch.add(Text(f"not {name}: {reason}"))
        if len(rows) > _SEGMENTS_SHOWN:
            tree.add(Text(f"... {len(rows) - _SEGMENTS_SHOWN} more; see .segments"))
        return tree

    def _headline(self) -> str:
        rows = sum(self.segments.column("rows").to_pylist())
        size = sum(self.segments.column("bytes").to_pylist())
        sources = ", ".join(f"{count} x {name}" for name, count in self.sources.items()) or "none"
        took = "" if self.total_milliseconds is None else f"; {self.total_milliseconds:.1f} ms"
        return (
            f"{describe_query(self.query)}\n"
            f"reads {rows:,} rows, {size:,} bytes from {sources}; "
            f"{self.pruned_segments} segments pruned{took}"
        )


def describe_query(query: QuerySpec) -> str:
    """Return a query as one line of SQL."""
    outputs = ", ".join(query.output_schema.names)
    parts = [f"SELECT {outputs}"]
    if query.filter is not None:
        parts.append(f"WHERE {to_sql(query.filter)}")
    if query.interval is not None:
        parts.append(f"DURING {query.interval}")
    if query.keys:
        parts.append("GROUP BY " + ", ".join(to_sql(key.expression) for key in query.keys))
    return " ".join(parts)


def _row(read: SourceRead) -> dict[str, Any]:
    return {
        "segment": read.segment,
        "interval": read.interval,
        "source": read.source,
        "rows": read.row_count,
        "bytes": read.byte_count,
        "rejected": [(name, str(reason)) for name, reason in read.rejected.items()],
        "milliseconds": read.milliseconds,
    }


def _segment_line(row: dict[str, Any]) -> str:
    source = "base rows" if row["source"] is None else row["source"]
    during = f" during {row['interval']}" if row["interval"] else ""
    took = f", {row['milliseconds']:.2f} ms" if row.get("milliseconds") is not None else ""
    return f"{row['segment']}{during}: {source}, {row['rows']:,} rows, {row['bytes']:,} bytes{took}"
