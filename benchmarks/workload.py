"""What is asked of which rows: the closed list of workloads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from projseg.benchmarks import edit_queries, lineitem_queries
from projseg.benchmarks.dataset import EDITS, LINEITEM, Dataset
from projseg.benchmarks.question import Question, Rollup
from projseg.errors import InvalidInputError, did_you_mean

__all__ = ["WORKLOADS", "Workload", "workload_named"]


@dataclass(frozen=True, slots=True)
class Workload:
    """A dataset, the projections that engines may hold of it, and its queries."""

    dataset: Dataset
    projections: tuple[Rollup, ...]
    queries: tuple[Question, ...]

    @property
    def name(self) -> str:
        """The dataset's."""
        return self.dataset.name

    def select(self, names: Iterable[str]) -> tuple[Question, ...]:
        """Return the queries of these names in the list's order; all of them for no name.

        Raises
        ------
        InvalidInputError
            For a name that is not in the list.
        """
        by_name = {query.name: query for query in self.queries}
        wanted = list(names) or list(by_name)
        for name in wanted:
            if name not in by_name:
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT",
                    f"'{name}' is not a query over {self.name}{did_you_mean(name, by_name)}",
                )
        return tuple(query for query in self.queries if query.name in wanted)


WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        Workload(EDITS, edit_queries.PROJECTIONS, edit_queries.QUERIES),
        Workload(LINEITEM, lineitem_queries.PROJECTIONS, lineitem_queries.QUERIES),
    )
}


def workload_named(name: str) -> Workload:
    """Return the workload of a name.

    Raises
    ------
    InvalidInputError
        For a name that is not in the list.
    """
    if name not in WORKLOADS:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"'{name}' is not a workload{did_you_mean(name, WORKLOADS)};"
            f" there are {', '.join(WORKLOADS)}",
        )
    return WORKLOADS[name]
