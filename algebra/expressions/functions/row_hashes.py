"""Digests, Spark's hashes of rows, and the distinct values of a sketch.

The hash of each value is the seed of the next one's, and a null leaves it as it is.
After: Austin Appleby, MurmurHash3; Yann Collet, xxHash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import ANY, BYTES, spark_call, spark_call_of_all
from projseg.algebra.expressions.coercion import cast_to, is_decimal, is_floating
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    check_text_bytes,
    from_integers,
    integers,
    plain_floats,
    require_type,
    valid_mask,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import unscaled
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
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
from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    text_array,
    text_buffers,
)
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.logical_types import is_nested, is_text

if TYPE_CHECKING:
    from projseg.kernels.digests import Algorithm

_TEXT: Final = pa.string()
_SHA2: Final[dict[int, Algorithm]] = {
    0: "sha256",
    224: "sha224",
    256: "sha256",
    384: "sha384",
    512: "sha512",
}


def _bytes_of(function: str, argument: Expression, zone: str) -> Expression:
    is_bytes = argument.type in (_TEXT, pa.binary(), pa.null())
    require_type(is_bytes, function, argument, "a text or binary")
    return cast_to(argument, pa.binary(), zone)


def _of_bytes(function: str, expression: str, result: pa.DataType, *aliases: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(result, function, (_bytes_of(function, arguments[0], zone),))

    return Spelling(function, build, 1, 1, aliases, catalyst=spark_call(expression, BYTES))


def _build_sha2(arguments: tuple[Expression, ...], zone: str) -> Expression:
    content, bit_count = arguments
    parts = _bytes_of("sha2", content, zone), cast_to(bit_count, pa.int32(), zone)
    return Call(_TEXT, "sha2", parts)


def _digest(
    algorithm: Algorithm, call: Call, arguments: Sequence[Datum], row_count: int
) -> pa.Array:
    return _digests(algorithm, as_array(arguments[0], row_count))


def _digests(algorithm: Algorithm, array: pa.Array) -> pa.Array:
    """Return the digest of each binary value in hexadecimal."""
    with late_import:
        from projseg.kernels.digests import digest_bytes, digests
    width = 2 * digest_bytes(algorithm)
    check_text_bytes(width * len(array), [array], len(array))
    found = digests(*text_buffers(array), algorithm).tobytes().hex().encode()
    ends = np.arange(len(array) + 1, dtype=np.int32) * width
    nulls = valid_mask(array, len(array)) if array.null_count else None
    return text_array(ends, memoryview(found), _TEXT, nulls)


def _sha2(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return digests in hexadecimal; null of lengths that SHA-2 does not have."""
    contents = as_array(arguments[0], row_count)
    bit_counts = integers(arguments[1], row_count)
    valid = all_valid(arguments, row_count)
    digests = pa.nulls(row_count, _TEXT)
    for bit_count, algorithm in _SHA2.items():
        rows = valid & (bit_counts == bit_count)
        if rows.any():
            mask = primitive_array(rows)
            digests = pc.replace_with_mask(
                digests, mask, _digests(algorithm, contents.filter(mask))
            )
    return digests


def _crc32(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    with late_import:
        from projseg.kernels.byte_hashes import crc32
    array = as_array(arguments[0], row_count)
    sums = crc32(*text_buffers(array)).view(np.int64)
    return from_integers(sums, valid_mask(array, row_count), call.type)


def _digest_record(
    evaluate: Evaluator,
    spelling: Spelling,
    null_only_from_null: Callable[[Call], bool] = always,
) -> ScalarFunction:
    """Return the record of a function of bytes that is null where they are."""
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=evaluate,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=null_only_from_null,
        may_fail=never,
        order=unordered,
        canonical_folds_null=True,
    )


_SEED: Final = 42
_LONG_DIGITS_MAX: Final = 18  # Spark hashes longer decimals as the bytes of their digits
_U32, _U64 = np.uint32, np.uint64
_Words = NDArray[Any]


@dataclass(frozen=True)
class _Algorithm:
    """A hash of one value with a seed, which has the hash's type; `dtype` is that type."""

    dtype: type[np.unsignedinteger[Any]]
    of_words: Callable[[_Words, _Words], _Words]
    """(values uint32[n] or uint64[n], seeds [n]) -> hashes [n]."""
    of_bytes: str
    """The kernel of byte strings, in `kernels/byte_hashes.py`."""


def _turned(values: _Words, count: int) -> _Words:
    """Return words rotated to the left."""
    width = values.dtype.itemsize * 8
    kind = values.dtype.type
    return np.asarray(values << kind(count) | values >> kind(width - count))


def _murmur_step(hashes: _Words, words: _Words) -> _Words:
    mixed = _turned(words * _U32(0xCC9E2D51), 15) * _U32(0x1B873593)
    return _turned(hashes ^ mixed, 13) * _U32(5) + _U32(0xE6546B64)


def _murmur_end(hashes: _Words, byte_count: int) -> _Words:
    hashes = hashes ^ _U32(byte_count & 0xFFFFFFFF)
    hashes = (hashes ^ hashes >> _U32(16)) * _U32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> _U32(13)) * _U32(0xC2B2AE35)
    return np.asarray(hashes ^ hashes >> _U32(16))


