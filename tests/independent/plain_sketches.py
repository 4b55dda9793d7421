"""Make value hashes and sketches from a set of values, as SPEC.md 7 and 7.2 describe them."""

import struct

SEED, MASK = 9001, 2**64 - 1


def rotate(word, bits):
    return (word << bits | word >> (64 - bits)) & MASK


def final_mix(word):
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return word ^ word >> 33


def murmur(content):
    """(h1, h2) of MurmurHash3_x64_128 with the seed of DataSketches."""
    c1, c2, h1, h2 = 0x87C37B91114253D5, 0x4CF5AD432745937F, SEED, SEED
    whole = len(content) // 16 * 16
    for k1, k2 in struct.iter_unpack("<QQ", content[:whole]):
        h1 ^= rotate(k1 * c1 & MASK, 31) * c2 & MASK
        h1 = ((rotate(h1, 27) + h2) * 5 + 0x52DCE729) & MASK
        h2 ^= rotate(k2 * c2 & MASK, 33) * c1 & MASK
        h2 = ((rotate(h2, 31) + h1) * 5 + 0x38495AB5) & MASK
    k1, k2 = struct.unpack("<QQ", content[whole:].ljust(16, b"\0"))
    h2 ^= rotate(k2 * c2 & MASK, 33) * c1 & MASK
    h1 ^= rotate(k1 * c1 & MASK, 31) * c2 & MASK
    h1, h2 = h1 ^ len(content), h2 ^ len(content)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    h1, h2 = final_mix(h1), final_mix(h2)
    h1 = (h1 + h2) & MASK
    return h1, (h2 + h1) & MASK


def hashed_bytes(value, type_name):
    """The bytes of a value that are hashed (7)."""
    if type_name == "string":
        return value.encode()
    if type_name == "binary":
        return value
    if type_name in ("float", "double"):
        return struct.pack("<d", value + 0.0) if value == value else struct.pack("<Q", 0x7FF8 << 48)
    return value.to_bytes(8 if -(2**63) <= value < 2**63 else 16, "little", signed=True)


def coupon_of(h1, h2):
    return (min(64 - h2.bit_length(), 62) + 1) << 26 | h1 % 2**26


def value_hash(value, type_name):
    if value is None:
        return 0
    h1, h2 = murmur(hashed_bytes(value, type_name))
    return coupon_of(h1, h2) << 32 | h1 >> 26 & 0xFFFFFFFF


def hashes(values, type_name):
    """(h1, h2) of each value that is neither null nor empty; sketches count no others."""
    return [murmur(hashed_bytes(v, type_name)) for v in values if v not in (None, "", b"")]


def hll_sketch(values, type_name, lg_k):
    """The bytes of the compact HLL_8 sketch of a set of values (7.2)."""
    coupons = sorted({coupon_of(h1, h2) for h1, h2 in hashes(values, type_name)})
    count = len(coupons)
    stored = struct.pack(f"<{count}I", *coupons)
    if count <= 7:
        return bytes([2, 1, 7, lg_k, 3, 8 if coupons else 12, count, 8]) + stored
    if lg_k >= 8 and count <= 3 * 2 ** (lg_k - 5):
        return bytes([3, 1, 7, lg_k, 5, 8, 0, 9]) + struct.pack("<I", count) + stored
    registers = bytearray(2**lg_k)
    for coupon in coupons:
        at = coupon % 2**26 % 2**lg_k
        registers[at] = max(registers[at], coupon >> 26)
    low, high = (sum(2.0**-r for r in registers if (r < 32) == is_low) for is_low in (True, False))
    rest = struct.pack("<dddII", 0.0, low, high, registers.count(0), 0)
    return bytes([10, 1, 7, lg_k, 0, 24, 0, 10]) + rest + bytes(registers)


def theta_sketch(values, type_name, lg_k):
    """The bytes of the ordered compact theta sketch of a set of values (7.2)."""
    entries = sorted({h1 >> 1 for h1, _ in hashes(values, type_name)} - {0})
    exact = len(entries) <= 2**lg_k
    theta = 2**63 - 1 if exact else entries[2**lg_k]
    entries = entries[: 2**lg_k]
    if not entries:
        return bytes([1, 3, 3, 0, 0, 0x1E, 0, 0])
    if exact and len(entries) == 1:
        return bytes([1, 3, 3, 0, 0, 0x3A, 0xCC, 0x93]) + struct.pack("<Q", entries[0])
    steps = [entry - before for entry, before in zip(entries, [0, *entries], strict=False)]
    width = max(steps).bit_length()
    bits = "".join(f"{step:0{width}b}" for step in steps)
    bits += "0" * (-len(bits) % 8)
    count_bytes = -(-len(entries).bit_length() // 8)
    return (
        bytes([1 if exact else 2, 4, 3, width, count_bytes, 0x1A, 0xCC, 0x93])
        + (b"" if exact else struct.pack("<Q", theta))
        + len(entries).to_bytes(count_bytes, "little")
        + int(bits, 2).to_bytes(len(bits) // 8, "big")
    )
