"""Slow, obvious twins of the kernels of quantiles: over lists of Python numbers.

A distribution is a list of (key, weight), ascending by key.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

ITEMS = {"bigint": "<q", "float": "<f", "double": "<d"}


def by_group(groups: Sequence[int], keys: Sequence[int], group_count: int) -> list[list[int]]:
    """Return each group's keys in row order."""
    lists: list[list[int]] = [[] for _ in range(group_count)]
    for group, key in zip(groups, keys, strict=True):
        lists[group].append(key)
    return lists


def level_of(total: int, most: int) -> int:
    """Return the least level of whose blocks `most` are enough."""
    level = 0
    while total >> level > most:
        level += 1
    return level


def thinned(distribution: Sequence[tuple[Any, int]], most: int) -> list[tuple[Any, int]]:
    """Return (key, level) of each block: small blocks first, then those of the greatest level."""
    ranks = [key for key, weight in distribution for _ in range(weight)]
    top = level_of(len(ranks), most)
    levels = [level for level in range(top) if len(ranks) >> level & 1]
    levels += [top] * (len(ranks) >> top)
    blocks, start = [], 0
    for level in levels:
        blocks.append((ranks[start + (1 << level) // 2], level))
        start += 1 << level
    return blocks


def sketch(distribution: Sequence[tuple[Any, int]], k: int, item: str) -> bytes:
    """Return the KLL sketch of a distribution; `item` is one of ITEMS."""
    blocks, layout = thinned(distribution, k), ITEMS[item]
    if not blocks:
        return struct.pack("<BBBBHBB", 2, 1, 15, 1, k, 8, 0)
    values = b"".join(struct.pack(layout, key) for key, _ in blocks)
    if len(blocks) == 1 and blocks[0][1] == 0:
        return struct.pack("<BBBBHBB", 2, 2, 15, 4, k, 8, 0) + values
    total = sum(weight for _, weight in distribution)
    top = blocks[-1][1] + 1
    capacity = sum(max(8, round(k * (2 / 3) ** depth)) for depth in range(top))
    free = capacity - len(blocks)
    starts = [free + sum(level < one for _, level in blocks) for one in range(top)]
    header = struct.pack("<BBBBHBBQHBB", 5, 1, 15, 2, k, 8, 0, total, k, top, 0)
    header += struct.pack(f"<{top}I", *starts)
    least, greatest = distribution[0][0], distribution[-1][0]
    return header + struct.pack(f"<2{layout[1]}", least, greatest) + values


def read(content: bytes, item: str) -> list[tuple[Any, int]]:
    """Return (value, weight) of a sound sketch, with its least and greatest at weight 0."""
    layout = ITEMS[item]
    if content[0] == 2:
        return [(value, 1) for (value,) in struct.iter_unpack(layout, content[8:])]
    top = content[18]
    starts = struct.unpack_from(f"<{top}I", content, 20)
    values = [value for (value,) in struct.iter_unpack(layout, content[20 + 4 * top :])]
    least, greatest, *held = values
    weights = [
        1 << max(level for level in range(top) if starts[level] - starts[0] <= place)
        for place in range(len(held))
    ]
    return [(least, 0), *zip(held, weights, strict=True), (greatest, 0)]


def percentile(values: Sequence[Any], share: float) -> Any:
    """Return the least value of which at least a share of all are at most as great."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
