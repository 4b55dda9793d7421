"""What tests of the extension of Spark's optimizer share."""

from __future__ import annotations

import math
import subprocess
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Context, Decimal


@contextmanager
def using(spark, **named):
    """Set `spark.projseg.*`, or other settings by their whole names, for a while."""
    named = {
        name if name.startswith("spark.") else f"spark.projseg.{name.replace('_', '.')}": value
        for name, value in named.items()
    }
    before = {name: spark.conf.get(name, None) for name in named}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def is_same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        is_close = math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
        return is_close or (math.isnan(one) and math.isnan(other))
    return one == other


def time_by_double(micros, kind):
    """Return what `CAST(t AS DECIMAL)` is in Spark 4.0: later releases keep all digits."""
    if micros is None:
        return None
    unit, wide = Decimal(1).scaleb(-kind.scale), Context(prec=76, rounding=ROUND_HALF_UP)
    found = Decimal(repr(micros / 1e6)).quantize(unit, context=wide)
    return found if abs(found) < 10 ** (kind.precision - kind.scale) else None


def assert_same(found, expected):
    assert found.schema == expected.schema
    rows, wanted = (sorted(map(tuple, one.collect()), key=repr) for one in (found, expected))
    assert len(rows) == len(wanted)
    for row, other in zip(rows, wanted, strict=True):
        assert all(map(is_same, row, other)), (row, other)


def plan_of(frame):
    return frame._jdf.queryExecution().optimizedPlan().toString()


def engines(spark):
    driver = spark._jvm.java.lang.ProcessHandle.current().pid()
    found = subprocess.run(
        ["pgrep", "-P", str(driver), "-f", "projseg.spark_engine.engine"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line) for line in found.stdout.split()]
