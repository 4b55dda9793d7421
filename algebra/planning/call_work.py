"""What functions that no block program computes cost a row, here and in Spark over its own columns.

`projseg bench run functions shapes=columns roles=aggregate peers=spark-parquet work=FILE` measures
the table over values that differ in each row.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.tree import Call, Expression
from projseg.segment_format.logical_types import is_text


class CallWork(msgspec.Struct, frozen=True, array_like=True):
    """Nanoseconds of one processor for a row: here, and in Spark, if that is known."""

    own: float
    spark: float | None = None


_TABLE: Final = msgspec.json.decode(
    pkgutil.get_data(__package__, "call_work.json") or b"{}", type=dict[str, CallWork]
)


def work_name(call: Call) -> str:
    """Return the name under which the table has a call: the function, and its argument's type."""
    kind = call.arguments[0].type if call.arguments else pa.null()
    if is_text(kind):
        return f"{call.function} of texts"
    if pa.types.is_decimal(kind):
        return f"{call.function} of decimals"
    return f"{call.function} of others"


def measured_work(call: Call) -> CallWork | None:
    """Return the nanoseconds a row of a call without its arguments; None if not measured."""
    return _TABLE.get(work_name(call))


def saved_by_spark(expressions: Iterable[Expression]) -> tuple[float, Call | None]:
    """Return the nanoseconds a row by which Spark computes expressions faster.

    This is the sum over all calls, each once, and the call that takes most of it; 0 and None if the
    engine is as fast.
    """
    calls = {node for one in expressions for node in one.walk() if isinstance(node, Call)}
    saved: dict[Call, float] = {}
    for call in calls:
        work = measured_work(call)
        if work is not None and work.spark is not None and call.columns:
            saved[call] = work.own - work.spark
    total = sum(saved.values())
    return (total, max(saved, key=saved.__getitem__)) if total > 0 else (0.0, None)
