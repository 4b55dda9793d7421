"""The kinds of declared indexes, each one record of a closed table. SPEC.md sections 15 and 16.

A kind says which types it takes and which value hashes are the keys of a column's values. All else
(files, listing, coverage, pruning) is the same for all kinds. Bitmap indexes (section 8) are not
among them: nobody declares these, and a segment stores them where they pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from projseg.kernels.sorting import distinct
from projseg.segment_format.dictionary_pages import array_hashes, dictionary_hashes
from projseg.segment_format.indexes.text_keys import UNICODE, gram_hashes, word_hashes
from projseg.segment_format.logical_types import is_nested
from projseg.segment_format.vectors import Ids, Vector

FPP_MIN: Final = 0.00001
FPP_MAX: Final = 0.1
FPP_DEFAULT: Final = 0.001
_BLOCK_BITS: Final = 256
_LANE_BITS: Final = 32
_LANES: Final = 8
_BITS_MAX: Final = 64  # more than any rate that may be asked for needs


class IndexDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an index stores of one column. SPEC.md "Table", indexes.

    `kind` is a key of `KINDS`, `column` canonical text over stored names, `type` the column's Spark
    type when the index was declared, `bits` the least bits of a filter for each key. With
    `postings`, segments store which values hold a key; `unicode` is the version of the table of
    characters, None for kinds that split no text.
    """

    kind: str
    column: str
    type: str
    bits: int
    postings: bool = False
    unicode: str | None = None

    @property
    def column_name(self) -> str:
        """The stored name that `column` is the canonical text of."""
        quoted = self.column.startswith("`")
        return self.column[1:-1].replace("``", "`") if quoted else self.column

    @property
    def is_known(self) -> bool:
        """Whether this release makes its keys, which another table of characters changes."""
        return self.kind in KINDS and self.unicode == KINDS[self.kind].unicode

    @property
    def text(self) -> str:
        """The canonical JSON."""
        return msgspec.json.encode(self).decode()

    @property
    def definition_hash(self) -> str:
        """Its identity: the xxh3_128 of the JSON list of its fields."""
        items = (msgspec.json.encode(value).decode() for value in msgspec.structs.astuple(self))
        return xxhash.xxh3_128_hexdigest(f"[{', '.join(items)}]".encode())


_DEFINITION: Final = msgspec.json.Decoder(IndexDefinition)


def read_definition(text: str) -> IndexDefinition:
    """Return the definition that a canonical text states; ValueError if it is no such text."""
    found = _DEFINITION.decode(text)
    if found.text != text or not 1 <= found.bits <= _BITS_MAX:
        raise ValueError(f"{text[:200]} is no canonical definition of an index")
    return found


class IndexKind(NamedTuple):
    """One kind of index, with its section of SPEC.md.

    `finds` and `wanted` say in messages what it finds and which types it takes; `keys` returns the
    value hashes of a column's keys, uint64[k], each once, none of null. With `are_values` the keys
    are the values themselves, so that stored hashes suffice; with `has_postings` segments may say
    which values hold a key (`file/postings.py`). `unicode` is the version of the table of
    characters that makes its keys.
    """

    name: str
    section: str
    finds: str
    takes: Callable[[pa.DataType], bool]
    wanted: str
    keys: Callable[[Vector], NDArray[np.uint64]]
    are_values: bool = False
    has_postings: bool = False
    unicode: str | None = None


def _is_plain(type_: pa.DataType) -> bool:
    return not (is_nested(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_))


def _values(vector: Vector) -> NDArray[np.uint64]:
    """Return the value hash of each different value."""
    if isinstance(vector, Ids):
        hashes = dictionary_hashes(vector.dictionary)
        return distinct(hashes[1:] if vector.dictionary.has_null else hashes)
    return distinct(array_hashes(vector.to_arrow().drop_null()))


def _of_texts(
    hashes: Callable[[pa.Array], NDArray[np.uint64]],
) -> Callable[[Vector], NDArray[np.uint64]]:
    """Return a function from a column to the keys of each of its different texts."""

    def keys(vector: Vector) -> NDArray[np.uint64]:
        texts = vector.dictionary.values if isinstance(vector, Ids) else vector.to_arrow()
        return hashes(texts.drop_null())

    return keys


BLOOM: Final = IndexKind(
    "bloom",
    "15",
    "equal values",
    _is_plain,
    "numbers, dates, times, strings or binary",
    _values,
    are_values=True,
)
TOKEN: Final = IndexKind(
    "token",
    "16",
    "words of texts",
    pa.types.is_string,
    "strings",
    _of_texts(word_hashes),
    has_postings=True,
    unicode=UNICODE,
)
NGRAM: Final = IndexKind(
    "ngram",
    "16",
    "parts of texts",
    pa.types.is_string,
    "strings",
    _of_texts(gram_hashes),
    has_postings=True,
    unicode=UNICODE,
)

KINDS: Final[dict[str, IndexKind]] = {kind.name: kind for kind in (BLOOM, TOKEN, NGRAM)}


def bits_of(fpp: float) -> int:
    """Return the least bits for each key by which so few absent keys are taken for present."""
    return next(bits for bits in range(1, _BITS_MAX + 1) if false_share(bits) <= fpp)


def false_share(bits: float) -> float:
    """Return the share of absent keys that a filter with `bits` bits a key does not exclude.

    A block has a Poisson number of keys; each sets one bit of 32 in each of eight lanes.
    """
    mean = _BLOCK_BITS / bits
    share, total = math.exp(-mean), 0.0
    for keys in range(int(mean + 40 * math.sqrt(mean)) + 40):
        total += share * (1 - (1 - 1 / _LANE_BITS) ** keys) ** _LANES
        share *= mean / (keys + 1)
    return total


def block_count_of(key_count: int, bits: int) -> int:
    """Return the blocks of a filter: of 2^n and 3 * 2^n the least that gives each key its bits."""
    least = max(1, -(-key_count * bits // _BLOCK_BITS))
    power: int = 1 << (least - 1).bit_length()
    smaller = power // 4 * 3
    return smaller if smaller >= least else power


def same_hashes(declared: pa.DataType, present: pa.DataType) -> bool:
    """Whether equal values of two types have equal value hashes, so that filters serve on."""
    return bool(_hashed_as(declared) == _hashed_as(present))


def _hashed_as(type_: pa.DataType) -> Any:
    if pa.types.is_integer(type_):
        return "decimal", 0
    if pa.types.is_decimal(type_):
        return "decimal", type_.scale
    return "double" if pa.types.is_floating(type_) else type_
