"""Primitives, the mergeable parts of aggregates, which are what projections store.

A query's aggregate is made of primitives (avg = sum and count); projections store primitives, each
once. Two aggregates that need the same primitive share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.result_types import sum_type
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Expression
from projseg.memory.forks import cached_property
from projseg.segment_format.logical_types import DECIMAL_DIGITS_MAX

Fields = tuple[tuple[str, pa.DataType], ...]
"""The columns that store a state, as (part name, logical type)."""


class Extreme(Enum):
    """The least or the greatest of values, by the name of its primitive."""

    LEAST = "min"
    GREATEST = "max"

    @property
    def opposite(self) -> Extreme:
        """The other one."""
        return Extreme.GREATEST if self is Extreme.LEAST else Extreme.LEAST


class PrimitiveKind(msgspec.Struct, frozen=True):
    """The facts about a kind of primitive; `aggregation` folds it.

    Parameters
    ----------
    fields : function of the arguments' types
        The columns that store a state; SPEC.md 7.1.
    merged : mapping of str to str
        For each column, Spark SQL that merges it over states of the same group; `{part}` stands for
        a column, `{parameter}` for the primitive's parameter, `{item}` for the type of its values.
        Empty: Spark cannot merge the states.
    declared : str
        The aggregator that a projection declares to store it, `{}` for its inputs and `{item}` for
        the type of its values; empty: its name as a call.
    counts, sums : bool
        A state is a number of rows or of values; a state is a sum.
    extreme : Extreme or None
        Which of the values a state is.
    is_of_doubles : bool
        Values are folded as doubles, whatever number they are.
    is_idempotent : bool
        A value that occurs again does not change the state.
    is_weighable : bool
        How often a value occurs matters, and a row can be folded in several times.
    is_by_time : bool
        Its arguments are (value, time): a row counts with a null value, but not with a null time.
    takes_latest : bool
        Of these, it is the value of the latest time and not of the earliest.
    is_quick : bool
        Folding a row costs less than gathering it from its column.
    is_set : bool
        A state is a set or a sketch of one; adding to it and merging it cost more.
    holds_values : bool
        A state has each of its values.
    is_weighed_whole : bool
        Rows that count several times are folded in at once.
    is_reversible : bool
        What some rows contributed can be taken out of a state again, unless it is a double.
    is_own_inverse : bool
        Folding a state in again takes it out.
    serves_smaller : bool
        Its parameter is a size, and a state of a greater one is merged into one of a smaller.
    is_thinned : bool
        What is stored is less exact than what it was made of: it is made of rows, not of others.
        Yet it has the least and the greatest value.
    add_work, merge_work : float
        The work of folding a value in, and of merging a stored state, as `source_cost` counts it.
    merge_byte_work : float
        For each stored byte of a set or sketch, beyond the work on its row.
    not_stored : str
        Why projections may not declare it, and what serves it instead. Empty: they may; others have
        no columns that are stored.
    """

    fields: Callable[..., Fields]
    merged: Mapping[str, str] = msgspec.field(default_factory=dict)
    declared: str = ""
    counts: bool = False
    sums: bool = False
    extreme: Extreme | None = None
    is_of_doubles: bool = False
    is_idempotent: bool = False
    is_weighable: bool = False
    is_by_time: bool = False
    takes_latest: bool = False
    is_quick: bool = False
    is_set: bool = False
    holds_values: bool = False
    is_weighed_whole: bool = False
    is_reversible: bool = False
    is_own_inverse: bool = False
    serves_smaller: bool = False
    is_thinned: bool = False
    add_work: float = 10.0
    merge_work: float = 1.5
    merge_byte_work: float = 0.0
    not_stored: str = ""


class Primitive(msgspec.Struct, frozen=True, dict=True):
    """One mergeable state over rows.

    The function is a key of `PRIMITIVES`, "count" or "hll"; count(*) has no arguments; rows where
    the FILTER is not true are left out; parameters are constants, such as a sketch's lgK.
    """

    function: str
    arguments: tuple[Expression, ...]
    filter: Expression | None = None
    parameters: tuple[object, ...] = ()

    @cached_property
    def text(self) -> str:
        """Canonical SQL-like text: equal for equal primitives, and the stored columns' prefix."""
        inputs = [to_sql(argument) for argument in self.arguments] or ["*"]
        inputs += [str(parameter) for parameter in self.parameters]
        suffix = "" if self.filter is None else f" FILTER (WHERE {to_sql(self.filter)})"
        return f"{self.function}({', '.join(inputs)}){suffix}"

    @property
    def kind(self) -> PrimitiveKind:
        """The record of the function's primitives."""
        return PRIMITIVES[self.function]

    @cached_property
    def fields(self) -> Fields:
        """The columns that store a state."""
        return self.kind.fields(*(argument.type for argument in self.arguments))

    @property
    def value_count(self) -> Primitive | None:
        """The count of the values in a state; None if the state counts them itself."""
        return None if self.kind.counts else Primitive("count", self.arguments, self.filter)


