"""Whether an expression of a time has one value in each bucket, computed from the bucket's start.

That of one which rises or falls with the time is decided by its values at the ends of buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.proofs.exact_values import is_ordered
from projseg.algebra.time.granularity import Granularity
from projseg.errors import EvaluationError
from projseg.segment_format.vectors.arrow_arrays import primitive_array

_BUCKETS_MAX: Final = 1 << 16


def ordered_parts(expression: Expression, moment: Column) -> Iterator[Expression]:
    """Yield the largest parts of an expression that rise or fall with a time, but not itself."""
    if not isinstance(expression, Call):
        return
    if expression.columns == {moment.name} and is_ordered(expression):
        yield expression
        return
    for argument in expression.arguments:
        yield from ordered_parts(argument, moment)


@lru_cache(maxsize=4096)
def is_steady(expression: Expression, buckets: Granularity, low: int, end: int) -> bool:
    """Whether an ordered expression has in each bucket one value, that at the bucket's start.

    Parameters
    ----------
    expression : Expression
        One of `ordered_parts`.
    buckets : Granularity
        The buckets.
    low, end : int
        The times that count, in microseconds: from `low`, before `end`.
    """
    if (end - low) // max(buckets.length_micros, 1) > _BUCKETS_MAX:
        return False
    begins, starts = buckets.pieces(low, end)
    ends = np.append(begins[1:], end) - 1
    (moment,) = {node for node in expression.walk() if isinstance(node, Column)}
    times = primitive_array(np.concatenate([begins, ends, starts]).astype(np.int64))
    columns = {moment.name: times.cast(moment.type)}
    try:
        found = evaluate(expression, columns, len(times))
    except EvaluationError:
        return False
    count = len(begins)
    first = found.slice(0, count)
    return bool(
        first.equals(found.slice(count, count)) and first.equals(found.slice(2 * count, count))
    )
