"""JSON files that carry their own checksum. SPEC.md "Table", sealed JSON.

    {"checksum":"<32 hexadecimal digits>","kind":"snapshot","format_version":1,...}

The checksum is xxh3-128 over every byte after its own field, so any changed byte is found. A file
must also be byte for byte what this module would write for the value read from it: that refuses
duplicate keys, unknown fields, odd numbers and white space without a rule for each.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec
import numpy as np
import xxhash

from projseg.errors import CorruptTableError, LimitExceededError, UnsupportedFeatureError
from projseg.table_layer.metadata.metadata_limits import METADATA_BYTES_MAX, METADATA_DEPTH_MAX
from projseg.table_layer.storage.storage_contract import Storage

METADATA_FORMAT_VERSION: Final = 1
SUPPORTED_FEATURES: Final = frozenset(
    {
        *("stored_columns", "commit_info", "deletion_vectors", "tags", "vacuum", "indexes"),
        *("row_projections", "time_zone_rules", "optional", "foreign", "foreign_ids"),
    }
)

_FIRST_READ_BYTES: Final = 1 << 20  # one read fetches most files
_PREFIX: Final = b'{"checksum":"'
_CHECKSUM_END: Final = len(_PREFIX) + 32
_BODY_START: Final = _CHECKSUM_END + 2
_UNSEALED: Final = "0" * 32

_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_NO_MARKS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_MARKS_AT_ONCE: Final = 1 << 18
_STEPS: Final = np.zeros(256, np.int8)  # of the depth, by byte
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


class SealedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields every sealed file starts with; a subclass adds its own after them."""

    checksum: str = _UNSEALED
    kind: str
    format_version: int = METADATA_FORMAT_VERSION
    required_features: tuple[str, ...] = ()


class _Head(msgspec.Struct, frozen=True):
    kind: str
    format_version: int
    required_features: tuple[str, ...]


Sealed = TypeVar("Sealed", bound=SealedFile)

_ENCODER: Final = msgspec.json.Encoder()
_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)


def seal(value: SealedFile) -> bytes:
    """Return the file's bytes; whatever checksum `value` states is replaced by the true one."""
    payload = bytearray(_ENCODER.encode(value))
    _check_size(len(payload), f"a new {value.kind}")
    payload[len(_PREFIX) : _CHECKSUM_END] = _digest(payload)
    return bytes(payload)


def checksum_of(payload: bytes) -> str:
    """Return the checksum that sealed bytes state."""
    return payload[len(_PREFIX) : _CHECKSUM_END].decode("ascii", errors="replace")


def unseal(payload: bytes, decoder: msgspec.json.Decoder[Sealed], kind: str, name: str) -> Sealed:
    """Return the value of a sealed file of a kind, after every check that its bytes allow."""
    if not payload.startswith(_PREFIX) or payload[_CHECKSUM_END:_BODY_START] != b'",':
        raise _corrupt(name, "it does not start as one")
    if payload[len(_PREFIX) : _CHECKSUM_END] != _digest(payload):
        raise _corrupt(name, "its checksum does not match its bytes")
    _require_shallow(payload, name)
    try:
        head = _HEAD_DECODER.decode(payload)
        _check_head(head, kind, name)
        value = decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _corrupt(name, str(error)) from error
    if _ENCODER.encode(value) != payload:
        raise _corrupt(name, "it is not in canonical form")
    return value


def read_sealed(storage: Storage, name: str) -> bytes:
    """Return a metadata file's bytes; FileNotFoundError if it is missing."""
    content, size = storage.read_sized(name, 0, _FIRST_READ_BYTES)
    _check_size(size, f"{storage.location}/{name}")
    if len(content) < size:
        content += storage.read_range(name, len(content), size - len(content))
    return content


def _require_shallow(payload: bytes, name: str) -> None:
    """Refuse deep nesting before a decoder recurses into it.

    Only quotes and brackets are examined; brackets inside texts do not count.
    """
    if b"\\" in payload:
        payload = _ESCAPE.sub(b"", payload)
    marks = np.frombuffer(payload.translate(None, _NO_MARKS), np.uint8)
    depth, quote_count = 0, 0
    for start in range(0, len(marks), _MARKS_AT_ONCE):
        few = marks[start : start + _MARKS_AT_ONCE]
        quotes = np.cumsum(few == ord('"')) + quote_count
        depths = np.cumsum(np.where(quotes % 2 == 0, _STEPS[few], 0)) + depth
        if int(depths.max()) > METADATA_DEPTH_MAX:
            raise _corrupt(name, f"it nests deeper than {METADATA_DEPTH_MAX} levels")
        depth, quote_count = int(depths[-1]), int(quotes[-1])


def _check_size(size: int, what: str) -> None:
    if size > METADATA_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_METADATA_TOO_LARGE",
            f"{what} has {size} bytes; at most {METADATA_BYTES_MAX} are read",
        )


def _digest(payload: bytes | bytearray) -> bytes:
    digest: str = xxhash.xxh3_128_hexdigest(memoryview(payload)[_BODY_START:])
    return digest.encode("ascii")


def _check_head(head: _Head, kind: str, name: str) -> None:
    if head.kind != kind:
        raise ValueError(f"it is a {head.kind[:40]}")
    unknown = set(head.required_features) - SUPPORTED_FEATURES
    if head.format_version != METADATA_FORMAT_VERSION or unknown:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_TABLE_VERSION",
            f"{name} has format version {head.format_version} and needs {sorted(unknown)}; this "
            f"release reads version {METADATA_FORMAT_VERSION}: use a later release of projseg",
        )


def _corrupt(name: str, problem: str) -> CorruptTableError:
    return CorruptTableError(
        "PROJSEG_CORRUPT_TABLE",
        f"{name} is not a metadata file that projseg wrote: {problem}; restore it from a copy",
    )
