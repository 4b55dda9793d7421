"""The closed table of aggregate functions: spellings, arguments and Spark's result types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregators.results import average_type
from projseg.algebra.aggregators.sum import sum_type
from projseg.segment_format.types import is_nested

HLL_LG_K: Final = 12  # Spark's default, 1.6 % standard error
THETA_LG_K: Final = 12
_LG_K_RANGES: Final = {"hll_sketch_agg": (4, 21), "theta_sketch_agg": (4, 26)}


class TypeClass(msgspec.Struct, frozen=True):
    """The types that an argument may have; `name` completes "needs ..."."""

    name: str
    accepts: Callable[[pa.DataType], bool]


def _is_numeric(value_type: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(value_type) or t.is_floating(value_type) or t.is_decimal(value_type))


def _is_orderable(value_type: pa.DataType) -> bool:
    return not is_nested(value_type) and value_type != pa.null()


_ANY: Final = TypeClass("a value", lambda value_type: True)
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


class AggregateFunction(msgspec.Struct, frozen=True):
    """What an aggregate function takes and returns.

    Parameters
    ----------
    arguments : tuple of TypeClass
        One for each argument; count takes any number.
    result : function of the first argument's type
        Spark's result type.
    default_parameter : int or None
        For sketches: lgK where the text gives none.
    """

    arguments: tuple[TypeClass, ...]
    result: Callable[[pa.DataType], pa.DataType]
    default_parameter: int | None = None


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


FUNCTIONS: Final[dict[str, AggregateFunction]] = {
    "count": AggregateFunction((_ANY,), _bigint),
    "count_if": AggregateFunction((_BOOLEAN,), _bigint),
    "sum": AggregateFunction((_NUMERIC,), sum_type),
    "avg": AggregateFunction((_NUMERIC,), average_type),
    "min": AggregateFunction((_ORDERABLE,), _same),
    "max": AggregateFunction((_ORDERABLE,), _same),
    "var_pop": AggregateFunction((_NUMERIC,), _double),
    "var_samp": AggregateFunction((_NUMERIC,), _double),
    "stddev_pop": AggregateFunction((_NUMERIC,), _double),
    "stddev_samp": AggregateFunction((_NUMERIC,), _double),
    "first": AggregateFunction((_ORDERABLE,), _same),
    "last": AggregateFunction((_ORDERABLE,), _same),
    "min_by": AggregateFunction((_ORDERABLE, _ORDERABLE), _same),
    "max_by": AggregateFunction((_ORDERABLE, _ORDERABLE), _same),
    "bool_and": AggregateFunction((_BOOLEAN,), _same),
    "bool_or": AggregateFunction((_BOOLEAN,), _same),
    "bit_and": AggregateFunction((_INTEGRAL,), _same),
    "bit_or": AggregateFunction((_INTEGRAL,), _same),
    "bit_xor": AggregateFunction((_INTEGRAL,), _same),
    "hll_sketch_agg": AggregateFunction((_HLL,), _binary, HLL_LG_K),
    "approx_count_distinct": AggregateFunction((_ORDERABLE,), _bigint),
    "theta_sketch_agg": AggregateFunction((_THETA,), _binary, THETA_LG_K),
    "count_distinct": AggregateFunction((_ORDERABLE,), _bigint),
    "sum_distinct": AggregateFunction((_NUMERIC,), sum_type),
    "avg_distinct": AggregateFunction((_NUMERIC,), average_type),
}

ALIASES: Final[dict[str, str]] = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "first_value": "first",
    "last_value": "last",
}


def parameter_range(function: str) -> tuple[int, int]:
    """Return the smallest and largest lgK of a sketch function."""
    return _LG_K_RANGES[function]
