"""Compare with Spark near changes of clocks: for which changes, with which settings and texts."""

import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from clock_cases import changes_of

from projseg.algebra.time.duration import DAY, SECOND
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import zone_table

START, END = (Interval.parse((f"{year}-01-01",) * 2).start_us for year in (1840, 2045))
TIME_ZONE = "spark.sql.session.timeZone"
# While planning, Spark evaluates expressions over rows of the driver, always by interpretation.
_AS_A_TASK = {
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    )
}
GENERATED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    **_AS_A_TASK,
}
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    **_AS_A_TASK,
}
_PERIOD_START = re.compile(r"date_trunc\('(YEAR|QUARTER|MONTH|WEEK)', ((?:[^()]|\([^()]*\))*)\)")


@contextmanager
def settings(spark, values):
    """Set options of a session within the block, and restore them."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def agreed_changes(spark, zone):
    """Return a zone's changes of clock near which Java's time zone database and ours agree.

    The two may be of different releases. They must agree from two years before a change, in which
    buckets of times a year before it start, to some weeks after it.
    """
    ours = {
        (at, int(offset))
        for at, offset in zip(
            zone_table(zone).starts[1:], zone_table(zone).offsets[1:], strict=True
        )
        if START - 400 * DAY <= at < END
    }
    java = spark._jvm.java.time
    rules = java.ZoneId.of(zone).getRules()
    at = java.Instant.ofEpochSecond((START - 400 * DAY) // SECOND)
    theirs = set()
    while (change := rules.nextTransition(at)) is not None:
        at = change.getInstant()
        micros = at.getEpochSecond() * SECOND
        if micros >= END:
            break
        theirs.add((micros, change.getOffsetAfter().getTotalSeconds() * SECOND))
    differing = [at for at, _ in ours ^ theirs]
    return [
        at
        for at in changes_of(zone, START, END - 50 * DAY)
        if not any(-800 * DAY < other - at < 60 * DAY for other in differing)
    ]


def period_starts_shown_twice(zone):
    """Return the changes of clock after which a Monday or the first of a month begins again."""
    table = zone_table(zone)
    found = []
    for at, before, after in zip(
        table.starts[1:].tolist(),
        table.offsets[:-1].tolist(),
        table.offsets[1:].tolist(),
        strict=True,
    ):
        midnight = (at + before - 1) // DAY * DAY
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=midnight)
        if at + after <= midnight and (day.weekday() == 0 or day.day == 1):
            found.append(at)
    return found


def knows(spark, sql):
    """Whether Spark has all functions of a text; releases before 4.2 lack `time_bucket`."""
    return "time_bucket" not in sql or spark.catalog.functionExists("time_bucket")


def by_dates(sql):
    """Return a text in which weeks, months, quarters and years begin with their first date.

    That is the meaning of `date_trunc` in every release of Spark except 4.3.0: see
    tests/spark/test_repeated_midnights.py.
    """
    return _PERIOD_START.sub(r"cast(trunc(to_date(cast(\2 AS timestamp)), '\1') AS timestamp)", sql)
