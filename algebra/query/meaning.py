"""What tells questions apart before they are bound, so that what they mean can be kept."""

from __future__ import annotations

from typing import Any, NamedTuple

from projseg.algebra.expressions.arguments import Arguments
from projseg.algebra.expressions.instant import may_depend_on_instant
from projseg.algebra.query.request import Query, arguments_of
from projseg.algebra.time.interval import Interval


class Meaning(NamedTuple):
    """What queries have in common only if they mean the same of any table.

    Parameters
    ----------
    text : str
        All that is said in texts.
    arguments : Arguments or None
        The values of the parameters in them.
    """

    text: str
    arguments: Arguments | None

    @property
    def byte_count(self) -> int:
        """About how much memory it takes."""
        return len(self.text) + (0 if self.arguments is None else self.arguments.byte_count)


def meaning_of(query: Query) -> Meaning:
    """Return what tells a query from others.

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
    return Meaning(repr((*lists, *others, query.context, interval)), arguments_of(query))


def depends_on_instant(query: Query) -> bool:
    """Whether a query may call `now()` or the like."""
    lists = (query.group_by, query.aggregators, query.order_by, query.columns or ())
    texts = [text for one in lists for text in one]
    return any(map(may_depend_on_instant, (*texts, query.filter or "", query.having or "")))
