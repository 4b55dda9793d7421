"""Where a key of 64 bits belongs in a hash table."""

from __future__ import annotations

from typing import Any

import numpy as np

from projseg.kernels.runtime.kernel import kernel


@kernel(interpretable=True)
def slot_of(key: np.uint64, shift: np.uint64) -> Any:
    """Fibonacci hashing: the high bits of key * 2**64 / golden ratio (Knuth, TAOCP 3, 6.4).

    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    mixed = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return mixed >> shift


@kernel(interpretable=True)
def shift_for(slot_count: int) -> Any:
    """Return the shift that leaves as many bits as number the slots.

    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    bits = 0
    while (1 << bits) < slot_count:
        bits += 1
    return np.uint64(64 - bits)
