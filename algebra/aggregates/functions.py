"""The closed table of aggregate functions: one record each, from which all lists derive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.result_types import average_type, sum_type
from projseg.segment_format.types import is_nested

HLL_LG_K: Final = 12  # Spark's default, 1.6 % standard error
THETA_LG_K: Final = 12


class TypeClass(msgspec.Struct, frozen=True):
    """The types that an argument may have; `name` completes "needs ..."."""

    name: str
    accepts: Callable[[pa.DataType], bool]


def _is_numeric(value_type: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(value_type) or t.is_floating(value_type) or t.is_decimal(value_type))


def _is_orderable(value_type: pa.DataType) -> bool:
    return not is_nested(value_type) and value_type != pa.null()


def _is_anything(value_type: pa.DataType) -> bool:
    del value_type
    return True


_ANY: Final = TypeClass("a value", _is_anything)
_NUMERIC: Final = TypeClass("a number", _is_numeric)
_INTEGRAL: Final = TypeClass("tinyint, smallint, int or bigint", pa.types.is_integer)
_BOOLEAN: Final = TypeClass("a boolean", pa.types.is_boolean)
_ORDERABLE: Final = TypeClass("a type with an order (no array, map or struct)", _is_orderable)
_HLL: Final = TypeClass(
    "int, bigint, string or binary",
    {pa.int32(), pa.int64(), pa.string(), pa.binary()}.__contains__,
)
_THETA: Final = TypeClass(
    "int, bigint, float, double, string or binary",
    {
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
    }.__contains__,
)


class Combination(msgspec.Struct, frozen=True):
    """How the values that several tasks finished make one value.

    Parameters
    ----------
    parts : tuple of (str, slice)
        What each task finishes: a function, and which of the call's arguments it takes.
    union : str
        Spark SQL over the parts of all tasks; `{0}`, `{1}` stand for the parts' names, `{type}` for
        the type of the result.
    accepts : function of the first argument's type
        Whether values of that type can be combined exactly.
    """

    parts: tuple[tuple[str, slice], ...]
    union: str
    accepts: Callable[[pa.DataType], bool] = _is_anything


class LgK(msgspec.Struct, frozen=True):
    """Log2 of a sketch's buckets: the least and most allowed, and what it is where not said."""

    low: int
    high: int
    default: int


class AggregateFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an aggregate function.

    Parameters
    ----------
    arguments : tuple of TypeClass
        One for each argument; count takes any number.
    result : function of the first argument's type
        Spark's result type.
    primitives : tuple of str
        The states that make a value, by their keys in `primitive.PRIMITIVES`.
    primitive_parameters : tuple
        Constants of the primitives that no call gives.
    lg_k : LgK or None
        Of a function that takes the size of its sketch.
    aliases : tuple of str
        Other names.
    distinct_form : str
        The function that `function(DISTINCT x)` means; empty: DISTINCT is refused.
    goes_by_time : bool
        The table's time column is a further argument.
    combination : Combination or None
        How finished values of several tasks make one; None: they do not.
    """

    arguments: tuple[TypeClass, ...]
    result: Callable[[pa.DataType], pa.DataType]
    primitives: tuple[str, ...]
    primitive_parameters: tuple[object, ...] = ()
    lg_k: LgK | None = None
    aliases: tuple[str, ...] = ()
    distinct_form: str = ""
    goes_by_time: bool = False
    combination: Combination | None = None


def _bigint(value_type: pa.DataType) -> pa.DataType:
    del value_type
    return pa.int64()


def _double(value_type: pa.DataType) -> pa.DataType:
    del value_type
    return pa.float64()


def _binary(value_type: pa.DataType) -> pa.DataType:
    del value_type
    return pa.binary()


def _same(value_type: pa.DataType) -> pa.DataType:
    return value_type


_ALL: Final = slice(None)
_ORDERING: Final = slice(1, 2)


def _again(function: str) -> Combination:
    """Combine by the function itself."""
    return Combination(((function, _ALL),), f"{function}({{0}})")


def _extremum(name: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_ORDERABLE,),
        result=_same,
        primitives=(name,),
        distinct_form=name,
        combination=_again(name),
    )


def _by(extremum: str, arguments: tuple[TypeClass, ...]) -> AggregateFunction:
    """Return the record of min_by or max_by, and of first or last, which take the time unasked."""
    primitive = f"{extremum}_by"
    goes_by_time = len(arguments) == 1
    return AggregateFunction(
        arguments=arguments,
        result=_same,
        primitives=(primitive,),
        aliases=({"min": "first_value", "max": "last_value"}[extremum],) if goes_by_time else (),
        goes_by_time=goes_by_time,
        combination=Combination(
            ((primitive, _ALL), (extremum, _ORDERING)), f"{primitive}({{0}}, {{1}})"
        ),
    )


def _truth(name: str, primitive: str, aliases: tuple[str, ...]) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_BOOLEAN,),
        result=_same,
        primitives=(primitive,),
        aliases=aliases,
        combination=_again(name),
    )


def _bits(name: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_INTEGRAL,), result=_same, primitives=(name,), combination=_again(name)
    )


def _spread(*aliases: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_NUMERIC,), result=_double, primitives=("moments",), aliases=aliases
    )


def _distinct(
    argument: TypeClass, result: Callable[[pa.DataType], pa.DataType]
) -> AggregateFunction:
    return AggregateFunction(arguments=(argument,), result=result, primitives=("distinct",))


FUNCTIONS: Final[dict[str, AggregateFunction]] = {
    "count": AggregateFunction(
        arguments=(_ANY,),
        result=_bigint,
        primitives=("count",),
        distinct_form="count_distinct",
        combination=Combination((("count", _ALL),), "coalesce(sum({0}), 0L)"),
    ),
    "count_if": AggregateFunction(arguments=(_BOOLEAN,), result=_bigint, primitives=("count",)),
    "sum": AggregateFunction(
        arguments=(_NUMERIC,),
        result=sum_type,
        primitives=("sum",),
        distinct_form="sum_distinct",
        combination=Combination((("sum", _ALL),), "cast(sum({0}) AS {type})"),
    ),
    "avg": AggregateFunction(
        arguments=(_NUMERIC,),
        result=average_type,
        primitives=("sum", "count"),
        aliases=("mean",),
        distinct_form="avg_distinct",
        combination=Combination(
            (("sum", _ALL), ("count", _ALL)),
            "cast(sum({0}) AS double) / nullif(sum({1}), 0L)",
            lambda value_type: not pa.types.is_decimal(value_type),
        ),
    ),
    "min": _extremum("min"),
    "max": _extremum("max"),
    "var_pop": _spread(),
    "var_samp": _spread("variance"),
    "stddev_pop": _spread(),
    "stddev_samp": _spread("stddev", "std"),
    "first": _by("min", (_ORDERABLE,)),
    "last": _by("max", (_ORDERABLE,)),
    "min_by": _by("min", (_ORDERABLE, _ORDERABLE)),
    "max_by": _by("max", (_ORDERABLE, _ORDERABLE)),
    "bool_and": _truth("bool_and", "min", ("every",)),
    "bool_or": _truth("bool_or", "max", ("some", "any")),
    "bit_and": _bits("bit_and"),
    "bit_or": _bits("bit_or"),
    "bit_xor": _bits("bit_xor"),
    "hll_sketch_agg": AggregateFunction(
        arguments=(_HLL,),
        result=_binary,
        primitives=("hll",),
        lg_k=LgK(4, 21, HLL_LG_K),
        combination=Combination((("hll_sketch_agg", _ALL),), "hll_union_agg({0})"),
    ),
    "approx_count_distinct": AggregateFunction(
        arguments=(_ORDERABLE,),
        result=_bigint,
        primitives=("hll",),
        primitive_parameters=(HLL_LG_K,),
        combination=Combination(
            (("hll_sketch_agg", _ALL),), "hll_sketch_estimate(hll_union_agg({0}))", _HLL.accepts
        ),
    ),
    "theta_sketch_agg": AggregateFunction(
        arguments=(_THETA,),
        result=_binary,
        primitives=("theta",),
        lg_k=LgK(4, 26, THETA_LG_K),
        combination=Combination((("theta_sketch_agg", _ALL),), "theta_union_agg({0})"),
    ),
    "count_distinct": _distinct(_ORDERABLE, _bigint),
    "sum_distinct": _distinct(_NUMERIC, sum_type),
    "avg_distinct": _distinct(_NUMERIC, average_type),
}

ALIASES: Final[dict[str, str]] = {
    alias: name for name, function in FUNCTIONS.items() for alias in function.aliases
}
DISTINCT_OF: Final[dict[str, str]] = {
    function.distinct_form: name
    for name, function in FUNCTIONS.items()
    if function.distinct_form not in ("", name)
}
"""Functions that are written as another one's DISTINCT, and that one."""
