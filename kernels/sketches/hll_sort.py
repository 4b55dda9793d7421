"""Sort the coupons of one sketch, using the known distribution of hashes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.groups.shell_sort import shell_sort
from projseg.kernels.runtime.kernel import kernel

BINS: Final = 128
BINNED_MAX: Final = 512  # so that insertion stays cheap even where coupons were made to collide

_BINNED_MIN: Final = 24  # below that insertion alone is faster


@kernel
def sort_coupons(
    coupons: NDArray[np.uint32], unsorted: NDArray[np.uint32], ends: NDArray[np.int64]
) -> None:
    """Sort uint32[n] in place.

    Half of all hashes have rank 1, a quarter rank 2, and so on, and addresses are uniform: the
    share of smaller coupons is known. A counting sort by that share leaves little to insertion,
    which alone decides the order. Scratch: `unsorted`, uint32[BINNED_MAX], `ends`, int64[BINS + 1].

    Shapes: coupons [n]; unsorted [BINNED_MAX]; ends [BINS + 1].
    Oracle: sorted.
    """
    count = len(coupons)
    if count > BINNED_MAX:
        shell_sort(coupons)
        return
    if count >= _BINNED_MIN:
        ends[:] = 0
        for i in range(count):
            unsorted[i] = coupons[i]
            ends[_bin(coupons[i]) + 1] += 1
        for i in range(1, len(ends)):
            ends[i] += ends[i - 1]
        for i in range(count):
            place = _bin(unsorted[i])
            coupons[ends[place]] = unsorted[i]
            ends[place] += 1
    for i in range(1, count):
        coupon = coupons[i]
        j = i
        while j > 0 and coupons[j - 1] > coupon:
            coupons[j] = coupons[j - 1]
            j -= 1
        coupons[j] = coupon


@kernel
def _bin(coupon: np.uint32) -> Any:
    """Return the share of smaller coupons in units of 1 / BINS.

    Oracle: sorted.
    """
    rank = np.uint64(coupon >> np.uint32(26))
    address = np.uint64(coupon & np.uint32(0x3FFFFFF))
    share = np.uint64(1 << 32) - (np.uint64(1 << 33) >> rank) + ((address << np.uint64(6)) >> rank)
    return np.int64((share * np.uint64(BINS) >> np.uint64(32)) & np.uint64(BINS - 1))
