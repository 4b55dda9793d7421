"""What tells questions apart before they are bound, so that what they mean can be kept."""

from __future__ import annotations

from typing import Any

from projseg.algebra.expressions.instant import may_depend_on_instant
from projseg.algebra.query.request import Query
from projseg.algebra.time.interval import Interval


def meaning_of(query: Query) -> str:
    """Return a text that queries have in common only if they mean the same of any table.

    A query that may depend on the instant means something else each time it is asked.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_INTERVAL or PROJSEG_BAD_PERIOD.
    """
    interval: Any = query.interval
    if interval is not None and not isinstance(interval, str | Interval):
        # Datetimes have zones of any kind, and the table's time column says whose clock counts.
        zones = ("UTC", query.query_context.zone)
        interval = [Interval.parse(interval, zone) for zone in zones]
    lists = (query.group_by, query.aggregators, query.order_by, query.columns)
    others = (query.filter, query.having, query.limit, query.granularity, query.aggregation)
    return repr((*lists, *others, query.context, interval))


def depends_on_instant(query: Query) -> bool:
    """Whether a query may call `now()` or the like."""
    lists = (query.group_by, query.aggregators, query.order_by, query.columns or ())
    texts = [text for one in lists for text in one]
    return any(map(may_depend_on_instant, (*texts, query.filter or "", query.having or "")))
