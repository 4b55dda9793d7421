"""Postings: which values of a dictionary hold a key, made for a new segment. SPEC.md section 17.

The keys of a column are made once for both: its postings, and its Bloom filter beside the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.dictionaries.dictionary_pages import dictionary_hashes
from projseg.segment_format.indexes.index_kinds import IndexDefinition
from projseg.segment_format.indexes.text_keys import PostedKeys, posted_grams, posted_words
from projseg.segment_format.layout.format_limits import (
    DICTIONARY_VALUES_MAX,
    POSTINGS_ROWS_MAX,
)
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector

OF_IDS: Final = "ids"
"""What places are: ids of the column's dictionary."""

KEY: Final = "key"
PLACE: Final = "place"
SKIPPED: Final = "skipped: "
NO_DICTIONARY: Final = f"{SKIPPED}the column has no dictionary"

COMMON_SHARE: Final = 8
"""A key that is in more than one of so many values has no rows: it tells nothing."""

KEY_TYPES: Final[dict[str, pa.DataType]] = {"token": pa.string(), "ngram": pa.int64()}
"""By kind of index, the type of its keys."""

_POSTED: Final[dict[str, Callable[[pa.Array], PostedKeys]]] = {
    "token": posted_words,
    "ngram": posted_grams,
}


class BuiltPostings(msgspec.Struct, frozen=True, eq=False):
    """The postings of one definition, as a segment stores them.

    Parameters
    ----------
    definition : IndexDefinition
        Of kind `token` or `ngram`.
    count : int
        Values of the column's dictionary, a null counted.
    keys : Dictionary
        All keys of these values.
    key_ids : uint[n]
        The key of each row, ascending.
    places : uint32[n]
        The value of each row, ascending for each key.
    """

    definition: IndexDefinition
    count: int
    keys: Dictionary
    key_ids: NDArray[np.unsignedinteger[Any]]
    places: NDArray[np.uint32]

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The value hash of each key: uint64[k]."""
        return dictionary_hashes(self.keys)

    @property
    def columns(self) -> dict[str, Vector]:
        """The columns by name."""
        return {
            KEY: Ids(self.key_ids, self.keys),
            PLACE: Numbers(self.places, pa.int64()),
        }


def build_postings(definition: IndexDefinition, vector: Vector) -> BuiltPostings | str:
    """Return the postings of a column, or why it has none.

    Parameters
    ----------
    definition : IndexDefinition
        Of kind `token` or `ngram`.
    vector : Vector
        The base column.
    """
    if not isinstance(vector, Ids):
        return NO_DICTIONARY
    dictionary = vector.dictionary
    posted = _POSTED[definition.kind](dictionary.values.drop_null())
    counts = np.diff(posted.starts)
    kept = counts * COMMON_SHARE <= len(dictionary)
    row_count = int(counts[kept].sum())
    if row_count > POSTINGS_ROWS_MAX or len(counts) > DICTIONARY_VALUES_MAX:
        return f"{SKIPPED}{row_count} rows of {len(counts)} keys are too many"
    keys = Dictionary(posted.keys)
    ids = np.arange(len(counts), dtype=keys.id_dtype)
    places = posted.texts if kept.all() else posted.texts[np.repeat(kept, counts)]
    if dictionary.has_null:
        places = places + np.uint32(1)
    return BuiltPostings(
        definition, len(dictionary), keys, np.repeat(ids[kept], counts[kept]), places
    )
