"""Workloads in a form that every engine reads: questions, projections, and rows staged once.

Rows are staged uncompressed in one Arrow file, which an engine maps instead of reading, so that the
time to load is the engine's own; as Parquet for those whose only door is a file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from projseg.errors import InvalidInputError, did_you_mean

_GROUP_ROWS: Final = 1 << 20  # pyarrow's own default


@dataclass(frozen=True, slots=True)
class Rollup:
    """A projection, or a rollup made by hand: grouping columns and aggregators as Spark SQL."""

    name: str
    group_by: tuple[str, ...]
    aggregators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One question, as the arguments of `projseg.Table.query`, over a table in SQL.

    Results of different runs are compared by its name. It has aggregators or the columns of a row
    scan. The interval is half-open, ISO 8601 in UTC without the zone, of the column `time`. The
    order of a limit is total, so that one answer is right; otherwise `determined` has the outputs
    that are equal in every right answer. The projection `covered_by` can answer it. If it is
    drained, every row is produced and thrown away: for answers as large as the table.
    """

    name: str
    group_by: tuple[str, ...] = ()
    aggregators: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    filter: str | None = None
    interval: tuple[str, str] | None = None
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    covered_by: str | None = None
    is_drained: bool = False
    table: str = "edits"
    determined: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        """The name, with a star where a projection covers the query."""
        return f"{self.name} *" if self.covered_by else self.name

    @property
    def outputs(self) -> tuple[str, ...]:
        """The expressions of the answer's columns, in order."""
        return self.group_by + self.aggregators or self.columns

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the answer's columns, in order."""
        return tuple(output.rsplit(" AS ", 1)[-1] for output in self.outputs)

    @property
    def approximate_outputs(self) -> tuple[str, ...]:
        """The names of the answer's columns whose values may differ between engines."""
        return tuple(
            name
            for name, output in zip(self.output_names, self.outputs, strict=True)
            if output.startswith("approx_count_distinct")
        )

    def exact(self) -> Question:
        """Return the same question with every approximate distinct count made exact."""
        exact = (
            text.replace("approx_count_distinct(", "count(DISTINCT ") for text in self.aggregators
        )
        return replace(self, aggregators=tuple(exact))

    @property
    def interval_text(self) -> str | None:
        """The interval as projseg's arguments and options take it."""
        return "/".join(end.replace(" ", "T") for end in self.interval) if self.interval else None

    def where(self) -> str | None:
        """Return the filter and the interval as one condition, for peers that know no interval."""
        parts = [f"({self.filter})"] if self.filter else []
        if self.interval:
            start, end = self.interval
            parts.append(f"time >= TIMESTAMP '{start}' AND time < TIMESTAMP '{end}'")
        return " AND ".join(parts) or None


@dataclass(frozen=True, slots=True)
class Workload:
    """A table, the projections that engines may hold of it, and its queries.

    Every engine calls the table by its name and arranges rows by the time column, where it does so.
    The projections are all that engines know of the queries beforehand; `tempting` ones fit some
    query, but hold nearly as many rows as the table. The granularity is of projseg's segments.
    """

    name: str
    schema: pa.Schema
    time_column: str
    projections: tuple[Rollup, ...]
    queries: tuple[Question, ...]
    granularity: str | None = None
    tempting: tuple[Rollup, ...] = ()

    def select(self, names: Iterable[str]) -> tuple[Question, ...]:
        """Return the queries of these names in the list's order; all of them for no name.

        Raises InvalidInputError for a name that is not in the list.
        """
        known = [query.name for query in self.queries]
        wanted = [*names] or known
        for name in wanted:
            require_known(name, known, f"a query over {self.name}")
        return tuple(query for query in self.queries if query.name in wanted)


def require_known(name: str, known: Collection[str], kind: str) -> None:
    """Raise InvalidInputError, with the nearest name and all others, for an unknown name."""
    if name not in known:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"'{name}' is not {kind}{did_you_mean(name, known)}; there are {', '.join(known)}",
        )


class RowsToStage(Protocol):
    """The rows of one table, the same at every call."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    @property
    def row_count(self) -> int:
        """Number of rows."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""


@dataclass(frozen=True, slots=True)
class Source:
    """Staged rows: `rows.arrow` and perhaps `parquet/` in one folder."""

    folder: Path

    @property
    def parquet_folder(self) -> Path:
        """Folder of a snappy Parquet file."""
        return self.folder / "parquet"

    def table(self) -> pa.Table:
        """Return all rows, mapped from the file."""
        with pa.memory_map(str(self.folder / "rows.arrow")) as mapped:
            return pa.ipc.open_file(mapped).read_all()

    def reader(self) -> pa.RecordBatchReader:
        """Return the batches in the order made, to be consumed once."""
        return self.table().to_reader()


def stage(rows: RowsToStage, folder: Path, *, with_parquet: bool = True) -> Source:
    """Make the rows and write them as Arrow, and as Parquet: about 150 bytes a row."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        pa.OSFile(str(folder / "rows.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, rows.schema) as writer,
    ):
        for batch in rows.batches():
            writer.write_batch(batch)
    source = Source(folder)
    if with_parquet:
        write_parquet(source.reader(), source.parquet_folder / "rows.parquet")
    return source


def write_parquet(rows: pa.RecordBatchReader, path: Path) -> None:
    """Write a snappy file, as Spark's default is, of row groups of a million rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, rows.schema, compression="snappy") as writer:
        for batch in _grouped(rows):
            writer.write_table(batch)


def _grouped(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    for batch in rows:
        batches.append(batch)
        if sum(map(len, batches)) >= _GROUP_ROWS:
            yield pa.Table.from_batches(batches)
            batches = []
    if batches:
        yield pa.Table.from_batches(batches)
