"""Digests of the bytes of a text or binary, and the binary digits of a number."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.expressions.coercion import cast_to, is_numeric
from projseg.algebra.expressions.functions.datum import Datum, require_type
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Nulls,
    ScalarFunction,
    Spelling,
    always,
    never,
    unordered,
)
from projseg.algebra.expressions.functions.text.text_rows import by_row
from projseg.algebra.expressions.tree import Call, Expression

_TEXT: Final = pa.string()
_SHA2: Final = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_UNSIGNED: Final = (1 << 64) - 1


def _bytes_of(function: str, argument: Expression, zone: str) -> Expression:
    is_bytes = argument.type in (_TEXT, pa.binary(), pa.null())
    require_type(is_bytes, function, argument, "a text or binary")
    return cast_to(argument, pa.binary(), zone)


def _of_bytes(function: str, result: pa.DataType, *aliases: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(result, function, (_bytes_of(function, arguments[0], zone),))

    return Spelling(function, build, 1, 1, aliases)


def _build_sha2(arguments: tuple[Expression, ...], zone: str) -> Expression:
    content, bit_count = arguments
    parts = _bytes_of("sha2", content, zone), cast_to(bit_count, pa.int32(), zone)
    return Call(_TEXT, "sha2", parts)


def _build_bin(arguments: tuple[Expression, ...], zone: str) -> Expression:
    number = arguments[0]
    is_number = is_numeric(number.type) or number.type in (_TEXT, pa.null())
    require_type(is_number, "bin", number, "a number")
    return Call(_TEXT, "bin", (cast_to(number, pa.int64(), zone),))


def _digest(algorithm: str, content: bytes) -> str:
    """Return a digest in hexadecimal."""
    import hashlib  # loads OpenSSL, which a question without digests does without

    return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()


def _sha2(content: bytes, bit_count: int) -> str | None:
    """Return the digest in hexadecimal; None of a length that SHA-2 does not have."""
    algorithm = _SHA2.get(bit_count)
    return None if algorithm is None else _digest(algorithm, content)


def _by_row(compute: Callable[..., Any]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        return by_row(compute, arguments, row_count, call.type)

    return evaluate


def _record(
    compute: Callable[..., Any],
    spelling: Spelling,
    null_only_from_null: Callable[[Call], bool] = always,
) -> ScalarFunction:
    """Return the record of a function that is computed once for each distinct row."""
    return ScalarFunction(
        spellings=(spelling,),
        evaluate=_by_row(compute),
        nulls=Nulls.FROM_ANY,
        null_only_from_null=null_only_from_null,
        may_fail=never,
        order=unordered,
        canonical_folds_null=True,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "md5": _record(partial(_digest, "md5"), _of_bytes("md5", _TEXT)),
    "sha1": _record(partial(_digest, "sha1"), _of_bytes("sha1", _TEXT, "sha")),
    "sha2": _record(_sha2, Spelling("sha2", _build_sha2, 2, 2), null_only_from_null=never),
    "crc32": _record(zlib.crc32, _of_bytes("crc32", pa.int64())),
    "bin": _record(lambda n: format(n & _UNSIGNED, "b"), Spelling("bin", _build_bin, 1, 1)),
}
