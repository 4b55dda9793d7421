"""What tells questions apart before they are bound, so that what they mean can be kept."""

from __future__ import annotations

from typing import Any, NamedTuple

from projseg.algebra.expressions.binder_names import may_depend_on_instant
from projseg.algebra.expressions.sql_parameters import Arguments, parameter_names
from projseg.algebra.query.request import Query, arguments_of, output_texts
from projseg.algebra.time.interval import Interval


class Meaning(NamedTuple):
    """What queries have in common only if they mean the same of any table.

    Parameters
    ----------
    outputs : str
        All that is said in texts but for the rows that are asked for.
    rows : str
        The filter and the interval.
    arguments : Arguments or None
        The values of the parameters in them.
    """

    outputs: str
    rows: str
    arguments: Arguments | None

    @property
    def byte_count(self) -> int:
        """About how much memory it takes."""
        text_count = len(self.outputs) + len(self.rows)
        return text_count + (0 if self.arguments is None else self.arguments.byte_count)


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
    rows = repr((query.filter, interval))
    return Meaning(repr(_output_parts(query)), rows, arguments_of(query))


def meaning_of_outputs(query: Query) -> Meaning:
    """Return what tells a query, whose parameters all have names, from others but for its rows.

    Queries that differ in filter, interval and the values in the filter have it in common.
    """
    given = arguments_of(query)
    if given is not None:
        names = frozenset[str]().union(*map(parameter_names, output_texts(query)))
        given = given.only(names)
    return Meaning(repr(_output_parts(query)), "", given)


def depends_on_instant(query: Query) -> bool:
    """Whether a query may call `now()` or the like."""
    texts = (*output_texts(query), query.filter)
    return any(may_depend_on_instant(text) for text in texts if text is not None)


def _output_parts(query: Query) -> tuple[object, ...]:
    lists = (query.group_by, query.aggregators, query.order_by, query.columns)
    others = (query.having, query.limit, query.granularity, query.aggregation, query.context)
    return (*lists, *others, *((join, join.version) for join in query.joins))
