"""Aggregate calls as primitives, and partial answers as data: the columns of their states.

Each task returns its groups with states. Spark groups them again, merges the states and finishes;
what it must compute is Spark SQL, made here from the records of functions and primitives.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.call import AggregateCall, result_type
from projseg.algebra.aggregates.primitive import Primitive, kll_item
from projseg.algebra.expressions.sql_words import backquoted
from projseg.errors import UnsupportedFeatureError
from projseg.segment_format.layout.logical_types import type_name


def decompose(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives whose states make a call's value, in the order of `finish_call`."""
    known = AGGREGATES[call.function]
    parameters = known.primitive_parameters(call.parameters)
    is_of_tuples = len(call.arguments) > 1 and bool(known.tuple_primitives)
    functions = known.tuple_primitives if is_of_tuples else known.primitives
    return tuple(
        Primitive(function, call.arguments, call.filter, parameters) for function in functions
    )


class StateColumn(msgspec.Struct, frozen=True):
    """One column of a partial answer.

    Parameters
    ----------
    name : str
        The aggregate's name if its state is one column, else `name.part`.
    type : pa.DataType
        Its Arrow type.
    primitive : Primitive
        The state that it belongs to.
    part : str
        Which of the state's columns it is.
    merged : str
        Spark SQL that merges the column over rows of the same group.
    """

    name: str
    type: pa.DataType
    primitive: Primitive
    part: str
    merged: str


class MergeableAggregate(msgspec.Struct, frozen=True):
    """An aggregate as states that Spark can merge.

    Parameters
    ----------
    name : str
        The output's name.
    type : pa.DataType
        The type of its value.
    states : tuple of StateColumn
        Its columns in a partial answer.
    value : str
        Spark SQL that computes the value from those columns in a grouped query.
    """

    name: str
    type: pa.DataType
    states: tuple[StateColumn, ...]
    value: str


def mergeable(call: AggregateCall) -> MergeableAggregate:
    """Return the states of an aggregate and how Spark computes its value from them.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_NOT_MERGEABLE if Spark cannot merge them exactly.
    """
    known = AGGREGATES[call.function]
    primitives = decompose(call)
    accepts = known.finish is not None and (
        not call.arguments or known.finish.accepts(call.arguments[0].type)
    )
    if known.finish is None or not accepts or not all(p.kind.merged for p in primitives):
        raise UnsupportedFeatureError(
            "PROJSEG_NOT_MERGEABLE",
            f"the states of '{call.name}' of several tasks cannot be merged exactly outside "
            "projseg; ask for a final answer",
        )
    fields = [(p, part, type_) for p in primitives for part, type_ in p.fields]
    names = {
        part: call.name if len(fields) == 1 else f"{call.name}.{part}" for _, part, _ in fields
    }
    quoted = {part: backquoted(name) for part, name in names.items()}
    states = tuple(
        StateColumn(
            name=names[part],
            type=type_,
            primitive=primitive,
            part=part,
            merged=primitive.kind.merged[part].format(
                **quoted,
                parameter=next(iter(primitive.parameters), ""),
                item=type_name(kll_item(primitive.arguments[0].type))
                if primitive.arguments
                else "",
            ),
        )
        for primitive, part, type_ in fields
    )
    final = result_type(call)
    merged = {state.part: state.merged for state in states}
    value = known.finish.sql.format(**merged, type=type_name(final))
    return MergeableAggregate(call.name, final, states, value)
