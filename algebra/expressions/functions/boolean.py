"""Three-valued logic; which of AND, OR and CASE's operands are computed is decided in `lazy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.rule import Datum, Evaluator
from projseg.algebra.expressions.tree import Call, Expression


def logical(function: str, arguments: Sequence[Expression], zone: str) -> Expression:
    """Return the node of AND, OR or NOT over operands that are or become boolean."""
    return Call(pa.bool_(), function, tuple(cast_to(a, pa.bool_(), zone) for a in arguments))


def _not(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.invert(arguments[0])


EVALUATORS: Final[dict[str, Evaluator]] = {"not": _not}
