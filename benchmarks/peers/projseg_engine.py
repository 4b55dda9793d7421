"""projseg through its own `Table.query`, with the workload's projections and without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from projseg.benchmarks.peers.engine import Client, Engine
from projseg.benchmarks.workload import Question, Rollup, Source, Workload


class ProjsegProjections(Engine):
    """A table with the workload's projections."""

    name = "projseg"
    is_peer = False

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        import projseg  # imported as a user does, in the engine's process: cold start counts it

        self._projseg: Any = projseg
        self._table: Any = None

    def load(self, source: Source) -> None:
        """Create the table and append the Arrow stream."""
        granularity = self.workload.granularity
        self._table = self._projseg.Table.create(
            self._location,
            self.workload.schema,
            time_column=self.workload.time_column,
            **({"segment_granularity": granularity} if granularity else {}),
            projections=declared(self.projections),
        )
        self._table.append(source.reader())

    def sizes(self) -> tuple[int, int]:
        """Split the files' bytes by the sizes of its projections in the table."""
        everything, _ = super().sizes()
        projections = sum(self._table.projection_stats()["bytes"].to_pylist())
        return everything - projections, projections

    def open(self) -> None:
        """Open the table."""
        self._table = self._projseg.Table(self._location)

    def run(self, query: Question) -> pa.Table:
        """Ask the table."""
        answer: pa.Table = self._table.query(**query_arguments(query), context=self._context())
        return answer

    def client(self) -> Client:
        """Share the table."""
        one = {"threads": 1}
        return lambda query: self._table.query(**query_arguments(query), context=one)

    def drain(self, query: Question) -> None:
        """Scan."""
        arguments = query_arguments(query)
        wanted = {name: arguments[name] for name in ("columns", "filter", "interval", "limit")}
        for _ in self._table.scan(**wanted, context=self._context()):
            pass

    def plan(self, query: Question) -> None:
        """Explain."""
        self._table.explain(**query_arguments(query), context=self._context())

    def work(self, query: Question) -> dict[str, Any]:
        """Return rows, bytes and sources by `explain(analyze=True)`."""
        plan = self._table.explain(
            **query_arguments(query), context=self._context(), analyze=True
        ).segments
        sources = Counter(source or "base rows" for source in plan["source"].to_pylist())
        return {
            "rows read": sum(filter(None, plan["rows"].to_pylist())),
            "read bytes": sum(filter(None, plan["bytes"].to_pylist())),
            "answered from": ", ".join(f"{source} ({count})" for source, count in sources.items()),
        }

    @property
    def _location(self) -> str:
        return str(self.folder / self.workload.name)

    def _context(self) -> dict[str, object]:
        return {"threads": self.thread_count}


class ProjsegBase(ProjsegProjections):
    """A table without projections."""

    name = "projseg-base"
    has_projections = False


class ProjsegPool(ProjsegProjections):
    """A pool of processes, made of a table that has answered, as its documentation advises."""

    name = "projseg-pool"
    _pool: Any = None

    def client(self) -> Client:
        """Share the pool of as many workers as threads."""
        if self._pool is None:
            self._pool = self._projseg.QueryPool(self._table, workers=self.thread_count, threads=1)
        return lambda query: self._pool.query(**query_arguments(query))

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.close()


def declared(specs: tuple[Rollup, ...]) -> list[Any]:
    """Return projections as `projseg.Projection`."""
    import projseg

    return [
        projseg.Projection(one.name, group_by=list(one.group_by), aggregators=list(one.aggregators))
        for one in specs
    ]


def query_arguments(query: Question) -> dict[str, Any]:
    """Return the arguments of `Table.query`."""
    return {
        "group_by": list(query.group_by),
        "aggregators": list(query.aggregators),
        "columns": list(query.columns) or None,
        "filter": query.filter,
        "interval": query.interval_text,
        "order_by": list(query.order_by),
        "limit": query.limit,
    }
