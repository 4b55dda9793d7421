"""Postings: which values of a dictionary hold a key, made for a new segment and read by pages.

SPEC.md section 17. What breaks the format raises CorruptSegmentError; a query then goes on without,
since postings only spare work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.segment_format.byte_reader import corrupt
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import HeldBytes, dictionary_hashes, read_values
from projseg.segment_format.file.column_view import ColumnView
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, ColumnEntry, PostingsEntry, Role
from projseg.segment_format.format_limits import (
    DICTIONARY_VALUES_MAX,
    POSTINGS_ROWS_MAX,
    expanded_bytes_max,
    require_limit,
)
from projseg.segment_format.indexes.index_kinds import IndexDefinition, read_definition
from projseg.segment_format.indexes.text_keys import PostedKeys, posted_grams, posted_words
from projseg.segment_format.logical_types import parse_type_name, type_name
from projseg.segment_format.page_decoder import decode_ids, decode_numbers
from projseg.segment_format.page_directory import PageDirectory, directory_bytes
from projseg.segment_format.vectors import Ids, Numbers, Vector

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

_PLACE_TYPE: Final = pa.int64()
_OPEN_BYTES: Final = 8 * 1024  # approximate memory of opened postings

Page = tuple[NDArray[Any], NDArray[np.uint32]]
"""Keys and places of a page's rows."""


