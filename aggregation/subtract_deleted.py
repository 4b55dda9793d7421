"""Take the states of some rows out of the states of all: what the other rows have is left.

A count or an exact sum is subtracted; bits that were combined by exclusive or are combined once
more. A sum of no values is null, and a group of no rows is none, so both need to be counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.partial import Partial, StoredPartial, merge_partials
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import CorruptSegmentError
from projseg.kernels.fold_extremum import INT64_MAX
from projseg.segment_format.vectors import Numbers, Vector


def without(
    stored: Partial,
    deleted: Partial,
    primitives: Sequence[Primitive],
    *,
    row_count: int | None,
    value_counts: Sequence[int | None],
    path: str,
) -> StoredPartial:
    """Return the groups of all rows without some of them, both by the same keys.

    `primitives` has those wanted, then others that count; each is a count, an exact sum or a
    bit_xor. `row_count` is the one that counts a group's rows, None without keys; `value_counts`
    has the one that counts each wanted one's values, None for a count. Raises CorruptSegmentError
    if more rows are deleted than there are.

    Twin: tests/oracle/subtracted_rows.py.
    """
    negative = StoredPartial(
        deleted.keys,
        primitives,
        [_negative(one, deleted.state_columns(i)) for i, one in enumerate(primitives)],
        deleted.group_count,
    )
    left = merge_partials([stored, negative], primitives)
    columns = [left.state_columns(index) for index in range(len(primitives))]
    for primitive, column in zip(primitives, columns, strict=True):
        if primitive.kind.counts and (_counts(column) < 0).any():
            raise CorruptSegmentError(
                "PROJSEG_CORRUPT_SEGMENT",
                f"{path}: {primitive.text} of a projection is less than of the rows that were "
                "deleted; verify the table",
            )
    keys, group_count = left.keys, left.group_count
    if row_count is not None:
        kept = np.flatnonzero(_counts(columns[row_count]))
        keys, group_count = [key.take(kept) for key in keys], len(kept)
        columns = [{part: one.take(kept) for part, one in column.items()} for column in columns]
    wanted = [
        column if count is None else _nulled(column, _counts(columns[count]) > 0)
        for column, count in zip(columns, value_counts, strict=False)
    ]
    return StoredPartial(keys, primitives[: len(wanted)], wanted, group_count)


def _negative(primitive: Primitive, columns: Mapping[str, Vector]) -> Mapping[str, Vector]:
    """Return the state that cancels a state when they are merged."""
    if primitive.kind.is_own_inverse:
        return columns
    ((part, numbers),) = columns.items()
    assert isinstance(numbers, Numbers), "counts and sums are numbers"
    values = numbers.wide()
    if values.dtype != object and len(values) and int(values.min()) < -INT64_MAX:
        values = values.astype(object)
    return {part: Numbers(-values, numbers.type, validity=numbers.validity)}


def _counts(columns: Mapping[str, Vector]) -> NDArray[np.int64]:
    numbers = columns["count"]
    assert isinstance(numbers, Numbers), "counts are numbers"
    return numbers.wide()


def _nulled(columns: Mapping[str, Vector], has_value: NDArray[np.bool_]) -> Mapping[str, Vector]:
    """Return a state's column, null where it has no value."""
    ((part, numbers),) = columns.items()
    assert isinstance(numbers, Numbers), "sums and bits are numbers"
    values = np.where(has_value, numbers.wide(), 0)
    validity = None if has_value.all() else has_value
    return {part: replace(numbers, values=values, base=0, validity=validity, bounds=None)}
