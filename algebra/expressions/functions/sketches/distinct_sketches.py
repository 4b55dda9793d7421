"""How many distinct values a sketch of them is of, as Spark's `hll_sketch_estimate` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    require_type,
    valid_mask,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Nulls,
    ScalarFunction,
    Spelling,
    always,
    never,
    unordered,
)
from projseg.algebra.expressions.tree import Call, Expression
from projseg.errors import CorruptSegmentError, EvaluationError
from projseg.memory.forks import late_import
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.vectors.arrow_arrays import primitive_array

_LG_K: Final = 12  # the size for which the estimate of registers is known, and Spark's default
_SMALLEST: Final = 4


def _build(arguments: tuple[Expression, ...], zone: str) -> Expression:
    sketch = arguments[0]
    if sketch.type == pa.null():
        sketch = cast_to(sketch, pa.binary(), zone)
    require_type(sketch.type == pa.binary(), "hll_sketch_estimate", sketch, "a binary")
    return Call(pa.int64(), "hll_sketch_estimate", (sketch,))


def _estimate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.sketches.hll_bytes import fold_sketch_registers, parse_sketches
        from projseg.kernels.sketches.hll_registers import coupon_estimates, register_estimates
    sketches = as_array(arguments[0], row_count)
    valid = valid_mask(arguments[0], row_count)
    offsets, content = text_parts(sketches)
    if np.any(valid & (np.diff(offsets) == 0)):
        raise _bad("an empty binary")
    try:
        modes, counts = parse_sketches(offsets, content, _SMALLEST)
    except CorruptSegmentError as error:
        raise _bad(error.message) from error
    estimates = coupon_estimates(counts)
    of_registers = np.flatnonzero((modes == 2) & valid)
    if len(of_registers):
        if np.any(content[offsets[:-1][of_registers] + 3] != _LG_K):
            raise _bad(f"registers of another lgK than {_LG_K}, which Spark estimates")
        rows = np.full(len(modes), -1, np.int32)
        rows[of_registers] = np.arange(len(of_registers), dtype=np.int32)
        registers = np.zeros((len(of_registers), 1 << _LG_K), np.uint8)
        fold_sketch_registers(offsets, content, modes, rows, registers)
        estimates[of_registers] = register_estimates(registers)
    return primitive_array(np.rint(estimates).astype(np.int64), None if valid.all() else valid)


def _bad(problem: str) -> EvaluationError:
    return EvaluationError(
        "PROJSEG_EVALUATION_BAD_ARGUMENT",
        f"hll_sketch_estimate takes what hll_sketch_agg makes, and met {problem}",
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "hll_sketch_estimate": ScalarFunction(
        spellings=(Spelling("hll_sketch_estimate", _build, 1, 1),),
        evaluate=_estimate,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=unordered,
    ),
}
