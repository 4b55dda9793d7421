"""Fields of structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.functions.rule import Datum, Evaluator
from projseg.algebra.expressions.tree import Call


def _field(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return a field's values; null where the struct is null."""
    names = [field.name for field in call.arguments[0].type]
    return pc.struct_field(arguments[0], [names.index(str(call.parameters[0]))])


EVALUATORS: Final[dict[str, Evaluator]] = {"field": _field}
