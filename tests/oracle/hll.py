"""Slow, obvious twins of the HyperLogLog kernels, over Python sets of coupons."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction

LG_K = 12


def pairs(groups: Sequence[int], coupons: Sequence[int]) -> list[int]:
    """Return the distinct `group << 32 | coupon`, ascending; coupon 0 is no value."""
    rows = zip(groups, coupons, strict=True)
    return sorted({group << 32 | coupon for group, coupon in rows if coupon})


def count_max(lg_k: int) -> int:
    """Return how many coupons stay coupons: DataSketches' list, then a hash set filled to 3/4."""
    return 7 if lg_k < 8 else 2 ** (lg_k - 3) * 3 // 4


def registers(coupons: Iterable[int], lg_k: int) -> list[int]:
    """Return the largest rank at each address."""
    ranks = [0] * 2**lg_k
    for coupon in coupons:
        address = (coupon & (2**26 - 1)) % 2**lg_k
        ranks[address] = max(ranks[address], coupon >> 26)
    return ranks


def sketch(coupons: set[int], lg_k: int) -> bytes:
    """Return the compact HLL_8 sketch of a set of coupons."""
    ordered = sorted(coupons)
    words = struct.pack(f"<{len(ordered)}I", *ordered)
    if len(ordered) <= 7:
        flags = 8 if ordered else 12
        return bytes([2, 1, 7, lg_k, 3, flags, len(ordered), 8]) + words
    if len(ordered) <= count_max(lg_k):
        return bytes([3, 1, 7, lg_k, 5, 8, 0, 9]) + struct.pack("<I", len(ordered)) + words
    ranks = registers(ordered, lg_k)
    low = float(sum(Fraction(1, 2**rank) for rank in ranks if rank < 32))
    high = float(sum(Fraction(1, 2**rank) for rank in ranks if rank >= 32))
    header = bytes([10, 1, 7, lg_k, 0, 24, 0, 10])
    return header + struct.pack("<dddII", 0.0, low, high, ranks.count(0), 0) + bytes(ranks)


def estimate(coupons: set[int], knots: Sequence[float]) -> float:
    """Return the estimate for lgK 12; knots are as in `kernels.sketches.hll_registers`."""
    n, k = len(coupons), 2**LG_K
    if n <= count_max(LG_K):
        return n + n * (n - 1) / (3 * 2**27)
    ranks = registers(coupons, LG_K)
    raw = 0.7213 / (1 + 1.079 / k) * k * k / sum(2.0**-rank for rank in ranks)
    adjusted = _interpolated(raw, knots)
    zeros = ranks.count(0)
    if adjusted > 3 * k:
        return adjusted
    linear = k * math.fsum(1 / i for i in range(zeros + 1, k + 1)) if zeros else k * math.log(2 * k)
    return adjusted if (adjusted + linear) / 2 > 0.64 * k else linear


def _interpolated(raw: float, knots: Sequence[float]) -> float:
    if raw >= knots[-1]:
        return raw * 160 * (len(knots) - 1) / knots[-1]
    below = max(i for i, knot in enumerate(knots) if knot <= raw)
    start = min(max(below - 1, 0), len(knots) - 4)
    total = 0.0
    for i in range(start, start + 4):
        others = [knots[j] for j in range(start, start + 4) if j != i]
        weight = math.prod((raw - x) / (knots[i] - x) for x in others)
        total += weight * 160 * i
    return total
