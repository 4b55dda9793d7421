"""Take an aggregate call apart into primitives."""

from __future__ import annotations

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregates.primitive import Primitive


def decompose(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives whose states make a call's value, in the order of `finish_call`."""
    known = AGGREGATES[call.function]
    parameters = known.primitive_parameters(call.parameters)
    is_of_tuples = len(call.arguments) > 1 and bool(known.tuple_primitives)
    functions = known.tuple_primitives if is_of_tuples else known.primitives
    return tuple(
        Primitive(function, call.arguments, call.filter, parameters) for function in functions
    )