class BuiltPostings(msgspec.Struct, frozen=True, eq=False):
    """The postings of one definition, of kind `token` or `ngram`, as a segment stores them.

    `key_ids` ascends, `places` (the values that hold the key) ascends for each key; `count` is the
    size of the column's dictionary, a null counted.
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
    """Return the postings of a column for a `token` or `ngram` index, or why it has none."""
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


class StoredPostings:
    """The postings of one definition in an open file; any number of threads may use them."""

    def __init__(self, segment: SegmentFile, entry: PostingsEntry) -> None:
        self._segment, self._part = segment, f"postings {entry.definition_hash}"
        try:
            self.definition: IndexDefinition = read_definition(entry.definition)
        except (ValueError, msgspec.MsgspecError) as error:
            raise self._corrupt(str(error)) from error
        self._require(
            self.definition.definition_hash == entry.definition_hash
            and self.definition.kind in KEY_TYPES,
            "are of another definition",
        )
        self.count, self._row_count = entry.count, entry.table.row_count
        require_limit(f"rows of {self._part}", self._row_count, POSTINGS_ROWS_MAX)
        key, place = self._columns(entry)
        position = key.dictionary
        known = range(len(segment.footer.dictionaries))
        self._require(position in known, "have no dictionary of keys")
        assert position is not None
        self._keys_entry = segment.footer.dictionaries[position]
        self._require(self._keys_entry.type == key.type, "have keys of another type")
        self._key_pages = postings_directory(segment, entry, key)
        self._place_pages = postings_directory(segment, entry, place)
        records = self._key_pages.records
        self._lows, self._highs = records["minimum"], records["maximum"]
        self._require(bool((self._lows[1:] >= self._highs[:-1]).all()), "do not ascend")
        dictionary = segment.column_dictionary(BASE_TABLE, "base", self.definition.column_name)
        self._require(
            dictionary is not None and len(dictionary) == self.count,
            f"are of {self.count} values, and the column has others",
        )
        assert dictionary is not None
        self._values = dictionary

    @property
    def keys(self) -> Dictionary:
        """All keys, decoded when they are first asked for.

        They have a limit of their own, so that they never take what the columns need.
        """

        def load() -> Dictionary:
            segment, name = self._segment, self._keys_entry.name
            directory = segment.dictionary_directory(self._keys_entry)
            held = HeldBytes(None, 0, expanded_bytes_max(segment.byte_count))
            least = 8 * self._keys_entry.cardinality
            require_limit(f"bytes of the keys of {self._part}", least, held.values_left)
            run = segment.pages(directory, 0, len(directory), f"keys of {self._part}")
            return Dictionary(read_values(run, parse_type_name(self._keys_entry.type), held, name))

        return self._values.memo(("keys of postings", self._part), load, lambda one: one.nbytes)

    def id_of(self, key: str | int) -> int | None:
        """Return the id of a key; None if no value holds it."""
        if isinstance(key, str):
            return self.keys.id_of(key)
        place, is_there = self.keys.place_of(pa.array([key], pa.int64()))
        return place if is_there else None

    def places_of(self, key_id: int) -> NDArray[np.uint32]:
        """Return the values that hold a key, ascending; none at all if they are too many to say."""
        first = int(np.searchsorted(self._highs, key_id, "left"))
        end = int(np.searchsorted(self._lows, key_id, "right"))
        found, total = [np.empty(0, np.uint32)], 0
        for number in range(first, end):
            keys, places = self._page(number)
            low, high = np.searchsorted(keys, [key_id, key_id + 1]).tolist()
            found.append(places[low:high])
            total += high - low
            self._require(total * COMMON_SHARE <= self.count, "hold a key in too many values")
        return np.concatenate(found)

    def holders(self, key_ids: Sequence[int]) -> NDArray[np.bool_] | None:
        """Return which values hold any of some keys, bool[count]; None if one is in too many."""
        mask = np.zeros(self.count, np.bool_)
        for key_id in key_ids:
            places = self.places_of(key_id)
            if len(places) == 0:
                return None
            mask[places] = True
        return mask

    @property
    def null_count(self) -> int:
        """How many values are null: the first, or none."""
        return int(self._values.has_null)

    def pages(self) -> Iterator[Page]:
        """Yield all rows, a page at a time, each proved to follow the one before."""
        last = (-1, -1)
        for number in range(len(self._key_pages)):
            keys, places = self._decoded(number)
            self._require((int(keys[0]), int(places[0])) > last, "do not ascend")
            last = int(keys[-1]), int(places[-1])
            yield keys, places

    def _page(self, number: int) -> Page:
        key = ("page of postings", self._part, number)
        return self._values.memo(
            key, lambda: self._decoded(number), lambda page: sum(one.nbytes for one in page)
        )

    def _decoded(self, number: int) -> Page:
        cardinality = self._keys_entry.cardinality
        run = self._segment.pages(self._key_pages, number, number + 1, self._part)
        keys = decode_ids(run, cardinality, np.dtype(np.uint32))
        run = self._segment.pages(self._place_pages, number, number + 1, self._part)
        numbers = decode_numbers(run, _PLACE_TYPE)
        wide = numbers.wide()
        is_known = numbers.validity is None and int(wide.min()) >= 0
        self._require(is_known and int(wide.max()) < self.count, "name values there are not")
        places = wide.astype(np.uint32)
        steps = keys[1:] > keys[:-1]
        steps |= (keys[1:] == keys[:-1]) & (places[1:] > places[:-1])
        self._require(bool(steps.all()), "do not ascend")
        return keys, places

    def _columns(self, entry: PostingsEntry) -> tuple[ColumnEntry, ColumnEntry]:
        key_type = type_name(KEY_TYPES[self.definition.kind])
        stated = [(column.name, column.kind, column.type) for column in entry.table.columns]
        wanted = [(KEY, "ids", key_type), (PLACE, "numbers", type_name(_PLACE_TYPE))]
        self._require(stated == wanted, "have other columns")
        key, place = entry.table.columns
        return key, place

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise self._corrupt(problem)

    def _corrupt(self, problem: str) -> Exception:
        return corrupt(self._segment.path, self._part, problem)


def postings_directory(
    segment: SegmentFile, entry: PostingsEntry, column: ColumnEntry
) -> PageDirectory:
    """Return the proved page directory of a column of postings."""
    return PageDirectory.parse(
        column.pages,
        row_count=entry.table.row_count,
        is_uniform=True,
        pages_end=segment.tail.footer_offset,
        where=f"{segment.path}: postings {entry.definition_hash}/{column.name}",
    )


def column_postings(
    segment: SegmentFile | ColumnView, table: str, role: Role, name: str
) -> tuple[StoredPostings, ...]:
    """Return the postings of a column's dictionary, which may serve columns of several tables."""
    if isinstance(segment, ColumnView):
        file, name = segment.file, segment.stored_name(role, name)
    else:
        file = segment
    entries = _entries(file, table, role, name) if file.footer.postings else []
    if not entries:
        return ()
    dictionary = file.column_dictionary(table, role, name)
    assert dictionary is not None, "postings are of a dictionary's values"
    return dictionary.memo(
        ("postings",),
        lambda: tuple(StoredPostings(file, entry) for entry in entries),
        lambda found: _OPEN_BYTES * len(found),
    )


def _entries(segment: SegmentFile, table: str, role: Role, name: str) -> list[PostingsEntry]:
    position = segment.column_entry(table, role, name).dictionary
    found = []
    for entry in segment.footer.postings:
        column = _base_column(segment, entry)
        if column is not None and position is not None and column.dictionary == position:
            found.append(entry)
    return found


def _base_column(segment: SegmentFile, entry: PostingsEntry) -> ColumnEntry | None:
    try:
        definition = read_definition(entry.definition)
    except (ValueError, msgspec.MsgspecError):
        return None
    if entry.of != OF_IDS or not definition.is_known:
        return None
    name = definition.column_name
    is_there = segment.has_column(BASE_TABLE, "base", name)
    return segment.column_entry(BASE_TABLE, "base", name) if is_there else None


def postings_bytes(segment: SegmentFile, entry: PostingsEntry) -> int:
    """Return the stored bytes of postings, those of their keys with them."""
    directories = [column.pages for column in entry.table.columns]
    positions = {column.dictionary for column in entry.table.columns}
    dictionaries = enumerate(segment.footer.dictionaries)
    directories += [one.pages for position, one in dictionaries if position in positions]
    return sum(map(directory_bytes, directories))
