"""A split-block Bloom filter by its definition, in Python integers. SPEC.md section 15."""

MASK32, MASK64 = 2**32 - 1, 2**64 - 1
SALTS = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)


def mixed(value):
    """MurmurHash3's finaliser of 64 bits."""
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK64
    return value ^ value >> 33


def place(value_hash, block_count):
    """(block, the eight words of the bits that a key sets)."""
    x = mixed(value_hash)
    words = [1 << ((x & MASK32) * salt & MASK32) // 2**27 for salt in SALTS]
    return (x >> 32) * block_count >> 32, words


def bloom_filter(hashes, block_count):
    """The words of each block."""
    blocks = [[0] * 8 for _ in range(block_count)]
    for value_hash in hashes:
        block, words = place(value_hash, block_count)
        blocks[block] = [one | other for one, other in zip(blocks[block], words, strict=True)]
    return blocks
