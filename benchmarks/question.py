"""A question of the benchmark in one neutral form, and a projection likewise.

A query is written once, as the arguments of `projseg.Table.query` in Spark SQL expression text. The
statement for a peer is composed from the same parts, so that no engine is asked something else.
The projections of a workload, and no other knowledge of its queries, are given to the engines that
can hold projections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from projseg.benchmarks.dataset import DATASETS, Dataset

__all__ = ["Question", "Rollup"]


@dataclass(frozen=True, slots=True)
class Rollup:
    """A projection, or a rollup made by hand: grouping columns and aggregators as Spark SQL."""

    name: str
    group_by: tuple[str, ...]
    aggregators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One question, as the arguments of `projseg.Table.query`.

    Parameters
    ----------
    name : str
        Stable: results of different runs are compared by it, and unlike that of any other query.
    group_by, aggregators, columns, order_by : tuple of str
        Spark SQL expression texts; no `group_by` and no `aggregators` is a row scan of `columns`.
    filter : str or None
        A condition.
    interval : (str, str) or None
        Half-open, ISO 8601 in UTC without the zone.
    limit : int or None
        Rows kept after ordering; the order is total, so that one answer is right.
    covered_by : str or None
        A projection of the workload that can answer it.
    is_drained : bool
        Every row is produced and thrown away, nothing is kept: for answers as large as the table.
    table : str
        Name of the dataset that it is asked of.
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

    @property
    def dataset(self) -> Dataset:
        """The table that it is asked of."""
        return DATASETS[self.table]

    @property
    def is_row_scan(self) -> bool:
        """Whether rows are wanted, not groups."""
        return not self.group_by and not self.aggregators

    @property
    def outputs(self) -> tuple[str, ...]:
        """The expressions of the answer's columns, in order."""
        return self.group_by + self.aggregators or self.columns or tuple(self.dataset.schema.names)

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

    def where(self) -> str | None:
        """Return the filter and the interval as one condition, for peers that know no interval."""
        parts = [f"({self.filter})"] if self.filter else []
        if self.interval:
            start, end = self.interval
            time = self.dataset.time_column
            parts.append(f"{time} >= TIMESTAMP '{start}' AND {time} < TIMESTAMP '{end}'")
        return " AND ".join(parts) or None
