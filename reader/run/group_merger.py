"""The groups of a query's tasks until all are there, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from projseg.aggregation.merge import merge_partials
from projseg.aggregation.partial import Partial, StoredPartial
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import LimitExceededError
from projseg.memory.memory_pool import array_bytes, parse_byte_count
from projseg.segment_format.vectors.vectors import held_bytes

LIMIT_SETTING: Final = "PROJSEG_GROUP_BYTES"
_MEMORY_SHARE: Final = 0.25  # of the machine's, or of what its control group may take
_CONTROL_GROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
# Groups of tasks are merged early once they take so much. That is not looked at while so few are
# held, of states that take a few bytes each.
_MERGED_BYTES: Final = 256 << 20
_GROUPS_COUNTED_MIN: Final = 1 << 17


def merged_groups(found: Iterable[Partial], primitives: Sequence[Primitive]) -> Partial | None:
    """Return the groups of all tasks, merged as they come if they take much; None of no task.

    Parameters
    ----------
    found : iterable of Partial
        Of each task, with the same grouping columns and primitives.
    primitives : sequence of Primitive
        The primitives of their states, in order.

    Raises
    ------
    LimitExceededError
        PROJSEG_QUERY_TOO_LARGE, if the groups take more than PROJSEG_GROUP_BYTES.
    """
    limit = group_bytes_max()
    is_counted = not all(primitive.kind.is_quick for primitive in primitives)
    held: list[Partial] = []
    group_count = byte_count = counted = 0
    merge_at = min(_MERGED_BYTES, limit)
    for partial in found:
        held.append(partial)
        group_count += partial.group_count
        if is_counted or group_count >= _GROUPS_COUNTED_MIN:
            byte_count += sum(map(_bytes_of, held[counted:]))
            counted = len(held)
        if byte_count > merge_at:
            held = [merge_partials(held, primitives)]
            byte_count, counted = _bytes_of(held[0]), 1
            if byte_count > limit:
                raise _too_large(held[0].group_count, byte_count, limit)
            merge_at = min(max(_MERGED_BYTES, 2 * byte_count), limit)
    return merge_partials(held, primitives) if held else None


def group_bytes_max() -> int:
    """Return the most bytes that the groups of one query may take.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION, if the setting is no size.
    """
    given = os.environ.get(LIMIT_SETTING)
    return _share_of_memory() if given is None else parse_byte_count(given, LIMIT_SETTING)


@cache
def _share_of_memory() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CONTROL_GROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    return int(_MEMORY_SHARE * (min(memory, int(limit)) if limit.isdigit() else memory))


def _bytes_of(partial: Partial) -> int:
    states = partial.columns if isinstance(partial, StoredPartial) else partial.states
    return sum(map(held_bytes, partial.keys)) + array_bytes(states)


def _too_large(group_count: int, byte_count: int, limit: int) -> LimitExceededError:
    return LimitExceededError(
        "PROJSEG_QUERY_TOO_LARGE",
        f"{group_count} groups take {byte_count >> 20} MiB, and there may be more;"
        f" {LIMIT_SETTING} allows {limit >> 20} MiB. Filter rows, group by fewer or coarser"
        f" columns, or set {LIMIT_SETTING} higher, such as {max(2 * byte_count >> 20, 1)}M",
    )
