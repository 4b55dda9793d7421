"""The words of texts and their runs of three characters: keys of indexes. SPEC.md section 16.

Characters are classed and folded by a table that never changes, `characters.json`, so that a word
which is stored today is found whatever Unicode the reader's Python and Java know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from projseg.errors import ProjsegError
from projseg.kernels.distinct_keys import distinct_pairs
from projseg.kernels.grouping import distinct_keys
from projseg.kernels.sketches.value_hash import hash_bytes, hash_int64
from projseg.kernels.sorting import distinct
from projseg.kernels.texts.text_words import CLASS, CODE_POINTS, NOTHING, split_words, text_grams
from projseg.segment_format.arrow_arrays import (
    array_of,
    primitive_array,
    primitive_values,
    text_array,
    text_buffers,
)

UNICODE: Final = "18.0.0"
"""The version of the table, as definitions of indexes state it."""

WORD: Final = 1
"""The class of characters that make words together with their neighbours."""

_FILE: Final = Path(__file__).with_name("characters.json")
_HASH: Final = "6f5c09c2490de5ff898c6a70c5da78af"
_BYTES_AT_ONCE: Final = 1 << 20


class _Characters(msgspec.Struct, forbid_unknown_fields=True):
    """The file: first and last code points of ranges; pairs of a code point and its fold or -1."""

    unicode: str
    words: list[int]
    singles: list[int]
    folds: list[int]


@cache
def character_table() -> NDArray[np.uint32]:
    """Return the table that kernels take: uint32[0x110000]."""
    content = _FILE.read_bytes()
    if xxhash.xxh3_128_hexdigest(content) != _HASH:
        raise ProjsegError(
            "PROJSEG_INTERNAL",
            f"{_FILE} is not the table of characters of this release; install projseg anew",
        )
    stated = msgspec.json.decode(content, type=_Characters)
    table = np.arange(CODE_POINTS, dtype=np.uint32)
    codes, folds = np.array(stated.folds).reshape(-1, 2).T
    table[codes] = np.where(folds < 0, NOTHING, folds)
    for class_, bounds in enumerate((stated.words, stated.singles), WORD):
        for first, last in zip(bounds[::2], bounds[1::2], strict=True):
            table[first : last + 1] |= np.uint32(class_ * CLASS)
    table.flags.writeable = False
    return table


def class_of(character: str) -> int:
    """Return the class of a character: 0 for a gap, `WORD`, or 2 for one that is a word alone."""
    return int(character_table()[ord(character)]) // CLASS % 4


def folds_to_nothing(character: str) -> bool:
    """Whether grams leave a character out."""
    return int(character_table()[ord(character)]) & NOTHING != 0


class Words:
    """The words of an array's texts, folded, in order, and the row of each.

    Rows that are null may hold any text.
    """

    def __init__(self, array: pa.Array) -> None:
        offsets, content, self.texts = split_words(*text_buffers(array), character_table())
        self.values = text_array(offsets, content, pa.string(), None)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, folded, in order."""
    return tuple(Words(array_of([text], pa.string())).values.to_pylist())


def grams_of(text: str) -> tuple[int, ...]:
    """Return the runs of three characters of a text, folded, in order."""
    found, _ = text_grams(*text_buffers(array_of([text], pa.string())), character_table())
    return tuple(found.tolist())


def slices(array: pa.Array) -> Iterator[pa.Array]:
    """Yield an array of texts in slices of about 1 MiB of text, at least one."""
    offsets, _ = text_buffers(array)
    start = 0
    while True:
        end = int(np.searchsorted(offsets, offsets[start] + _BYTES_AT_ONCE, "right")) - 1
        end = min(max(end, start + 1), len(array))
        yield array.slice(start, end - start)
        if end >= len(array):
            return
        start = end


class PostedKeys(NamedTuple):
    """The keys of some texts, each once, ascending: strings or int64s.

    Key i is in the texts `texts[starts[i] : starts[i + 1]]`, ascending.
    """

    keys: pa.Array
    starts: NDArray[np.int64]
    texts: NDArray[np.uint32]


def posted_words(texts: pa.Array) -> PostedKeys:
    """Return the words of texts without nulls, and where each is."""

    def words(part: pa.Array) -> tuple[pa.Array, NDArray[Any], NDArray[np.int32]]:
        found = Words(part)
        encoded = found.values.dictionary_encode()
        return encoded.dictionary, primitive_values(encoded.indices), found.texts

    return _posted(texts, words)


def posted_grams(texts: pa.Array) -> PostedKeys:
    """Return the runs of three characters of texts without nulls, and where each is."""

    def grams(part: pa.Array) -> tuple[pa.Array, NDArray[Any], NDArray[np.int32]]:
        found, rows = text_grams(*text_buffers(part), character_table())
        ids, keys = distinct_keys(found.view(np.uint64), in_order=False)
        return primitive_array(keys.view(np.int64)), ids, rows

    return _posted(texts, grams)


def _posted(
    texts: pa.Array, keys_of: Callable[[pa.Array], tuple[pa.Array, NDArray[Any], NDArray[np.int32]]]
) -> PostedKeys:
    """Join what slices of texts hold: their different keys, and (key, text) pairs."""
    key_lists, pairs, start = [], [], 0
    for part in slices(texts):
        keys, ids, rows = keys_of(part)
        key_lists.append(keys)
        pairs.append((ids, rows.astype(np.uint32) + np.uint32(start)))
        start += len(part)
    encoded = pa.concat_arrays(key_lists).dictionary_encode()
    order = primitive_values(pc.array_sort_indices(encoded.dictionary))
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    of_lists = np.split(
        rank[primitive_values(encoded.indices)], np.cumsum([len(keys) for keys in key_lists[:-1]])
    )
    ids = np.concatenate([ranks[ids] for ranks, (ids, _) in zip(of_lists, pairs, strict=True)])
    held_by: NDArray[np.uint32] = np.concatenate([rows for _, rows in pairs])
    starts, held = distinct_pairs(ids, len(order), held_by, max(len(texts), 1))
    return PostedKeys(encoded.dictionary.take(primitive_array(order)), starts, held)


def word_hashes(texts: pa.Array) -> NDArray[np.uint64]:
    """Return the value hash of each different word of texts without nulls: uint64[k]."""

    def hashes(part: pa.Array) -> NDArray[np.uint64]:
        offsets, content = text_buffers(Words(part).values)
        return hash_bytes(offsets.astype(np.int64), content)

    return _of_slices(texts, hashes, np.dtype(np.uint64))


def gram_hashes(texts: pa.Array) -> NDArray[np.uint64]:
    """Return the value hash of each different run of three characters, of texts without nulls."""

    def grams(part: pa.Array) -> NDArray[np.int64]:
        return text_grams(*text_buffers(part), character_table())[0]

    return distinct(hash_int64(_of_slices(texts, grams, np.dtype(np.int64))))


def _of_slices(
    texts: pa.Array, keys: Callable[[pa.Array], NDArray[Any]], dtype: np.dtype[Any]
) -> NDArray[Any]:
    found, held = np.empty(0, dtype), [np.empty(0, dtype)]
    for part in slices(texts):
        held.append(distinct(keys(part)))
        if sum(map(len, held)) > len(found):  # so that few keys are sorted often
            found, held = distinct(np.concatenate([found, *held])), []
    return distinct(np.concatenate([found, *held]))
