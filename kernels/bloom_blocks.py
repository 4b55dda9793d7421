"""Split-block Bloom filters: each key sets eight bits of one block of 256. SPEC.md section 15.

With x = fmix64(value hash), the block is the upper half of x scaled to their number, and the bit of
lane i is the upper five bits of the lower half of x times an odd constant, modulo 2^32.
After: Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters", 2007; the
constants are those of Apache Parquet's BloomFilter.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel

LANES: Final = 8
"""Words of 32 bits in a block."""
BLOCK_BYTES: Final = 4 * LANES

_SALTS: Final = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint32,
)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def bloom_blocks(hashes: NDArray[np.uint64], block_count: int) -> NDArray[np.uint32]:
    """Return the filter uint32[block_count, 8] of value hashes; `block_count` is in [1, 2^32)."""
    if not 1 <= block_count < 2**32:
        raise InvalidInputError("PROJSEG_INTERNAL", f"a Bloom filter of {block_count} blocks")
    blocks = np.zeros((block_count, LANES), np.uint32)
    _set_bits(np.ascontiguousarray(hashes, np.uint64), _SALTS, blocks)
    return blocks


def key_blocks(hashes: NDArray[np.uint64], block_count: int) -> NDArray[np.int64]:
    """Return the block of each key in a filter of `block_count` blocks: int64[k]."""
    upper = _mixed(hashes) >> np.uint64(32)
    return ((upper * np.uint64(block_count)) >> np.uint64(32)).astype(np.int64)


def key_masks(hashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the bits that each key sets in its block: uint32[k, 8]."""
    # Arrays of 32 bits multiply modulo 2^32; a scalar among them would make 64 bits of it.
    lower = _mixed(hashes).astype(np.uint32)
    bits = (lower[:, None] * _SALTS[None, :]) >> np.uint32(27)
    masks: NDArray[np.uint32] = np.left_shift(np.uint32(1), bits, dtype=np.uint32)
    return masks


def may_hold(blocks: NDArray[np.uint32], mask: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which of some blocks, uint32[n, 8], have all bits of a mask, uint32[8]: bool[n]."""
    found: NDArray[np.bool_] = ((blocks & mask) == mask).all(axis=1)
    return found


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return MurmurHash3's finaliser of each hash: a value hash has few distinct upper bits."""
    mixed: NDArray[np.uint64] = hashes ^ (hashes >> np.uint64(33))
    mixed = mixed * _F1
    mixed = mixed ^ (mixed >> np.uint64(33))
    mixed = mixed * _F2
    mixed ^= mixed >> np.uint64(33)
    return mixed


@kernel
def _set_bits(
    hashes: NDArray[np.uint64], salts: NDArray[np.uint32], blocks: NDArray[np.uint32]
) -> None:
    """Set the bits of each key.

    Shapes: hashes [k]; salts [8]; blocks [b, 8].
    Oracle: tests/oracle/bloom.py::bloom_filter.
    """
    block_count = np.uint64(len(blocks))
    for hash_ in hashes:
        mixed = hash_ ^ (hash_ >> np.uint64(33))
        mixed *= _F1
        mixed ^= mixed >> np.uint64(33)
        mixed *= _F2
        mixed ^= mixed >> np.uint64(33)
        block = ((mixed >> np.uint64(32)) * block_count) >> np.uint64(32)
        lower = mixed & np.uint64(0xFFFFFFFF)
        for lane in range(8):
            # The product has 64 bits here: it has to be cut before it is shifted.
            product = (lower * np.uint64(salts[lane])) & np.uint64(0xFFFFFFFF)
            blocks[np.int64(block), lane] |= np.uint32(np.uint64(1) << (product >> np.uint64(27)))
