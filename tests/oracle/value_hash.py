"""The value hash by its definition: MurmurHash3_x64_128 in Python integers, then the fold."""

MASK = 2**64 - 1
SEED = 9001
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def _rotated(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK


def _mixed(value):
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return value ^ value >> 33


def murmur3(content):
    """(h1, h2) of MurmurHash3_x64_128."""
    h1 = h2 = SEED
    whole = len(content) // 16 * 16
    for start in range(0, whole, 16):
        k1 = int.from_bytes(content[start : start + 8], "little")
        k2 = int.from_bytes(content[start + 8 : start + 16], "little")
        h1 ^= _rotated(k1 * C1 & MASK, 31) * C2 & MASK
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & MASK
        h2 ^= _rotated(k2 * C2 & MASK, 33) * C1 & MASK
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & MASK
    k1 = int.from_bytes(content[whole : whole + 8], "little")
    k2 = int.from_bytes(content[whole + 8 :], "little")
    h2 ^= _rotated(k2 * C2 & MASK, 33) * C1 & MASK
    h1 ^= _rotated(k1 * C1 & MASK, 31) * C2 & MASK
    h1, h2 = h1 ^ len(content), h2 ^ len(content)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    h1, h2 = _mixed(h1), _mixed(h2)
    h1 = (h1 + h2) & MASK
    return h1, (h2 + h1) & MASK


def value_hash(content):
    """Coupon in the upper half, 32 more bits of h1 in the lower."""
    h1, h2 = murmur3(content)
    leading_zeros = 64 - h2.bit_length()
    coupon = (min(leading_zeros, 62) + 1) << 26 | h1 & (2**26 - 1)
    return coupon << 32 | h1 >> 26 & (2**32 - 1)
