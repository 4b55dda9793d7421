"""`advise`: from a log of queries to what a table should store for them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from projseg.advisor.advice import Advice
from projseg.advisor.advice_report import slower_than_before
from projseg.advisor.advising import Advising
from projseg.advisor.log_records import LogLike, workload_of
from projseg.advisor.measured_advice import measured_advice
from projseg.advisor.session_log import session_table, session_workload
from projseg.advisor.spent_time import OnProgress, SpentTime
from projseg.errors import InvalidInputError
from projseg.errors import listed as listed_items
from projseg.memory.memory_pool import parse_byte_count
from projseg.reader.query_log.read_log import Since
from projseg.table import Table
from projseg.table.table_version import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: Final = ("projection", "rows", "index", "view", "drop", "compact")
_PERCENT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*%\s*")


def advise(
    table: Table | SparkSession,
    log: LogLike | DataFrame | str,
    *,
    budget: str = "10%",
    since: Since = "30 days",
    kinds: Sequence[str] = KINDS,
    seconds: float = 60,
    measure: bool = False,
    on_progress: OnProgress | None = None,
) -> Advice:
    """Return what a table should store for its logged queries, and what it stores unused.

    The planner that answers queries plans the logged queries as if candidate projections, indexes
    and views existed. Their size is measured by building them for some segments in memory. Nothing
    is changed. The function may run in any thread.

    Parameters
    ----------
    table : Table or SparkSession
        The table. Or a session, and then `log` is the name or path of a table: the queries that the
        session's driver remembers are the log, and `since` has no effect.
    log : str, path, pa.Table or DataFrame
        The folder of a query log or a file of it, or records as `read_log` returns them; or a file
        `.sql` of SELECTs that end with `;`. A comment `-- weight: 40` before a SELECT makes it
        count 40 times. Each SELECT is run a few times, and the fastest run counts.
    budget : str
        The most bytes of projections, indexes and views together, existing ones included: a share
        of the bytes of the rows, `10%`, or bytes, `500M`.
    since : str, timedelta, datetime or None
        As in `read_log`.
    kinds : sequence of str
        Which kinds of advice are wanted: some of `projection` (groups), `rows` (rows in another
        order), `index`, `view`, `drop` and `compact`.
    seconds : float
        The most seconds of the search, after which the best advice so far is returned.
        `not_examined` lists what there was no time for.
    measure : bool
        Also build the advice in a copy of some segments, in a temporary folder, and run a query of
        every shape with and without it. `shapes` then have the milliseconds, and whether the
        answers are equal. This takes time beyond `seconds`.
    on_progress : callable or None
        A function that is called with the number of candidates that were measured in one segment,
        and the number of all candidates. An error that it raises ends the search and is raised; so
        does a deadline of the thread.

    Returns
    -------
    Advice
        The advice; `print` shows a line for each thing to do, and `to_json` has every figure.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOG, PROJSEG_BAD_BUDGET, PROJSEG_BAD_ARGUMENT.
    StorageError, CorruptionError
        If segments that are sampled cannot be read.
    """
    wanted = listed_items("kinds", kinds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"seconds is {seconds!r:.80}; give a number of seconds"
        )
    for kind in wanted:
        if kind not in KINDS:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"kinds has {kind!r}; the kinds are {', '.join(KINDS)}"
            )
    spent = SpentTime(seconds, on_progress)
    if not isinstance(table, TableVersion):
        spark, table = table, session_table(table, str(log))
        log = session_workload(spark, table)
    elif hasattr(log, "toArrow"):
        log = log.toArrow()
    work = workload_of(table, log, since)
    worse = slower_than_before(table, log) if "drop" in wanted else {}
    advising = Advising(table, work, worse, frozenset(wanted), spent)
    advice = advising.advice(budget_of(budget, advising.base_bytes))
    return measured_advice(advice, table, advising.shapes) if measure else advice


def budget_of(text: str, base_bytes: int) -> int:
    """Return the bytes of a budget, `10%` of the bytes of rows or `500MB`; PROJSEG_BAD_BUDGET."""
    share = _PERCENT.fullmatch(str(text))
    if share is not None:
        return round(float(share[1]) / 100 * base_bytes)
    try:
        return parse_byte_count(str(text), "budget")
    except InvalidInputError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_BUDGET", f"budget is {text!r:.80}; write 10% of the rows' bytes, or 500M"
        ) from error
