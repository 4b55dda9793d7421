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
    meaning : str
        A line of documentation, in Markdown.
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
    finisher : str
        The method of the first primitive's state that makes final values, from shares too if it
        takes them; what it makes are lists to be joined if a separator may be given.
    is_average : bool
        Instead, the value is the first state's sum by the number of its values.
    or_null : bool
        An average that does not fit its type is null.
    finish : Finish or None
        How Spark computes the value from merged states; None means that it cannot.
    catalyst : tuple of CatalystCall
        Expressions of Spark's plans that mean the same.
    """

    meaning: str
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
    finisher: str = "finish"
    is_average: bool = False
    or_null: bool = False
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


def _extremum(meaning: str, name: str, expression: str) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(ORDERABLE,),
        result=_same,
        primitives=(name,),
        distinct_form=name,
        finish=Finish("{value}"),
        catalyst=spark_call(expression, ArgumentKind.ANY),
    )


def _by(meaning: str, extremum: str, arguments: tuple[TypeClass, ...]) -> AggregateFunction:
    """Return the record of min_by or max_by, or of first or last, which add the table's time."""
    primitive = f"{extremum}_by"
    goes_by_time = len(arguments) == 1
    return AggregateFunction(
        meaning=meaning,
        arguments=arguments,
        result=_same,
        primitives=(primitive,),
        aliases=({"min": "first_value", "max": "last_value"}[extremum],) if goes_by_time else (),
        goes_by_time=goes_by_time,
        finish=Finish("{value}"),
    )


def _truth(meaning: str, primitive: str, *aliases: str) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(BOOLEAN,),
        result=_same,
        primitives=(primitive,),
        aliases=aliases,
        finish=Finish("{value}"),
    )


def _bits(meaning: str, name: str, expression: str) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(INTEGRAL,),
        result=_same,
        primitives=(name,),
        finish=Finish("{bits}"),
        catalyst=spark_call(expression, ArgumentKind.ANY),
    )


def _spread(
    meaning: str, finisher: str, finish: str, expression: str, *aliases: str
) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(NUMERIC,),
        result=_double,
        primitives=("moments",),
        finisher=finisher,
        aliases=aliases,
        finish=Finish(finish),
        catalyst=spark_call(expression, ArgumentKind.ANY, nullOnDivideByZero="true"),
    )


def _of_doubles(
    meaning: str, primitive: str, argument_count: int, finisher: str = "finish"
) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(NUMERIC,) * argument_count,
        result=_double,
        primitives=(primitive,),
        finisher=finisher,
        argument_type=pa.float64(),
    )


def _joined(
    meaning: str, primitive: str, *aliases: str, distinct_form: str = ""
) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(PRINTABLE,),
        result=_same,
        primitives=(primitive,),
        primitive_parameters=lambda _: (),
        takes_separator=True,
        finisher="lists",
        argument_type=pa.string(),
        aliases=aliases,
        distinct_form=distinct_form,
    )


def _distinct(
    meaning: str, argument: TypeClass, result: Callable[[pa.DataType], pa.DataType], finisher: str
) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(argument,),
        result=result,
        primitives=("distinct",),
        finisher=finisher,
    )


def _kll(meaning: str, argument: TypeClass, item: pa.DataType | None = None) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(argument,),
        result=_binary,
        primitives=("kll",),
        size=Size("k", 8, 65_535, _KLL_K),
        argument_type=item,
        finish=Finish("{sketch}"),
    )


