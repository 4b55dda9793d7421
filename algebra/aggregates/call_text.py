"""An aggregate call as Spark SQL text that `bind_aggregate` reads back."""

from __future__ import annotations

import pyarrow as pa

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES, DISTINCT_OF
from projseg.algebra.aggregates.aggregate_parameters import parameter_text
from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.expressions.text.render import to_sql
from projseg.algebra.expressions.tree import Literal


def call_text(call: AggregateCall) -> str:
    """Return the canonical text of a call, without its name."""
    name = call.function
    inputs = [to_sql(argument) for argument in call.arguments]
    if AGGREGATES[name].goes_by_time:
        inputs = inputs[:1]
    if name in DISTINCT_OF:
        name = DISTINCT_OF[name]
        inputs[0] = f"DISTINCT {inputs[0]}"
    inputs += map(_written, call.parameters)
    suffix = "" if call.filter is None else f" FILTER (WHERE {to_sql(call.filter)})"
    return f"{name}({', '.join(inputs) or '*'}){suffix}"


def _written(parameter: object) -> str:
    is_text = isinstance(parameter, str)
    return to_sql(Literal(pa.string(), parameter)) if is_text else parameter_text(parameter)