def _murmur_words(values: _Words, seeds: _Words) -> _Words:
    if values.dtype == _U32:
        return _murmur_end(_murmur_step(seeds, values), 4)
    low, high = values.astype(_U32), (values >> _U64(32)).astype(_U32)
    return _murmur_end(_murmur_step(_murmur_step(seeds, low), high), 8)


_P1, _P2, _P3 = _U64(0x9E3779B185EBCA87), _U64(0xC2B2AE3D27D4EB4F), _U64(0x165667B19E3779F9)
_P4, _P5 = _U64(0x85EBCA77C2B2AE63), _U64(0x27D4EB2F165667C5)


def _xxhash_words(values: _Words, seeds: _Words) -> _Words:
    if values.dtype == _U32:
        hashes = seeds + _P5 + _U64(4) ^ values.astype(_U64) * _P1
        hashes = _turned(hashes, 23) * _P2 + _P3
    else:
        hashes = seeds + _P5 + _U64(8) ^ _turned(values * _P2, 31) * _P1
        hashes = _turned(hashes, 27) * _P1 + _P4
    hashes = (hashes ^ hashes >> _U64(33)) * _P2
    hashes = (hashes ^ hashes >> _U64(29)) * _P3
    return np.asarray(hashes ^ hashes >> _U64(32))


_MURMUR: Final = _Algorithm(_U32, _murmur_words, "murmur3")
_XXHASH: Final = _Algorithm(_U64, _xxhash_words, "xxhash64")


def _hashes_of(algorithm: _Algorithm, array: pa.Array, seeds: _Words) -> _Words:
    """Return the hash of each value with the seed of its row; of a null, of any value."""
    if is_text(array.type):
        return _hashes_of_bytes(algorithm, *text_buffers(array), seeds)
    if is_decimal(array.type) and array.type.precision > _LONG_DIGITS_MAX:
        with late_import:
            from projseg.kernels.byte_hashes import java_bytes
        return _hashes_of_bytes(algorithm, *java_bytes(unscaled(array)), seeds)
    return algorithm.of_words(_words(array), seeds)


def _words(array: pa.Array) -> _Words:
    """Return the bits of each value: uint32[n] for narrow types, uint64[n] for others."""
    if is_floating(array.type):
        values = filled_values(plain_floats(array), 0.0)
        return values.view(_U32 if values.dtype == np.float32 else _U64)
    if is_decimal(array.type):
        return np.ascontiguousarray(unscaled(array)[:, 0]).view(_U64)
    numbers = integers(array, len(array))
    is_wide = array.type == pa.int64() or pa.types.is_timestamp(array.type)
    return numbers.view(_U64) if is_wide else numbers.astype(np.int32).view(_U32)


def _hashes_of_bytes(
    algorithm: _Algorithm, offsets: NDArray[np.int32], content: NDArray[np.uint8], seeds: _Words
) -> _Words:
    with late_import:
        from projseg.kernels import byte_hashes
    found = getattr(byte_hashes, algorithm.of_bytes)(offsets, content, seeds.astype(_U64))
    return np.asarray(found.astype(algorithm.dtype, copy=False))


def _record(
    function: str, expression: str, result: pa.DataType, algorithm: _Algorithm
) -> ScalarFunction:
    """Return the record of a hash of all arguments, which has a value even where all are null."""

    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        for argument in arguments:
            is_flat = not is_nested(argument.type)
            require_type(is_flat, function, argument, "values that are not nested")
        return Call(result, function, arguments)

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        hashes = np.full(row_count, _SEED, algorithm.dtype)
        for argument in arguments:
            array = as_array(argument, row_count)
            if array.null_count < row_count:
                valid = valid_mask(array, row_count)
                hashes = np.where(valid, _hashes_of(algorithm, array, hashes), hashes)
        signed = hashes.view(np.int32 if algorithm.dtype == _U32 else np.int64)
        return from_integers(signed, np.ones(row_count, np.bool_), call.type)

    catalyst = spark_call_of_all(expression, ANY, seed=str(_SEED))
    return ScalarFunction(
        spellings=(Spelling(function, build, 1, 1000, catalyst=catalyst),),
        evaluate=evaluate,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.NEVER,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    )


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
    "md5": _digest_record(partial(_digest, "md5"), _of_bytes("md5", "Md5", _TEXT)),
    "sha1": _digest_record(partial(_digest, "sha1"), _of_bytes("sha1", "Sha1", _TEXT, "sha")),
    "sha2": _digest_record(
        _sha2,
        Spelling("sha2", _build_sha2, 2, 2, catalyst=spark_call("Sha2", BYTES, ANY)),
        null_only_from_null=never,
    ),
    "crc32": _digest_record(_crc32, _of_bytes("crc32", "Crc32", pa.int64())),
    "hash": _record("hash", "Murmur3Hash", pa.int32(), _MURMUR),
    "xxhash64": _record("xxhash64", "XxHash64", pa.int64(), _XXHASH),
    "hll_sketch_estimate": ScalarFunction(
        spellings=(Spelling("hll_sketch_estimate", _build, 1, 1),),
        evaluate=_estimate,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=unordered,
    ),
}
