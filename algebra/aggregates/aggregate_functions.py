"""The closed table of aggregate functions: one record each, from which all lists are derived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.result_types import (
    ANY,
    BOOLEAN,
    FLOAT,
    FLOATING,
    HLL,
    INTEGRAL,
    MEASURABLE,
    MEASURABLE_NUMBER,
    NUMERIC,
    ORDERABLE,
    PRINTABLE,
    SUM_DIGITS,
    THETA,
    TypeClass,
    average_type,
    is_anything,
    sum_type,
)
from projseg.algebra.expressions.catalyst_call import ArgumentKind, CatalystCall, spark_call
from projseg.segment_format.logical_types import DECIMAL_DIGITS_MAX

_HLL_LG_K: Final = 12  # Spark's default, 1.6 % standard error
_THETA_LG_K: Final = 12
_KLL_K: Final = 200  # Spark's default, 1.33 % of the ranks as DataSketches states it


class Finish(msgspec.Struct, frozen=True):
    """How Spark computes an aggregate's value from its merged states.

    In the Spark SQL, `{part}` stands for the merged state column of that name, `{type}` for the
    type of the result; `accepts` says for which types of the first argument it is exact.
    """

    sql: str
    accepts: Callable[[pa.DataType], bool] = is_anything


class Size(msgspec.Struct, frozen=True):
    """The size of a sketch, its last argument: "lgK", the logarithm of its buckets, or "k"."""

    name: str
    low: int
    high: int
    default: int


def _unchanged(parameters: tuple[object, ...]) -> tuple[object, ...]:
    return parameters


class AggregateFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about an aggregate function.

    Parameters
    ----------
    arguments : tuple of TypeClass
        One for each argument; count takes any number, and so does its DISTINCT.
    result : function of the first argument's type
        Spark's result type.
    primitives : tuple of str
        The states from which the value is made, by their keys in `primitive.PRIMITIVES`.
    tuple_primitives : tuple of str
        The same where there are several arguments; empty: there is one more only if `arguments`
        says so.
    primitive_parameters : function of the call's parameters
        Constants of the primitives.
    size : Size or None
        The size of a sketch, for functions that take it.
    takes_shares : bool
        A percentage or an array of them follows the argument; an array makes an array of results.
    takes_separator : bool
        A constant text may follow the argument.
    takes_error : bool
        A relative standard error may follow the argument; the sketch is at least as exact.
    argument_type : pa.DataType or None
        What the arguments are cast to.
    aliases : tuple of str
        Other names.
    distinct_form : str
        The function that `function(DISTINCT x)` means; empty: DISTINCT is refused.
    goes_by_time : bool
        The table's time column is a further argument.
    finish : Finish or None
        How Spark computes the value from merged states; None: it cannot.
    catalyst : tuple of CatalystCall
        Expressions of Spark's plans that mean the same.
    """

    arguments: tuple[TypeClass, ...]
    result: Callable[[pa.DataType], pa.DataType]
    primitives: tuple[str, ...]
    tuple_primitives: tuple[str, ...] = ()
    primitive_parameters: Callable[[tuple[object, ...]], tuple[object, ...]] = _unchanged
    size: Size | None = None
    takes_shares: bool = False
    takes_separator: bool = False
    takes_error: bool = False
    argument_type: pa.DataType | None = None
    aliases: tuple[str, ...] = ()
    distinct_form: str = ""
    goes_by_time: bool = False
    finish: Finish | None = None
    catalyst: tuple[CatalystCall, ...] = ()


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


def _cannot_pass_38_digits(value_type: pa.DataType) -> bool:
    """Whether no sum of values of a type passes what a decimal holds, as merging would refuse."""
    digits = value_type.precision if pa.types.is_decimal(value_type) else 0
    return digits + SUM_DIGITS <= DECIMAL_DIGITS_MAX


def _extremum(name: str, expression: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(ORDERABLE,),
        result=_same,
        primitives=(name,),
        distinct_form=name,
        finish=Finish("{value}"),
        catalyst=spark_call(expression, ArgumentKind.ANY),
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
        arguments=(BOOLEAN,),
        result=_same,
        primitives=(primitive,),
        aliases=aliases,
        finish=Finish("{value}"),
    )


