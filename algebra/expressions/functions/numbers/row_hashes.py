"""Spark's hash and xxhash64 of several values: MurmurHash3 and XXH64.

The hash of each value is the seed of the next one's, and a null leaves it as it is.
After: Austin Appleby, MurmurHash3; Yann Collet, xxHash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import is_decimal, is_floating
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    from_integers,
    integers,
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
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_nested, is_text
from projseg.segment_format.vectors.arrow_arrays import filled_values

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
    of_bytes: Callable[[bytes, int], int]


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


def _murmur_bytes(content: bytes, seed: int) -> int:
    """Hash four bytes at a time, then each byte left over as a word, which is Spark's own way."""
    whole = len(content) // 4 * 4
    words = np.frombuffer(content[:whole], "<u4").tolist()
    words += np.frombuffer(content[whole:], np.int8).tolist()
    value = seed
    for word in words:
        mixed = word * 0xCC9E2D51 & 0xFFFFFFFF
        mixed = (mixed << 15 | mixed >> 17) * 0x1B873593 & 0xFFFFFFFF
        value ^= mixed
        value = ((value << 13 | value >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    return int(_murmur_end(np.array([value], _U32), len(content))[0])


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


_MURMUR: Final = _Algorithm(_U32, _murmur_words, _murmur_bytes)
_XXHASH: Final = _Algorithm(_U64, _xxhash_words, xxhash.xxh64_intdigest)


def _hashes_of(algorithm: _Algorithm, array: pa.Array, seeds: _Words) -> _Words:
    """Return the hash of each value with the seed of its row; of a null, of any value."""
    if is_text(array.type):
        return _hashes_of_bytes(algorithm, array.cast(pa.binary()).to_pylist(), seeds)
    if is_decimal(array.type) and array.type.precision > _LONG_DIGITS_MAX:
        unscaled, _ = arrow_to_numbers(array)
        return _hashes_of_bytes(algorithm, [_java_bytes(int(n)) for n in unscaled], seeds)
    return algorithm.of_words(_words(array), seeds)


def _words(array: pa.Array) -> _Words:
    """Return the bits that stand for each value: uint32[n] of narrow types, uint64[n] of others."""
    if is_floating(array.type):
        values = filled_values(array, 0.0)
        values = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
        return values.view(_U32 if values.dtype == np.float32 else _U64)
    if is_decimal(array.type):
        return arrow_to_numbers(array)[0].astype(np.int64).view(_U64)
    numbers = integers(array, len(array))
    is_wide = array.type == pa.int64() or pa.types.is_timestamp(array.type)
    return numbers.view(_U64) if is_wide else numbers.astype(np.int32).view(_U32)


def _java_bytes(value: int) -> bytes:
    """Return what Java's `BigInteger.toByteArray` does: the fewest bytes, highest first."""
    size = value if value >= 0 else ~value
    return value.to_bytes(size.bit_length() // 8 + 1, "big", signed=True)


def _hashes_of_bytes(
    algorithm: _Algorithm, contents: Sequence[bytes | None], seeds: _Words
) -> _Words:
    known: dict[tuple[bytes | None, int], int] = {}
    found = []
    for row in zip(contents, seeds.tolist(), strict=True):
        if row not in known:
            known[row] = algorithm.of_bytes(row[0] or b"", row[1])
        found.append(known[row])
    return np.array(found, algorithm.dtype)


def _record(function: str, result: pa.DataType, algorithm: _Algorithm) -> ScalarFunction:
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

    return ScalarFunction(
        spellings=(Spelling(function, build, 1, 1000),),
        evaluate=evaluate,
        nulls=Nulls.NEVER,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "hash": _record("hash", pa.int32(), _MURMUR),
    "xxhash64": _record("xxhash64", pa.int64(), _XXHASH),
}
