"""Turn several keys into one group id for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from math import prod
from operator import mul
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.keys import Key, WideKey
from projseg.aggregation.state import Groups, rows_at
from projseg.kernels.distinct_keys import number_pairs
from projseg.kernels.grouping import (
    UnsignedIds,
    append_digit,
    append_wide_digit,
    distinct_keys,
    occupied_groups,
)
from projseg.kernels.row_selection import with_rest
from projseg.memory.memory_pool import empty
from projseg.segment_format.dictionary import narrow_id_dtype
from projseg.segment_format.vectors import Numbers, Vector

# Groups are numbered by mixed radix, without hashing, while they are at most so many, or at most so
# many for each row.
_DENSE_GROUPS_MIN: Final = 1 << 16
_DENSE_GROUPS_PER_ROW: Final = 2
_DENSE_GROUPS_MAX: Final = 1 << 24


class GroupedRows(msgspec.Struct, frozen=True):
    """Rows with their groups; with a dense numbering some groups may have no row.

    The ids of `keys` are the digits of a group id, most significant first; where that number is not
    the id itself, `packed`, uint64, has it for each group. If the product of cardinalities exceeds
    64 bits, `prefix` has the grouping by the keys before these, and its group id is the most
    significant digit. With `has_rest`, the last group holds the masked-out rows and is no group of
    the answer. `vectors` has the value of each key in each group, in place of `keys`.
    """

    groups: Groups
    keys: Sequence[Key]
    packed: NDArray[np.uint64] | None = None
    prefix: GroupedRows | None = None
    has_rest: bool = False
    vectors: Sequence[Vector] | None = None

    @property
    def is_one(self) -> bool:
        """Whether there are no keys, so that all rows are one group."""
        return not self.keys and self.prefix is None and self.vectors is None

    def with_rest(self, mask: NDArray[np.bool_]) -> GroupedRows:
        """Return the same groups and a last one, of the rows where `mask`, bool[n], is false."""
        rest, row_count = self.groups.count, len(mask)
        ids = self.groups.ids
        if ids is None:
            ids = np.zeros(row_count, np.uint8)
        elif rest > np.iinfo(ids.dtype).max:
            ids = ids.astype(narrow_id_dtype(rest + 1))
        groups = Groups(with_rest(ids, mask, rest), rest + 1, row_count)
        return replace(self, groups=groups, has_rest=True)

    def occupied(self) -> NDArray[np.intp] | None:
        """Return the ids of groups that have a row, intp[m] ascending; None if all have."""
        if self.packed is not None or self.groups.ids is None or self.vectors is not None:
            return None
        if _numbers_all(self.keys) and not self.has_rest:
            return None
        is_occupied = (
            self.groups.row_counts > 0
            if "row_counts" in vars(self.groups)  # already counted
            else occupied_groups(self.groups.ids, self.groups.count)
        )
        group_ids = np.flatnonzero(is_occupied[:-1] if self.has_rest else is_occupied)
        return None if len(group_ids) == self.groups.count else group_ids

    def key_vectors(self, group_ids: NDArray[np.intp] | None) -> tuple[Vector, ...]:
        """Return, for each key, its value in each of the groups `group_ids`, intp[m], or in all."""
        if self.vectors is not None:
            return tuple(rows_at(vector, group_ids) for vector in self.vectors)
        if group_ids is None:
            if self.packed is None and _numbers_all(self.keys):
                assert self.keys[0].distinct is not None
                return (self.keys[0].distinct,)
            group_ids = np.arange(self.groups.count)
        if self.packed is None and len(self.keys) == 1:
            return (self.keys[0].values_of(group_ids.astype(self.keys[0].ids.dtype)),)
        # Dense numbers fit 32 bits, which divide several times as fast as 64.
        remaining: NDArray[Any] = group_ids.astype(np.uint32)
        vectors: list[Vector] = []
        grouped: GroupedRows | None = self
        while grouped is not None:
            if grouped.packed is not None:
                remaining = grouped.packed[group_ids]
            remaining, digits = _digits(remaining, grouped.keys)
            for key, own in zip(reversed(grouped.keys), digits, strict=True):
                vectors.append(key.values_of(own.astype(key.ids.dtype)))
            group_ids, grouped = remaining.astype(np.intp), grouped.prefix
        return tuple(reversed(vectors))


def group_rows(
    keys: Sequence[Key | WideKey], row_count: int, *, in_order: bool = True
) -> GroupedRows:
    """Return rows with the numbers of their groups: rows that agree in all keys are one.

    Keys come most significant first; without one, all rows are one group. Groups ascend in the
    order of the keys if `in_order`, which costs a sort where they are many.
    """
    if not keys:
        return GroupedRows(Groups(None, 1, row_count), ())
    numbered = _all_numbered(keys)
    if numbered is None:
        return _grouped_by_words(keys, row_count)
    if is_dense(numbered, row_count):
        group_ids = _mixed_radix(numbered)
        return GroupedRows(Groups(group_ids, _product(numbered), row_count), numbered)
    grouped: GroupedRows | None = None
    rest = list(numbered)
    while rest:
        digits = rest
        if grouped is not None:
            assert grouped.groups.ids is not None
            digits = [Key(grouped.groups.ids, grouped.groups.count, rest[0].values_of), *rest]
        products = accumulate((max(key.cardinality, 1) for key in digits), mul)
        fitting = sum(1 for _ in takewhile((1 << 64).__gt__, products))
        group_ids, packed = distinct_keys(_packed(digits[:fitting]), in_order=in_order)
        own = rest[: fitting - len(digits) + len(rest)]
        grouped = GroupedRows(
            Groups(group_ids, len(packed), row_count), own, packed, prefix=grouped
        )
        rest = rest[len(own) :]
    assert grouped is not None
    return grouped


def _grouped_by_words(keys: Sequence[Key | WideKey], row_count: int) -> GroupedRows:
    """Group by 64-bit words: those of wide keys, and the other ids in as few as hold them."""
    words = [key.words for key in keys if isinstance(key, WideKey)]
    ids = [key if isinstance(key, Key) else _presence(key) for key in keys]
    packs = list(_packs([key for key in ids if key is not None]))
    group_ids, found = _distinct_tuples([*words, *map(_packed, packs)])
    values, numbers = iter(found[: len(words)]), found[len(words) :]
    digits = (
        digit
        for pack, packed in zip(packs, numbers, strict=True)
        for digit in reversed(_digits(packed, pack)[1])
    )
    vectors = [
        key.values_of(next(digits).astype(key.ids.dtype))
        if isinstance(key, Key)
        else key.values_of(
            next(values), None if key.validity is None else next(digits).astype(np.bool_)
        )
        for key in keys
    ]
    groups = Groups(group_ids, len(found[0]), row_count)
    return GroupedRows(groups, (), vectors=vectors)


def _presence(key: WideKey) -> Key | None:
    """Return the key of where a wide key has a value; None means everywhere."""
    if key.validity is None:
        return None
    return Key(key.validity.view(np.uint8), 2, lambda ids: Numbers(ids, pa.bool_()))


def _packs(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    """Yield keys in order, as many together as 64 bits hold."""
    rest = list(keys)
    while rest:
        products = accumulate((max(key.cardinality, 1) for key in rest), mul)
        count = sum(1 for _ in takewhile((1 << 64).__gt__, products))
        yield rest[:count]
        rest = rest[count:]


def _distinct_tuples(
    words: Sequence[NDArray[np.uint64]],
) -> tuple[NDArray[np.uint32], Sequence[NDArray[np.uint64]]]:
    """Return each row's position among the distinct tuples of words, and the words of those."""
    if len(words) == 1:
        ids, distinct = distinct_keys(words[0], in_order=False)
        return ids, [distinct]
    ids, *found = number_pairs(words[0], words[1])
    for more in words[2:]:
        ids, places, last = number_pairs(ids.astype(np.uint64), more)
        found = [*(word[places] for word in found), last]
    return ids, found


