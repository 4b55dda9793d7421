"""try_cast and arithmetic that give null where others raise an error.

Decimals say which rows have no value. Of other types, rows that must fail are found by a quick
comparison first; what still raises is found by halves, so that many rows without errors cost little
more than the plain operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import (
    cast_to,
    is_decimal,
    is_integral,
    is_numeric,
)
from projseg.algebra.expressions.functions.arithmetic import FUNCTIONS as ARITHMETIC
from projseg.algebra.expressions.functions.arithmetic import arithmetic
from projseg.algebra.expressions.functions.casts import FUNCTIONS as CASTS
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    doubles,
    require_type,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Lazy,
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    Writer,
    never,
    unordered,
    written_as_call,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.text_casts import may_be_written
from projseg.algebra.expressions.sql_words import sql_type
from projseg.algebra.expressions.tree import Call, Expression
from projseg.errors import EvaluationError
from projseg.segment_format.arrow_arrays import primitive_array, scalar_of

_Mask = NDArray[np.bool_]
_SLACK: Final = 1 + 1e-9  # more than doubles are off

_PLAIN: Final = {
    "try_add": "+",
    "try_subtract": "-",
    "try_multiply": "*",
    "try_divide": "/",
    "try_mod": "%",
}


def try_cast(expression: Expression, wanted: pa.DataType, zone: str) -> Expression:
    """Return the node of `TRY_CAST(expression AS wanted)`; a plain cast if that cannot fail."""
    plain = cast_to(expression, wanted, zone)
    if plain is expression or not isinstance(plain, Call) or not CASTS["cast"].may_fail(plain):
        return plain
    return Call(plain.type, "try_cast", plain.arguments, plain.parameters)


def _operation(function: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        for side in arguments:
            is_number = is_numeric(side.type) or side.type == pa.null()
            require_type(is_number, function, side, "numbers")
        plain = arithmetic(_PLAIN[function], arguments[0], arguments[1], zone)
        return Call(plain.type, function, plain.children)

    return Spelling(function, build, 2, 2)


def _or_null(evaluate: Evaluator, call: Call, data: list[pa.Array], row_count: int) -> pa.Array:
    """Return the values of a call, null in rows in which it raises an error."""
    try:
        return evaluate(call, data, row_count)
    except EvaluationError as error:
        if error.rows is not None:
            return _or_null(evaluate, call, _without(data, ~error.rows), row_count)
        if row_count == 1:
            return pa.nulls(1, call.type)
    middle = row_count // 2
    halves = []
    for start, end in ((0, middle), (middle, row_count)):
        part = [one.slice(start, end - start) for one in data]
        halves.append(_or_null(evaluate, call, part, end - start))
    return pa.concat_arrays(halves)


def _without(data: list[pa.Array], kept: _Mask) -> list[pa.Array]:
    """Return arguments in which all rows that are not kept have a null."""
    first, *others = data
    return [pc.if_else(primitive_array(kept), first, scalar_of(None, first.type)), *others]


def _trying(evaluate: Evaluator, may_fit: Callable[[Call, list[pa.Array]], _Mask]) -> Evaluator:
    """Return an evaluator that gives null in rows that `may_fit` rules out, or that raise."""

    def evaluate_or_null(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        data = [as_array(argument, row_count) for argument in arguments]
        kept = may_fit(call, data)
        if not kept.all():
            data = _without(data, kept)
        return _or_null(evaluate, call, data, row_count)

    return evaluate_or_null


def _may_fit(values: NDArray[np.float64], wanted: pa.DataType) -> _Mask:
    """Return where numbers, which may be a little off, may fit a type; NaN is left to the cast."""
    if is_integral(wanted):
        limit = 2.0 ** (wanted.bit_width - 1)
    else:
        return np.ones(len(values), np.bool_)
    return np.asarray(~(np.abs(values) > limit * _SLACK + 1), np.bool_)


def _cast_may_fit(call: Call, data: list[pa.Array]) -> _Mask:
    (source,) = data
    if is_decimal(source.type) or is_decimal(call.type):
        return np.ones(len(source), np.bool_)
    if source.type == pa.string():
        return may_be_written(source, call.type)
    if is_numeric(source.type):
        return _may_fit(doubles(source, len(source)), call.type)
    return np.ones(len(source), np.bool_)


def _result_may_fit(call: Call, data: list[pa.Array]) -> _Mask:
    if is_decimal(call.type):
        return np.ones(len(data[0]), np.bool_)
    left, right = (doubles(one, len(one)) for one in data)
    function = _PLAIN[call.function]
    if function in ("/", "%"):
        return np.asarray(right != 0, np.bool_)
    compute = {"+": np.add, "-": np.subtract, "*": np.multiply}[function]
    with np.errstate(all="ignore"):
        return _may_fit(np.asarray(compute(left, right)), call.type)


def _plain_operation(function: str) -> Evaluator:
    compute = ARITHMETIC[_PLAIN[function]].evaluate
    assert not isinstance(compute, Lazy)

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        plain = Call(call.type, _PLAIN[function], call.arguments)
        return compute(plain, arguments, row_count)

    return evaluate


def _plain_cast() -> Evaluator:
    compute = CASTS["cast"].evaluate
    assert not isinstance(compute, Lazy)
    return compute


def _cast_text(call: Call, write: Writer) -> str:
    return f"TRY_CAST({write(call.arguments[0])} AS {sql_type(call.type)})"


def _record(
    evaluate: Evaluator,
    *spellings: Spelling,
    text: Callable[[Call, Writer], str] = written_as_call,
    zone: Callable[[Call], str | None] = lambda call: None,
) -> ScalarFunction:
    """Return the record of a function that raises no errors of its own."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=NoBlocks.ERRORS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=never,
        order=unordered,
        canonical_folds_null=True,
        text=text,
        zone=zone,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    **{
        name: _record(_trying(_plain_operation(name), _result_may_fit), _operation(name))
        for name in _PLAIN
    },
    "try_cast": _record(
        _trying(_plain_cast(), _cast_may_fit), text=_cast_text, zone=zone_in_parameters
    ),
}
