"""Take an aggregate call apart into primitives."""

from __future__ import annotations

from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregates.functions import AGGREGATES
from projseg.algebra.aggregates.primitive import Primitive


def decompose(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives whose states make a call's value, in the order of `finish_call`."""
    known = AGGREGATES[call.function]
    parameters = (*known.primitive_parameters, *call.parameters)
    return tuple(
        Primitive(function, call.arguments, call.filter, parameters)
        for function in known.primitives
    )