def _bits(name: str, expression: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(INTEGRAL,),
        result=_same,
        primitives=(name,),
        finish=Finish("{bits}"),
        catalyst=spark_call(expression, ArgumentKind.ANY),
    )


def _spread(finish: str, expression: str, *aliases: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(NUMERIC,),
        result=_double,
        primitives=("moments",),
        aliases=aliases,
        finish=Finish(finish),
        catalyst=spark_call(expression, ArgumentKind.ANY, nullOnDivideByZero="true"),
    )


def _of_doubles(primitive: str, argument_count: int) -> AggregateFunction:
    return AggregateFunction(
        arguments=(NUMERIC,) * argument_count,
        result=_double,
        primitives=(primitive,),
        argument_type=pa.float64(),
    )


def _joined(primitive: str, *aliases: str, distinct_form: str = "") -> AggregateFunction:
    return AggregateFunction(
        arguments=(PRINTABLE,),
        result=_same,
        primitives=(primitive,),
        primitive_parameters=lambda _: (),
        takes_separator=True,
        argument_type=pa.string(),
        aliases=aliases,
        distinct_form=distinct_form,
    )


def _distinct(
    argument: TypeClass, result: Callable[[pa.DataType], pa.DataType]
) -> AggregateFunction:
    return AggregateFunction(arguments=(argument,), result=result, primitives=("distinct",))


def _kll(argument: TypeClass, item: pa.DataType | None = None) -> AggregateFunction:
    return AggregateFunction(
        arguments=(argument,),
        result=_binary,
        primitives=("kll",),
        size=Size("k", 8, 65_535, _KLL_K),
        argument_type=item,
        finish=Finish("{sketch}"),
    )


def _percentile(*aliases: str) -> AggregateFunction:
    return AggregateFunction(
        arguments=(MEASURABLE_NUMBER,),
        result=_double,
        primitives=("values",),
        primitive_parameters=lambda _: (),
        takes_shares=True,
        aliases=aliases,
    )


