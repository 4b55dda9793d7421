"""Fields of structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.functions.datum import Datum
from projseg.algebra.expressions.functions.scalar_function import (
    Nulls,
    ScalarFunction,
    Writer,
    never,
    unordered,
)
from projseg.algebra.expressions.text.sql_words import quoted_name
from projseg.algebra.expressions.tree import Call


def _field(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return a field's values; null where the struct is null."""
    names = [field.name for field in call.arguments[0].type]
    return pc.struct_field(arguments[0], [names.index(str(call.parameters[0]))])


def _field_text(call: Call, write: Writer) -> str:
    return f"{write(call.arguments[0])}.{quoted_name(str(call.parameters[0]))}"


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "field": ScalarFunction(
        evaluate=_field,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=never,
        order=unordered,
        text=_field_text,
    )
}
