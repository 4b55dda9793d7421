"""An aggregate call as Spark SQL text that `bind_aggregate` reads back."""

from __future__ import annotations

from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.expressions.render import to_sql

_BY_TIME = ("first", "last")


def call_text(call: AggregateCall) -> str:
    """Return the canonical text of a call, without its name."""
    name, is_distinct = call.function, call.function.endswith("_distinct")
    inputs = [to_sql(argument) for argument in call.arguments]
    if name in _BY_TIME:
        inputs = inputs[:1]
    if is_distinct and name != "approx_count_distinct":
        name = name.removesuffix("_distinct")
        inputs[0] = f"DISTINCT {inputs[0]}"
    inputs += [str(parameter) for parameter in call.parameters]
    suffix = "" if call.filter is None else f" FILTER (WHERE {to_sql(call.filter)})"
    return f"{name}({', '.join(inputs) or '*'}){suffix}"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return "`" + name.replace("`", "``") + "`"