_KLL_OF: Final = {pa.float32(): "float", pa.float64(): "double"}


def declared_as(primitive: Primitive) -> str:
    """Return an aggregator that a projection declares to store a primitive."""
    form = primitive.kind.declared or f"{primitive.function}({{}})"
    item = _KLL_OF.get(primitive.arguments[0].type, "bigint") if primitive.arguments else ""
    inputs = [to_sql(argument) for argument in primitive.arguments] or ["*"]
    inputs += [str(parameter) for parameter in primitive.parameters]
    suffix = "" if primitive.filter is None else f" FILTER (WHERE {to_sql(primitive.filter)})"
    return f"{form.format(', '.join(inputs), item=item)}{suffix}"


def _count(*arguments: pa.DataType) -> Fields:
    del arguments
    return (("count", pa.int64()),)


def _sum(value: pa.DataType) -> Fields:
    """Return a double, or a decimal wide enough for any partial sum."""
    final = sum_type(value)
    if final == pa.float64():
        return (("sum", final),)
    scale = final.scale if pa.types.is_decimal(final) else 0
    return (("sum", pa.decimal128(DECIMAL_DIGITS_MAX, scale)),)


def _value(value: pa.DataType) -> Fields:
    return (("value", value),)


def _value_and_time(value: pa.DataType, time: pa.DataType) -> Fields:
    return (("value", value), ("time", time))


def _moments(value: pa.DataType) -> Fields:
    del value
    return (("count", pa.int64()), ("mean", pa.float64()), ("squares", pa.float64()))


def _bits(value: pa.DataType) -> Fields:
    return (("bits", value),)


def _values(value: pa.DataType) -> Fields:
    return (("values", pa.list_(value)),)


def _sketch(value: pa.DataType) -> Fields:
    del value
    return (("sketch", pa.binary()),)


def _kll(value: pa.DataType) -> Fields:
    del value
    return (("sketch", pa.binary()), ("nan_count", pa.int64()))


def kll_item(value_type: pa.DataType) -> pa.DataType:
    """Return the type of the values in a KLL sketch; dates and decimals are kept as bigint."""
    return value_type if pa.types.is_floating(value_type) else pa.int64()


def _nothing(*values: pa.DataType) -> Fields:
    del values
    return ()


def _alone(part: str, function: str) -> dict[str, str]:
    """Return the SQL that merges a state of one column."""
    return {part: f"{function}({{{part}}})"}


def _merged_by_time(function: str, extremum: str) -> dict[str, str]:
    """Return the SQL that merges values with their times; among equal times the value decides."""
    order = "if({time} IS NULL, NULL, struct({time}, {value}))"
    return {"value": f"{function}({{value}}, {order})", "time": f"{extremum}({{time}})"}


def _merged_moments() -> dict[str, str]:
    """Return the SQL that merges moments, two at a time: Chan, Golub and LeVeque (1979)."""
    total = "(cast(a.n AS double) + b.n)"
    mean = f"a.m + (b.m - a.m) * (b.n / {total})"
    squares = f"a.s + b.s + (b.m - a.m) * (b.m - a.m) * (a.n * (b.n / {total}))"
    merged = (
        "aggregate(collect_list(named_struct('n', {count}, 'm', {mean}, 's', {squares})), "
        "named_struct('n', 0L, 'm', 0D, 's', 0D), (a, b) -> if(b.n = 0, a, "
        f"named_struct('n', a.n + b.n, 'm', {mean}, 's', {squares})))"
    )
    return {"count": f"{merged}.n", "mean": f"{merged}.m", "squares": f"{merged}.s"}