def _percentile(meaning: str, finisher: str, *aliases: str) -> AggregateFunction:
    return AggregateFunction(
        meaning=meaning,
        arguments=(MEASURABLE_NUMBER,),
        result=_double,
        primitives=("values",),
        primitive_parameters=lambda _: (),
        takes_shares=True,
        finisher=finisher,
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
        meaning="Rows (`count(*)`), or rows in which no argument is null.",
        arguments=(ANY,),
        result=_bigint,
        primitives=("count",),
        distinct_form="count_distinct",
        finish=Finish("coalesce({count}, 0L)"),
    ),
    "count_if": AggregateFunction(
        meaning="Rows in which the condition is true.",
        arguments=(BOOLEAN,),
        result=_bigint,
        primitives=("count",),
    ),
    "sum": AggregateFunction(
        meaning="The sum; whole numbers and decimals are kept exact, and only a total that does "
        "not fit is an error.",
        arguments=(NUMERIC,),
        result=sum_type,
        primitives=("sum",),
        distinct_form="sum_distinct",
        finish=Finish("cast({sum} AS {type})"),
    ),
    "avg": AggregateFunction(
        meaning="The mean.",
        arguments=(NUMERIC,),
        result=average_type,
        primitives=("sum", "count"),
        aliases=("mean",),
        is_average=True,
        distinct_form="avg_distinct",
        finish=Finish(
            "cast({sum} AS double) / nullif({count}, 0L)",
            lambda value_type: not pa.types.is_decimal(value_type),
        ),
    ),
    "try_sum": AggregateFunction(
        meaning="The sum, null where the total does not fit.",
        arguments=(NUMERIC,),
        result=sum_type,
        primitives=("sum",),
        finisher="tried",
        finish=Finish("try_cast({sum} AS {type})", _cannot_pass_38_digits),
    ),
    "try_avg": AggregateFunction(
        meaning="The mean, null where it does not fit.",
        arguments=(NUMERIC,),
        result=average_type,
        primitives=("sum", "count"),
        is_average=True,
        or_null=True,
        finish=Finish(
            "cast({sum} AS double) / nullif({count}, 0L)",
            lambda value_type: not pa.types.is_decimal(value_type),
        ),
    ),
    "min": _extremum("The least value in Spark's order.", "min", "Min"),
    "max": _extremum("The greatest value in Spark's order.", "max", "Max"),
    "var_pop": _spread(
        "Variance of the population.", "finish", "{squares} / nullif({count}, 0L)", "VariancePop"
    ),
    "var_samp": _spread(
        "Variance of a sample; null for one row.",
        "sample_variances",
        "{squares} / if({count} > 1, {count} - 1, NULL)",
        "VarianceSamp",
        "variance",
    ),
    "stddev_pop": _spread(
        "Standard deviation of the population.",
        "deviations",
        "sqrt({squares} / nullif({count}, 0L))",
        "StddevPop",
    ),
    "stddev_samp": _spread(
        "Standard deviation of a sample; null for one row.",
        "sample_deviations",
        "sqrt({squares} / if({count} > 1, {count} - 1, NULL))",
        "StddevSamp",
        "stddev",
        "std",
    ),
    "first": _by("The value of the earliest row by the table's time column.", "min", (ORDERABLE,)),
    "last": _by("The value of the latest row by the table's time column.", "max", (ORDERABLE,)),
    "min_by": _by("`min_by(x, y)`: x where y is least.", "min", (ORDERABLE, ORDERABLE)),
    "max_by": _by("`max_by(x, y)`: x where y is greatest.", "max", (ORDERABLE, ORDERABLE)),
    "bool_and": _truth("Whether all are true.", "min", "every"),
    "bool_or": _truth("Whether any is true.", "max", "some", "any"),
    "bit_and": _bits("Bits that all have.", "bit_and", "BitAndAgg"),
    "bit_or": _bits("Bits that any has.", "bit_or", "BitOrAgg"),
    "bit_xor": _bits("Bits that an odd number of values have.", "bit_xor", "BitXorAgg"),
    "hll_sketch_agg": AggregateFunction(
        meaning="`hll_sketch_agg(x[, lgK])`: a sketch of distinct values that Spark's "
        "`hll_sketch_estimate` and `hll_union_agg` read.",
        arguments=(HLL,),
        result=_binary,
        primitives=("hll",),
        size=Size("lgK", 4, 21, _HLL_LG_K),
        finish=Finish("{sketch}"),
        catalyst=spark_call("HllSketchAgg", ArgumentKind.ANY, ArgumentKind.SIZE),
    ),
    "approx_count_distinct": AggregateFunction(
        meaning="`approx_count_distinct(x[, error])`: the estimate of the sketch of lgK 12, about "
        "1.6 % off. A relative standard error from 0.0173 to 0.39 may be asked for, and is kept "
        "to by the same sketch.",
        arguments=(ORDERABLE,),
        result=_bigint,
        primitives=("hll",),
        primitive_parameters=lambda _: (_HLL_LG_K,),
        takes_error=True,
        finisher="estimates",
        finish=Finish("hll_sketch_estimate({sketch})"),
    ),
    "theta_sketch_agg": AggregateFunction(
        meaning="`theta_sketch_agg(x[, lgK])`: a theta sketch of distinct values.",
        arguments=(THETA,),
        result=_binary,
        primitives=("theta",),
        size=Size("lgK", 4, 26, _THETA_LG_K),
        finish=Finish("{sketch}"),
        catalyst=spark_call("ThetaSketchAgg", ArgumentKind.ANY, ArgumentKind.SIZE),
    ),
    "kll_sketch_agg_bigint": _kll(
        "`kll_sketch_agg_bigint(x[, k])`: a sketch of quantiles that Spark's "
        "`kll_sketch_get_quantile_bigint` and `kll_merge_agg_bigint` read; k is 200 unless given.",
        INTEGRAL,
    ),
    "kll_sketch_agg_float": _kll("As `kll_sketch_agg_bigint`, for floats.", FLOAT),
    "kll_sketch_agg_double": _kll(
        "As `kll_sketch_agg_bigint`, for doubles.", FLOATING, pa.float64()
    ),
    "approx_percentile": AggregateFunction(
        meaning="`approx_percentile(x, p[, accuracy])`: the least value that a share p, from 0 to "
        "1, of all values is at most as great as; for `array(p, …)` an array. It is wrong by at "
        "most one in `accuracy` ranks, by default 10,000; see [quantiles](#quantiles).",
        arguments=(MEASURABLE,),
        result=_same,
        primitives=("kll",),
        primitive_parameters=lambda parameters: (_k_of_accuracy(parameters[1]),),
        # Of a greater accuracy k would pass what KLL sketches allow; the default is Spark's.
        size=Size("accuracy", 1, 52_428, 10_000),
        takes_shares=True,
        finisher="percentiles",
        aliases=("percentile_approx",),
    ),
    "percentile": _percentile(
        "`percentile(x, p)`, `percentile_cont(p) WITHIN GROUP (ORDER BY x)`: exactly, between the"
        " two values next to the place p (n - 1); for `array(p, …)` an array. From base rows, or "
        "from x as a grouping column with a stored count.",
        "interpolated",
        "percentile_cont",
    ),
    "percentile_disc": _percentile(
        "`percentile_disc(p) WITHIN GROUP (ORDER BY x)`: the least value that a share p of all is"
        " at most as great as, exactly.",
        "discrete",
    ),
    "median": _percentile("`percentile(x, 0.5)`.", "interpolated"),
    "any_value": AggregateFunction(
        meaning=("The least value, so that the answer is the same from rows and from projections."),
        arguments=(ORDERABLE,),
        result=_same,
        primitives=("min",),
        finish=Finish("{value}"),
    ),
    "collect_set": _distinct(
        "The distinct values as an array, ascending.", ORDERABLE, pa.list_, "lists"
    ),
    "collect_list": AggregateFunction(
        meaning="All values as an array, ascending, NaN last: the same array from every source. "
        "Of x as a grouping column with a stored count, or of base rows. With DISTINCT it is "
        "`collect_set`.",
        arguments=(ORDERABLE,),
        result=pa.list_,
        primitives=("values",),
        finisher="lists",
        aliases=("array_agg",),
        distinct_form="collect_set",
    ),
    "listagg": _joined(
        "`listagg(x[, separator])`: all values as one text, ascending as texts, with a constant "
        "between them; null of none. Of x as a grouping column with a stored count, or of base "
        "rows. With DISTINCT each once.",
        "values",
        "string_agg",
        distinct_form="listagg_distinct",
    ),
    "listagg_distinct": _joined(
        "`listagg(DISTINCT x[, separator])`: the distinct values.", "distinct"
    ),
    "covar_pop": _of_doubles(
        "`covar_pop(x, y)`: covariance of the population; rows in which one is null do not count."
        " From base rows.",
        "comoments",
        2,
    ),
    "covar_samp": _of_doubles("Covariance of a sample.", "comoments", 2, "sample_covariance"),
    "corr": _of_doubles(
        "`corr(x, y)`: Pearson's correlation; null where one is everywhere the same. From base "
        "rows.",
        "comoments",
        2,
        "correlation",
    ),
    "skewness": _of_doubles("The third moment in standard deviations. From base rows.", "shape", 1),
    "kurtosis": _of_doubles(
        "The fourth moment in standard deviations, less 3. From base rows.", "shape", 1, "kurtosis"
    ),
    "mode": AggregateFunction(
        meaning="`mode(x)`, `mode() WITHIN GROUP (ORDER BY x)`: the most frequent value, of "
        "several the least. Of x as a grouping column with a stored count, or of base rows.",
        arguments=(ORDERABLE,),
        result=_same,
        primitives=("values",),
    ),
    "count_distinct": AggregateFunction(
        meaning="`count(DISTINCT x)`: how many distinct values, exactly; a projection stores the "
        "values of each group. `count(DISTINCT x, y, …)`: how many distinct combinations without "
        "a null; no projection stores these, but one that groups by all of them answers.",
        arguments=(ORDERABLE,),
        result=_bigint,
        primitives=("distinct",),
        tuple_primitives=("tuples",),
    ),
    "sum_distinct": _distinct(
        "`sum(DISTINCT x)`: the sum of distinct values.", NUMERIC, sum_type, "totals"
    ),
    "avg_distinct": AggregateFunction(
        meaning="`avg(DISTINCT x)`: the mean of distinct values.",
        arguments=(NUMERIC,),
        result=average_type,
        primitives=("distinct",),
        is_average=True,
    ),
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
