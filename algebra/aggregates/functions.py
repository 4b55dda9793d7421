"""The closed table of aggregate functions: one record each, from which all lists are derived."""

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


class Finish(msgspec.Struct, frozen=True):
    """How Spark computes an aggregate's value from its merged states.

    Parameters
    ----------
    sql : str
        Spark SQL; `{part}` stands for the merged state column of that name, `{type}` for the type
        of the result.
    accepts : function of the first argument's type
        Whether the SQL is exact for values of the type.
    """

    sql: str
    accepts: Callable[[pa.DataType], bool] = _is_anything


class LgK(msgspec.Struct, frozen=True):
    """The lgK of a sketch, log2 of its buckets: the least and most allowed, and the default."""

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
        The states from which the value is made, by their keys in `primitive.PRIMITIVES`.
    primitive_parameters : tuple
        Constants of the primitives that are the same in all calls.
    lg_k : LgK or None
        The limits of lgK, for functions that take it.
    aliases : tuple of str
        Other names.
    distinct_form : str
        The function that `function(DISTINCT x)` means; empty: DISTINCT is refused.
    goes_by_time : bool
        The table's time column is a further argument.
    finish : Finish or None
        How Spark computes the value from merged states; None: it cannot.
    """

    arguments: tuple[TypeClass, ...]
    result: Callable[[pa.DataType], pa.DataType]
    primitives: tuple[str, ...]
    primitive_parameters: tuple[object, ...] = ()
    lg_k: LgK | None = None
    aliases: tuple[str, ...] = ()
    distinct_form: str = ""
    goes_by_time: bool = False
    finish: Finish | None = None


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


def _extremum(name: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_ORDERABLE,),
        result=_same,
        primitives=(name,),
        distinct_form=name,
        finish=Finish("{value}"),
    )


def _by(extremum: str, arguments: tuple[TypeClass, ...]) -> AggregateFunction:
    """Return the record of min_by or max_by, or of first or last, which add the table's time."""
    primitive = f"{extremum}_by"
    goes_by_time = len(arguments) == 1
    return AggregateFunction(
        arguments=arguments,
        result=_same,
        primitives=(primitive,),
        aliases=({"min": "first_value", "max": "last_value"}[extremum],) if goes_by_time else (),
        goes_by_time=goes_by_time,
        finish=Finish("{value}"),
    )


def _truth(primitive: str, *aliases: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_BOOLEAN,),
        result=_same,
        primitives=(primitive,),
        aliases=aliases,
        finish=Finish("{value}"),
    )


def _bits(name: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_INTEGRAL,), result=_same, primitives=(name,), finish=Finish("{bits}")
    )


def _spread(finish: str, *aliases: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(_NUMERIC,),
        result=_double,
        primitives=("moments",),
        aliases=aliases,
        finish=Finish(finish),
    )


def _distinct(
    argument: TypeClass, result: Callable[[pa.DataType], pa.DataType]
) -> AggregateFunction:
    return AggregateFunction(arguments=(argument,), result=result, primitives=("distinct",))


AGGREGATES: Final[dict[str, AggregateFunction]] = {
    "count": AggregateFunction(
        arguments=(_ANY,),
        result=_bigint,
        primitives=("count",),
        distinct_form="count_distinct",
        finish=Finish("coalesce({count}, 0L)"),
    ),
    "count_if": AggregateFunction(arguments=(_BOOLEAN,), result=_bigint, primitives=("count",)),
    "sum": AggregateFunction(
        arguments=(_NUMERIC,),
        result=sum_type,
        primitives=("sum",),
        distinct_form="sum_distinct",
        finish=Finish("cast({sum} AS {type})"),
    ),
    "avg": AggregateFunction(
        arguments=(_NUMERIC,),
        result=average_type,
        primitives=("sum", "count"),
        aliases=("mean",),
        distinct_form="avg_distinct",
        finish=Finish(
            "cast({sum} AS double) / nullif({count}, 0L)",
            lambda value_type: not pa.types.is_decimal(value_type),
        ),
    ),
    "min": _extremum("min"),
    "max": _extremum("max"),
    "var_pop": _spread("{squares} / nullif({count}, 0L)"),
    "var_samp": _spread("{squares} / if({count} > 1, {count} - 1, NULL)", "variance"),
    "stddev_pop": _spread("sqrt({squares} / nullif({count}, 0L))"),
    "stddev_samp": _spread("sqrt({squares} / if({count} > 1, {count} - 1, NULL))", "stddev", "std"),
    "first": _by("min", (_ORDERABLE,)),
    "last": _by("max", (_ORDERABLE,)),
    "min_by": _by("min", (_ORDERABLE, _ORDERABLE)),
    "max_by": _by("max", (_ORDERABLE, _ORDERABLE)),
    "bool_and": _truth("min", "every"),
    "bool_or": _truth("max", "some", "any"),
    "bit_and": _bits("bit_and"),
    "bit_or": _bits("bit_or"),
    "bit_xor": _bits("bit_xor"),
    "hll_sketch_agg": AggregateFunction(
        arguments=(_HLL,),
        result=_binary,
        primitives=("hll",),
        lg_k=LgK(4, 21, HLL_LG_K),
        finish=Finish("{sketch}"),
    ),
    "approx_count_distinct": AggregateFunction(
        arguments=(_ORDERABLE,),
        result=_bigint,
        primitives=("hll",),
        primitive_parameters=(HLL_LG_K,),
        finish=Finish("hll_sketch_estimate({sketch})"),
    ),
    "theta_sketch_agg": AggregateFunction(
        arguments=(_THETA,),
        result=_binary,
        primitives=("theta",),
        lg_k=LgK(4, 26, THETA_LG_K),
        finish=Finish("{sketch}"),
    ),
    "count_distinct": _distinct(_ORDERABLE, _bigint),
    "sum_distinct": _distinct(_NUMERIC, sum_type),
    "avg_distinct": _distinct(_NUMERIC, average_type),
}

ALIASES: Final[dict[str, str]] = {
    alias: name for name, function in AGGREGATES.items() for alias in function.aliases
}
DISTINCT_OF: Final[dict[str, str]] = {
    function.distinct_form: name
    for name, function in AGGREGATES.items()
    if function.distinct_form not in ("", name)
}
"""From functions that are written with DISTINCT to the names they are written by."""
