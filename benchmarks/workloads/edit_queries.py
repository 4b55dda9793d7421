"""The queries over edits, one list for every engine, and the four projections that help some.

A query marked `covered_by` can be answered from one of the projections.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from projseg.benchmarks import vocabulary
from projseg.benchmarks.generator import SCHEMA
from projseg.benchmarks.workloads.question import Question, Rollup, Workload

_PROJECTIONS: Final = (
    Rollup("by_channel", ("channel",), ("sum(added) AS total_added", "count(*) AS edits")),
    Rollup(
        "by_hour_channel_country",
        ("date_trunc('HOUR', time) AS hour", "channel", "country"),
        ("sum(added) AS total_added", "count(*) AS edits"),
    ),
    Rollup("users_by_channel", ("channel",), ("approx_count_distinct(user) AS users",)),
    Rollup("by_page", ("page",), ("sum(added) AS total_added", "count(*) AS edits")),
)

_ALL: Final = tuple(SCHEMA.names)
_HOUR: Final = "date_trunc('HOUR', time) AS hour"
_DAY: Final = "date_trunc('DAY', time) AS day"
_EDITS: Final = ("sum(added) AS total_added", "count(*) AS edits")


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _ranked(column: str, *ranks: int) -> str:
    """Return the values of these ranks as SQL literals, separated by commas."""
    values = getattr(vocabulary, column)()
    return _quoted(values[rank].as_py() for rank in ranks)


# The eight of the workload: what every change is measured by.
_CORE: Final = (
    Question("total", (), _EDITS, covered_by="by_channel"),
    Question("by_channel", ("channel",), _EDITS, covered_by="by_channel"),
    Question("by_hour_channel", (_HOUR, "channel"), _EDITS, covered_by="by_hour_channel_country"),
    Question(
        "by_day_channel_of_country",
        (_DAY, "channel"),
        _EDITS,
        filter=f"country = {_ranked('countries', 3)}",
        covered_by="by_hour_channel_country",
    ),
    Question(
        "users_by_channel",
        ("channel",),
        ("approx_count_distinct(user) AS users",),
        covered_by="users_by_channel",
    ),
    Question(
        "top_pages",
        ("page",),
        _EDITS,
        order_by=("total_added DESC", "page"),
        limit=10,
        covered_by="by_page",
    ),
    Question("rows_of_page", columns=_ALL, filter=f"page = {_ranked('pages', 1000)}"),
    Question(
        "four_sums",
        (),
        (
            "sum(added) AS total_added",
            "sum(deleted) AS total_deleted",
            "sum(price) AS total_price",
            "sum(added - deleted) AS net",
        ),
    ),
)

_MEASURES: Final = (
    "count(*) AS edits",
    "sum(added) AS total_added",
    "sum(deleted) AS total_deleted",
)

# One filter of each kind, over base rows unless said otherwise.
_FILTERS: Final = (
    Question("filter_point", (), _MEASURES, filter=f"user = {_ranked('users', 2000)}"),
    Question(
        "filter_in", (), _MEASURES, filter=f"page IN ({_ranked('pages', 5, 50, 500, 5000, 9000)})"
    ),
    Question("filter_range", (), _MEASURES, filter="added >= 5000 AND added < 6000"),
    Question("filter_prefix", ("device",), _MEASURES, filter="page LIKE 'Kal%'"),
    Question(
        "filter_or",
        ("device",),
        _MEASURES,
        filter=(
            f"country = {_ranked('countries', 20)} OR channel = {_ranked('channels', 30)}"
            f" OR user = {_ranked('users', 10)}"
        ),
    ),
    Question(
        "filter_not",
        ("device",),
        _MEASURES,
        filter=f"NOT (robot OR channel IN ({_ranked('channels', 0, 1, 2)}))",
    ),
    Question(
        "filter_hours",
        ("channel",),
        _EDITS,
        interval=("2015-09-10 06:00:00", "2015-09-11 18:00:00"),
        covered_by="by_hour_channel_country",
    ),
)

_GROUPS: Final = (
    Question("by_page", ("page",), _EDITS, covered_by="by_page"),
    Question("by_user", ("user",), _EDITS),
    Question(
        "by_channel_country", ("channel", "country"), _EDITS, covered_by="by_hour_channel_country"
    ),
    Question("by_user_device", ("user", "device"), ("count(*) AS edits",)),
    Question("by_channel_country_device", ("channel", "country", "device"), _EDITS),
    Question(
        "prices_by_country",
        ("country",),
        ("min(price) AS low", "max(price) AS high", "avg(price) AS mean"),
    ),
    Question("users_by_country", ("country",), ("approx_count_distinct(user) AS users",)),
    Question(
        "users_total", (), ("approx_count_distinct(user) AS users",), covered_by="users_by_channel"
    ),
    Question(
        "countries_by_channel",
        ("channel",),
        ("count(DISTINCT country) AS countries",),
        covered_by="by_hour_channel_country",
    ),
    Question("top_users", ("user",), _EDITS, order_by=("edits DESC", "user"), limit=10),
)

_SCANS: Final = (
    Question("rows_of_hour", columns=_ALL, interval=("2015-09-10 06:00:00", "2015-09-10 07:00:00")),
    Question("rows_of_day", columns=_ALL, interval=("2015-09-10 00:00:00", "2015-09-11 00:00:00")),
    Question(
        "three_columns_of_device",
        columns=("page", "added", "price"),
        filter=f"device = {_ranked('devices', 4)} AND robot",
    ),
)

# All rows of one, three and all columns: what a data source costs its engine.
_DRAINS: Final = (
    Question("drain_one_column", columns=("added",), is_drained=True),
    Question("drain_three_columns", columns=("page", "added", "price"), is_drained=True),
    Question("drain_all_columns", columns=_ALL, is_drained=True),
)

EDITS: Final = Workload(
    "edits", SCHEMA, "time", _PROJECTIONS, _CORE + _FILTERS + _GROUPS + _SCANS + _DRAINS
)

# For tables of many small segments, one an hour.
HOURLY_EDITS: Final = Workload(
    "edits",
    SCHEMA,
    "time",
    (
        Rollup(
            "by_channel",
            ("channel", "robot"),
            ("sum(added) AS added", "sum(price) AS price", "count(*) AS edits"),
        ),
        Rollup("by_country", ("country",), ("sum(deleted) AS deleted", "max(added) AS most")),
    ),
    (
        Question("total", (), ("sum(added) AS added",), covered_by="by_channel"),
        Question("by_channel", ("channel",), ("sum(added) AS added",), covered_by="by_channel"),
        Question(
            "by_channel_filtered",
            ("channel",),
            ("sum(added) AS added", "sum(price) AS price"),
            filter="robot",
            covered_by="by_channel",
        ),
        Question(
            "by_country",
            ("country",),
            ("sum(deleted) AS deleted", "max(added) AS most"),
            covered_by="by_country",
        ),
        Question("by_hour", (_HOUR,), ("count(*) AS edits",)),
        Question(
            "top_pages",
            ("page",),
            ("sum(added) AS added",),
            order_by=("added DESC", "page"),
            limit=5,
        ),
    ),
    granularity="hour",
)