_OF_ROWS: Final = "is computed from rows; projections serve stddev_samp, var_samp and avg"

PRIMITIVES: Final[dict[str, PrimitiveKind]] = {
    "count": PrimitiveKind(
        _count,
        _alone("count", "sum"),
        counts=True,
        is_quick=True,
        is_weighed_whole=True,
        is_reversible=True,
        add_work=0.5,
    ),
    "sum": PrimitiveKind(
        _sum,
        _alone("sum", "sum"),
        sums=True,
        is_weighable=True,
        is_quick=True,
        is_reversible=True,
        add_work=1.5,
    ),
    "min": PrimitiveKind(
        _value,
        _alone("value", "min"),
        extreme=Extreme.LEAST,
        is_idempotent=True,
        is_quick=True,
        add_work=1.5,
    ),
    "max": PrimitiveKind(
        _value,
        _alone("value", "max"),
        extreme=Extreme.GREATEST,
        is_idempotent=True,
        is_quick=True,
        add_work=1.5,
    ),
    "min_by": PrimitiveKind(
        _value_and_time, _merged_by_time("min_by", "min"), is_idempotent=True, is_by_time=True
    ),
    "max_by": PrimitiveKind(
        _value_and_time,
        _merged_by_time("max_by", "max"),
        is_idempotent=True,
        is_by_time=True,
        takes_latest=True,
    ),
    "moments": PrimitiveKind(
        _moments,
        _merged_moments(),
        declared="var_samp({})",
        is_of_doubles=True,
        is_weighable=True,
        add_work=7.0,
        merge_work=15.0,
    ),
    "bit_and": PrimitiveKind(_bits, _alone("bits", "bit_and"), is_idempotent=True),
    "bit_or": PrimitiveKind(_bits, _alone("bits", "bit_or"), is_idempotent=True),
    "bit_xor": PrimitiveKind(
        _bits,
        _alone("bits", "bit_xor"),
        is_weighable=True,
        is_reversible=True,
        is_own_inverse=True,
    ),
    "distinct": PrimitiveKind(
        _values,
        declared="count(DISTINCT {})",
        is_idempotent=True,
        is_set=True,
        holds_values=True,
        add_work=4.0,
        merge_work=15.0,
        merge_byte_work=8.0,
    ),
    "hll": PrimitiveKind(
        _sketch,
        _alone("sketch", "hll_union_agg"),
        declared="hll_sketch_agg({})",
        is_idempotent=True,
        is_set=True,
        serves_smaller=True,
        add_work=3.0,
        merge_work=75.0,
        merge_byte_work=2.0,
    ),
    "theta": PrimitiveKind(
        _sketch,
        {"sketch": "theta_union_agg({sketch}, {parameter})"},
        declared="theta_sketch_agg({})",
        is_idempotent=True,
        is_set=True,
        serves_smaller=True,
        add_work=35.0,
        merge_work=300.0,
        merge_byte_work=8.0,
    ),
    "kll": PrimitiveKind(
        _kll,
        {
            "sketch": "kll_merge_agg_{item}({sketch}, {parameter})",
            "nan_count": "sum({nan_count})",
        },
        declared="kll_sketch_agg_{item}({})",
        is_weighable=True,
        is_set=True,
        serves_smaller=True,
        is_thinned=True,
        add_work=30.0,
        merge_work=150.0,
        merge_byte_work=36.0,
    ),
    "values": PrimitiveKind(
        _nothing,
        is_weighable=True,
        is_set=True,
        is_weighed_whole=True,
        not_stored="needs every value of a group; group by its argument and declare count(*), by "
        "which values are weighed, or approx_percentile instead of a percentile",
    ),
    "tuples": PrimitiveKind(
        _nothing,
        is_idempotent=True,
        is_set=True,
        not_stored="needs every row of its arguments; group by all of them, which serves it",
    ),
    "comoments": PrimitiveKind(_nothing, not_stored=_OF_ROWS),
    "shape": PrimitiveKind(_nothing, not_stored=_OF_ROWS),
}
