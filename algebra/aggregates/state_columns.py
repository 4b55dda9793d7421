"""The columns of states: an aggregate's in partial answers, and their names in projections.

A call is decomposed into primitives. Each task returns its groups with states. Spark groups them
again, merges the states and finishes; what it must compute is Spark SQL, made here from the records
of functions and primitives.

Names of a projection's stored columns are canonical text. They do not depend on output names: when
an alias changes, a definition stays the same, and so must the columns in older segments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa
import xxhash

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.parse_aggregate import AggregateCall, result_type
from projseg.algebra.aggregates.primitive import Primitive, kll_item
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.tree import Column, Expression
from projseg.errors import UnsupportedFeatureError
from projseg.segment_format.format_limits import name_problem
from projseg.segment_format.logical_types import type_name

_READABLE_CHARACTERS: Final = 48
_NAMES_KEPT: Final = 4096  # each question asks for those of every segment that it reads


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
    """One column of a partial answer, named as its aggregate, or `name.part` if there are several.

    `merged` is Spark SQL that merges the column over rows of the same group.
    """

    name: str
    type: pa.DataType
    primitive: Primitive
    part: str
    merged: str


class MergeableAggregate(msgspec.Struct, frozen=True):
    """An aggregate as states that Spark can merge.

    `value` is Spark SQL that computes it from the state columns in a grouped query.
    """

    name: str
    type: pa.DataType
    states: tuple[StateColumn, ...]
    value: str


def mergeable(call: AggregateCall) -> MergeableAggregate:
    """Return the states of an aggregate and how Spark computes its value from them."""
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


@lru_cache(maxsize=_NAMES_KEPT)
def stored_column(expression: Expression) -> Column:
    """Return the stored grouping column of an expression."""
    return Column(expression.type, _short(to_sql(expression)))


@lru_cache(maxsize=_NAMES_KEPT)
def state_column_name(primitive_text: str, part: str) -> str:
    """Return the stored name of one part of a primitive's state."""
    return _short(f"{primitive_text}.{part}")


def _short(text: str) -> str:
    """Return `text` if it is a legal column name, else its beginning and a 128-bit hash of it."""
    if name_problem(text) is None:
        return text
    readable = "".join(c for c in text[:_READABLE_CHARACTERS] if " " < c <= "~")
    return f"{readable}#{xxhash.xxh3_128_hexdigest(text.encode('utf-8', 'surrogatepass'))}"
