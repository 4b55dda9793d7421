"""projseg through its own `Table.query`, with the benchmark's projections and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.question import Question, Rollup
from projseg.benchmarks.records import Work
from projseg.benchmarks.staging import Source
from projseg.benchmarks.workload import Workload

__all__ = ["ProjsegBase", "ProjsegProjections", "declared", "query_arguments"]


class _Projseg(Engine):
    is_peer = False

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        import projseg  # imported as a user does, in the engine's process: cold start counts it

        self._projseg: Any = projseg
        self._table: Any = None

    def version(self) -> str:
        return str(self._projseg.__version__)

    def load(self, source: Source) -> None:
        """Create the table and append the Arrow stream."""
        self._table = self._projseg.Table.create(
            self._location,
            self.workload.dataset.schema,
            time_column=self.workload.dataset.time_column,
            projections=declared(self._projseg, self.projections),
        )
        self._table.append(source.reader())

    def open(self) -> None:
        self._table = self._projseg.Table(self._location)

    def run(self, query: Question) -> pa.Table:
        answer: pa.Table = self._table.query(**query_arguments(query), context=self._context())
        return answer

    def drain(self, query: Question) -> None:
        arguments = query_arguments(query)
        wanted = {name: arguments[name] for name in ("columns", "filter", "interval", "limit")}
        for _ in self._table.scan(**wanted, context=self._context()):
            pass

    def work(self, query: Question) -> Work:
        """Return rows and bytes by `explain(analyze=True)`."""
        plan = self._table.explain(
            **query_arguments(query), context=self._context(), analyze=True
        ).segments
        sources: dict[str, int] = {}
        for source in plan["source"].to_pylist():
            name = source or "base rows"
            sources[name] = sources.get(name, 0) + 1
        rows, bytes_read = (sum(filter(None, plan[name].to_pylist())) for name in ("rows", "bytes"))
        return Work(rows, bytes_read, sources)

    @property
    def _location(self) -> str:
        return str(self.folder / self.workload.name)

    def _context(self) -> dict[str, object]:
        return {"threads": self.thread_count}


class ProjsegProjections(_Projseg):
    """A table with the workload's projections."""

    name = "projseg"
    title = "projseg with projections"

    def sizes(self) -> tuple[int, int]:
        """Split the files' bytes by what the table knows of its projections."""
        everything, _ = super().sizes()
        projections = sum(self._table.projection_stats()["bytes"].to_pylist())
        return everything - projections, projections


class ProjsegBase(_Projseg):
    """A table without projections."""

    name = "projseg-base"
    title = "projseg without projections"
    has_projections = False


def declared(library: Any, specs: tuple[Rollup, ...]) -> list[Any]:
    """Return the benchmark's projections as `projseg.Projection`."""
    return [
        library.Projection(
            spec.name, group_by=list(spec.group_by), aggregators=list(spec.aggregators)
        )
        for spec in specs
    ]


def query_arguments(query: Question) -> dict[str, Any]:
    """Return the arguments of `Table.query`."""
    return {
        "group_by": list(query.group_by),
        "aggregators": list(query.aggregators),
        "columns": list(query.columns) or None,
        "filter": query.filter,
        "interval": "/".join(end.replace(" ", "T") for end in query.interval)
        if query.interval
        else None,
        "order_by": list(query.order_by),
        "limit": query.limit,
    }