def _digits(
    numbers: NDArray[Any], keys: Sequence[Key]
) -> tuple[NDArray[Any], Sequence[NDArray[Any]]]:
    """Return the rest of mixed-radix numbers, and each key's digits, the last key's first."""
    digits = []
    for key in reversed(keys):
        own = empty(len(numbers), numbers.dtype)
        rest = empty(len(numbers), numbers.dtype)
        np.divmod(numbers, numbers.dtype.type(max(key.cardinality, 1)), out=(rest, own))
        digits.append(own)
        numbers = rest
    return numbers, digits


def is_dense(keys: Sequence[Key | WideKey], row_count: int) -> bool:
    """Whether groups are numbered by mixed radix, and not by hashing."""
    numbered = _all_numbered(keys)
    if numbered is None:
        return False
    dense_max = min(_DENSE_GROUPS_PER_ROW * row_count, _DENSE_GROUPS_MAX)
    return _numbers_all(numbered) or _product(numbered) <= max(_DENSE_GROUPS_MIN, dense_max)


def _all_numbered(keys: Sequence[Key | WideKey]) -> Sequence[Key] | None:
    """Return the keys if all have ids."""
    numbered = [key for key in keys if isinstance(key, Key)]
    return numbered if len(numbered) == len(keys) else None


def _numbers_all(keys: Sequence[Key]) -> bool:
    """Whether the ids of a single key number the groups, each of which has a row."""
    return len(keys) == 1 and keys[0].distinct is not None


def _product(keys: Sequence[Key]) -> int:
    return prod(max(key.cardinality, 1) for key in keys)


def _mixed_radix(keys: Sequence[Key]) -> NDArray[np.unsignedinteger]:
    if len(keys) == 1:
        return keys[0].ids
    # Kernels are quickest over ids of one byte.
    is_few = _product(keys) <= 1 << 8
    group_ids: UnsignedIds = keys[0].ids.astype(np.uint8 if is_few else np.uint32)
    for key in keys[1:]:
        append_digit(group_ids, key.ids, key.cardinality)
    return group_ids


def _packed(keys: Sequence[Key]) -> NDArray[np.uint64]:
    packed = keys[0].ids.astype(np.uint64)
    for key in keys[1:]:
        append_wide_digit(packed, key.ids, key.cardinality)
    return packed
