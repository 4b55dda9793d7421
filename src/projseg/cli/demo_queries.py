"""The table and the questions of `projseg demo`, with and without Spark.

No sketches: on a machine's first run their kernels take as long to compile as all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from projseg.table import Table

PROJECTIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "hourly",
        "sql": "SELECT date_trunc('HOUR', time) AS hour, sum(added) AS added, count(*) AS edits "
        "GROUP BY ALL",
    },
    {
        "name": "channel_daily",
        "sql": "SELECT date_trunc('DAY', time) AS day, channel, sum(added) AS added, "
        "sum(deleted) AS deleted, count(*) AS edits GROUP BY ALL",
    },
    {
        "name": "country_device",
        "sql": "SELECT country, device, sum(added) AS added, max(added) AS largest, "
        "count(*) AS edits GROUP BY ALL",
    },
)
BASE_ONLY: Final = {"noProjections": True}
TABLE_OPTIONS: Final[dict[str, Any]] = {
    "time_column": "time",
    "segment_granularity": "P10D",
    "cluster_by": ("channel", "page"),
}


@dataclass(frozen=True)
class DemoQuery:
    """One question of the demo.

    Parameters
    ----------
    title : str
        What is asked, in words.
    group_by, aggregators : tuple of str
        As `Table.query` takes them.
    filter : str or None
        A condition.
    interval : str or None
        start/end in ISO 8601.
    """

    title: str
    group_by: tuple[str, ...] = ()
    aggregators: tuple[str, ...] = ()
    filter: str | None = None
    interval: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `Table.query`."""
        return {
            "group_by": self.group_by,
            "aggregators": self.aggregators,
            "filter": self.filter,
            "interval": self.interval,
        }


QUERIES: Final = (
    DemoQuery("all edits, characters added", (), ("count(*) AS edits", "sum(added) AS added")),
    DemoQuery(
        "by hour",
        ("date_trunc('HOUR', time) AS hour",),
        ("count(*) AS edits", "sum(added) AS added"),
    ),
    DemoQuery("by channel", ("channel",), ("count(*) AS edits", "avg(added) AS mean")),
    DemoQuery(
        "by day and channel, one week",
        ("date_trunc('DAY', time) AS day", "channel"),
        ("sum(deleted) AS deleted",),
        interval="2015-09-07/2015-09-14",
    ),
    DemoQuery(
        "largest edit by country, not desktop",
        ("country",),
        ("max(added) AS largest", "count(*) AS edits"),
        filter="device <> 'desktop'",
    ),
    DemoQuery("by page (no projection fits)", ("page",), ("sum(added) AS added",)),
)


def rows_read(table: Table, query: DemoQuery) -> dict[str, Any]:
    """Return how many rows a query reads without and with projections, and which are used."""
    explained = table.explain(**query.arguments).segments
    sources = {source or "base rows" for source in explained["source"].to_pylist()}
    base_rows = table.explain(**query.arguments, context=BASE_ONLY).segments["rows"]
    return {
        "base rows": sum(base_rows.to_pylist()),
        "rows read": sum(explained["rows"].to_pylist()),
        "source": ", ".join(sorted(sources)),
    }