def _k_of_accuracy(accuracy: object) -> int:
    """Return the k of sketches that are wrong by at most one in `accuracy` ranks.

    Merged sketches are wrong by 5 ranks of 4 k (SPEC.md 7.2).
    """
    assert isinstance(accuracy, int)
    return max(8, -(-5 * accuracy // 4))


AGGREGATES: Final[dict[str, AggregateFunction]] = {
    "count": AggregateFunction(
        arguments=(ANY,),
        result=_bigint,
        primitives=("count",),
        distinct_form="count_distinct",
        finish=Finish("coalesce({count}, 0L)"),
    ),
    "count_if": AggregateFunction(arguments=(BOOLEAN,), result=_bigint, primitives=("count",)),
    "sum": AggregateFunction(
        arguments=(NUMERIC,),
        result=sum_type,
        primitives=("sum",),
        distinct_form="sum_distinct",
        finish=Finish("cast({sum} AS {type})"),
    ),
    "avg": AggregateFunction(
        arguments=(NUMERIC,),
        result=average_type,
        primitives=("sum", "count"),
        aliases=("mean",),
        distinct_form="avg_distinct",
        finish=Finish(
            "cast({sum} AS double) / nullif({count}, 0L)",
            lambda value_type: not pa.types.is_decimal(value_type),
        ),
    ),
    "try_sum": AggregateFunction(
        arguments=(NUMERIC,),
        result=sum_type,
        primitives=("sum",),
        finish=Finish("try_cast({sum} AS {type})", _cannot_pass_38_digits),
    ),
    "try_avg": AggregateFunction(
        arguments=(NUMERIC,),
        result=average_type,
        primitives=("sum", "count"),
        finish=Finish(
            "cast({sum} AS double) / nullif({count}, 0L)",
            lambda value_type: not pa.types.is_decimal(value_type),
        ),
    ),
    "min": _extremum("min", "Min"),
    "max": _extremum("max", "Max"),
    "var_pop": _spread("{squares} / nullif({count}, 0L)", "VariancePop"),
    "var_samp": _spread(
        "{squares} / if({count} > 1, {count} - 1, NULL)", "VarianceSamp", "variance"
    ),
    "stddev_pop": _spread("sqrt({squares} / nullif({count}, 0L))", "StddevPop"),
    "stddev_samp": _spread(
        "sqrt({squares} / if({count} > 1, {count} - 1, NULL))", "StddevSamp", "stddev", "std"
    ),
    "first": _by("min", (ORDERABLE,)),
    "last": _by("max", (ORDERABLE,)),
    "min_by": _by("min", (ORDERABLE, ORDERABLE)),
    "max_by": _by("max", (ORDERABLE, ORDERABLE)),
    "bool_and": _truth("min", "every"),
    "bool_or": _truth("max", "some", "any"),
    "bit_and": _bits("bit_and", "BitAndAgg"),
    "bit_or": _bits("bit_or", "BitOrAgg"),
    "bit_xor": _bits("bit_xor", "BitXorAgg"),
    "hll_sketch_agg": AggregateFunction(
        arguments=(HLL,),
        result=_binary,
        primitives=("hll",),
        size=Size("lgK", 4, 21, _HLL_LG_K),
        finish=Finish("{sketch}"),
        catalyst=spark_call("HllSketchAgg", ArgumentKind.ANY, ArgumentKind.SIZE),
    ),
    "approx_count_distinct": AggregateFunction(
        arguments=(ORDERABLE,),
        result=_bigint,
        primitives=("hll",),
        primitive_parameters=lambda _: (_HLL_LG_K,),
        takes_error=True,
        finish=Finish("hll_sketch_estimate({sketch})"),
    ),
    "theta_sketch_agg": AggregateFunction(
        arguments=(THETA,),
        result=_binary,
        primitives=("theta",),
        size=Size("lgK", 4, 26, _THETA_LG_K),
        finish=Finish("{sketch}"),
        catalyst=spark_call("ThetaSketchAgg", ArgumentKind.ANY, ArgumentKind.SIZE),
    ),
    "kll_sketch_agg_bigint": _kll(INTEGRAL),
    "kll_sketch_agg_float": _kll(FLOAT),
    "kll_sketch_agg_double": _kll(FLOATING, pa.float64()),
    "approx_percentile": AggregateFunction(
        arguments=(MEASURABLE,),
        result=_same,
        primitives=("kll",),
        primitive_parameters=lambda parameters: (_k_of_accuracy(parameters[1]),),
        # Of a greater accuracy k would pass what KLL sketches allow; the default is Spark's.
        size=Size("accuracy", 1, 52_428, 10_000),
        takes_shares=True,
        aliases=("percentile_approx",),
    ),
    "percentile": _percentile("percentile_cont"),
    "percentile_disc": _percentile(),
    "median": _percentile(),
    "any_value": AggregateFunction(
        arguments=(ORDERABLE,), result=_same, primitives=("min",), finish=Finish("{value}")
    ),
    "collect_set": _distinct(ORDERABLE, pa.list_),
    "collect_list": AggregateFunction(
        arguments=(ORDERABLE,),
        result=pa.list_,
        primitives=("values",),
        aliases=("array_agg",),
        distinct_form="collect_set",
    ),
    "listagg": _joined("values", "string_agg", distinct_form="listagg_distinct"),
    "listagg_distinct": _joined("distinct"),
    "covar_pop": _of_doubles("comoments", 2),
    "covar_samp": _of_doubles("comoments", 2),
    "corr": _of_doubles("comoments", 2),
    "skewness": _of_doubles("shape", 1),
    "kurtosis": _of_doubles("shape", 1),
    "mode": AggregateFunction(arguments=(ORDERABLE,), result=_same, primitives=("values",)),
    "count_distinct": AggregateFunction(
        arguments=(ORDERABLE,),
        result=_bigint,
        primitives=("distinct",),
        tuple_primitives=("tuples",),
    ),
    "sum_distinct": _distinct(NUMERIC, sum_type),
    "avg_distinct": _distinct(NUMERIC, average_type),
}

ALIASES: Final[dict[str, str]] = {
    alias: name for name, function in AGGREGATES.items() for alias in function.aliases
}
DISTINCT_OF: Final[dict[str, str]] = {
    function.distinct_form: name
    for name, function in AGGREGATES.items()
    if function.distinct_form == f"{name}_distinct"
}
"""From functions that are written with DISTINCT to the names they are written by."""
