"""Decode the values of one page: a slow and obvious decoder written from SPEC.md 5.3 to 6.13 alone.

Integers, dates, timestamps, booleans and unscaled decimals are Python integers, null is None; an
array is a list, a struct a tuple of its fields, a map a list of (key, value).
"""

import struct
from itertools import pairwise

UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
TEXT = ("string", "binary")
FLOATS = {"float": ("f", "I"), "double": ("d", "Q")}


def parse_type(text):
    """Return (kind, [(name, type), ...]) of a Spark type, such as `array<struct<a:int>>`."""
    kind, _, inside = text.partition("<")
    if not inside:
        return kind, []
    depth, quoted, start, colon, children = 0, False, 0, None, []
    for at, character in enumerate(inside):
        quoted ^= character == "`"
        if quoted:
            continue
        if depth == 0 and character == ":":
            colon = at
        if depth == 0 and character in ",>":
            name = inside[start : start if colon is None else colon]
            children.append((name, parse_type(inside[start if colon is None else colon + 1 : at])))
            start, colon = at + 1, None
        depth += (character in "<(") - (character in ">)")
    return kind, children


def signed(value):
    """The int64 that is equal to `value` modulo 2^64."""
    return (value + 2**63) % 2**64 - 2**63


class Page:
    """Bytes read from front to back; zeros pad every array to a multiple of 8 bytes (3)."""

    def __init__(self, content):
        self.content, self.at = content, 0

    def take(self, size):
        piece = self.content[self.at : self.at + size]
        assert len(piece) == size, "the page ends too early"
        end = self.at + size
        self.at = end + -end % 8
        padding = self.content[end : self.at]
        assert padding == bytes(self.at - end), "padding is not zero, or missing"
        return piece

    def header(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def array(self, letter, count):
        return list(self.header(f"{count}{letter}"))


# Integers: encodings 1 to 7


def packed(page, width, count):
    """The words of 6.3, as unsigned integers."""
    word_bits = 64 if width > 32 else 32
    columns = -(-count // word_bits)
    words = page.array(UNSIGNED[word_bits // 8], width * columns)
    streams = [
        sum(words[k * columns + c] << (word_bits * k) for k in range(width)) for c in range(columns)
    ]
    matrix = [
        (stream >> (width * row)) % 2**width for row in range(word_bits) for stream in streams
    ]
    assert not any(matrix[count:]), "missing values are not zero"
    return matrix[:count]


def constant(page, count):
    return page.array("q", 1) * count


def frame_of_reference(page, count):
    reference, value_bytes, reserved = page.header("qII")
    assert reserved == 0
    return [signed(reference + v) for v in page.array(UNSIGNED[value_bytes], count)]


def bit_packed(page, count):
    reference, width, reserved = page.header("qII")
    assert reserved == 0
    return [signed(reference + v) for v in packed(page, width, count)]


def patched(page, count):
    reference, exceptions, width, value_bytes, reserved = page.header("qIHBB")
    assert reserved == 0
    values = packed(page, width, count)
    rows = page.array("H", exceptions)
    assert rows == sorted(set(rows))
    for row, value in zip(rows, page.array(UNSIGNED[value_bytes], exceptions), strict=True):
        assert values[row] == 0
        values[row] = value
    return [signed(reference + v) for v in values]


def delta(page, count):
    value, reference, width, reserved = page.header("qqII")
    assert reserved == 0
    steps = packed(page, width, count) if width else [0] * count
    assert steps[0] == 0
    values = [value]
    for step in steps[1:]:
        values.append(signed(values[-1] + reference + step))
    return values


def scaled(page, count):
    reference, factor, encoding, reserved = page.header("qQII")
    assert reserved == 0
    assert 1 <= encoding <= 5
    return [signed(reference + factor * v) for v in integers(page, encoding, count)]


def run_length(page, count):
    runs, lengths_encoding, values_encoding = page.header("IHH")
    assert max(lengths_encoding, values_encoding) <= 6
    lengths = integers(page, lengths_encoding, runs)
    values = integers(page, values_encoding, runs)
    assert min(lengths) >= 1
    assert sum(lengths) == count
    return [v for v, length in zip(values, lengths, strict=True) for _ in range(length)]


INTEGERS = dict(
    enumerate(
        [constant, frame_of_reference, bit_packed, patched, delta, scaled, run_length], start=1
    )
)


def integers(page, encoding, count):
    return INTEGERS[encoding](page, count)


# Everything else: encodings 8 to 12


def numbers(page, kind, encoding, count):
    if kind in FLOATS:
        return floats(page, kind, encoding, count)
    if encoding == 8:
        content = page.take(16 * count)
        return [
            int.from_bytes(content[at : at + 16], "little", signed=True)
            for at in range(0, len(content), 16)
        ]
    return integers(page, encoding, count)


def floats(page, kind, encoding, count):
    value_letter, bits_letter = FLOATS[kind]
    if encoding == 8:
        return page.array(value_letter, count)
    if encoding == 9:
        assert kind == "double"
        scale, inner = page.header("II")
        return [value / 10.0**scale for value in integers(page, inner, count)]
    width = struct.calcsize(bits_letter)
    bits = [v % 2 ** (8 * width) for v in integers(page, encoding, count)]
    return list(
        struct.unpack(f"<{count}{value_letter}", struct.pack(f"<{count}{bits_letter}", *bits))
    )


def texts(page, kind, encoding, count):
    """Encodings 10 and 11."""
    first_encoding, second = page.header("II")
    first = integers(page, first_encoding, count)
    if encoding == 10:
        assert second == 0
        prefixes, lengths = [0] * count, first
    else:
        prefixes, lengths = first, integers(page, second, count)
        assert prefixes[0] == 0
        assert max(prefixes) <= 255
    content, at, values = page.take(sum(lengths)), 0, [b""]
    for prefix, length in zip(prefixes, lengths, strict=True):
        values.append(values[-1][:prefix] + content[at : at + length])
        at += length
    return [v.decode() for v in values[1:]] if kind == "string" else values[1:]


def nested(page, kind, children, count):
    """Encoding 12: a level for each field of a struct, else lengths and a level of items (6.12)."""
    if kind == "struct":
        return list(zip(*(level(page, child, count) for _, child in children), strict=True))
    lengths_encoding, item_count = page.header("II")
    lengths = integers(page, lengths_encoding, count)
    assert sum(lengths) == item_count
    items = level(page, ("struct", children) if kind == "map" else children[0][1], item_count)
    ends = [sum(lengths[:row]) for row in range(count + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def level(page, parsed_type, count):
    """One level of a nested page (6.13)."""
    encoding, validity_form, reserved, null_count = page.header("BBHI")
    assert reserved == 0
    if parsed_type[0] in TEXT:
        assert encoding == 0
        encoding = 10
    rows = rows_of(page, parsed_type, encoding, validity_form, count)
    assert rows.count(None) == null_count
    return rows


def validity(page, form, count):
    """Whether each row holds a value (5.3)."""
    if form in (0, 1):
        return [form == 0] * count
    if form == 2:
        bits = int.from_bytes(page.take(-(-count // 8)), "little")
        assert bits >> count == 0
        return [bool(bits >> row & 1) for row in range(count)]
    assert form == 3
    (runs,) = page.header("Q")
    valid, start = [], 0
    for number, end in enumerate(page.array("I", runs)):
        valid += [number % 2 == 0] * (end - start)
        start = end
    assert len(valid) == count
    return valid


def rows_of(page, parsed_type, encoding, validity_form, count):
    """Validity and values of a page or a level; null is None."""
    kind, children = parsed_type
    valid = validity(page, validity_form, count)
    if not children and kind not in (*TEXT, "void"):
        stored = numbers(page, kind, encoding, count) if count else []
    elif not any(valid):
        stored = [None] * count
    elif kind in TEXT:
        stored = texts(page, kind, encoding, count)
    else:
        assert encoding == 12
        stored = nested(page, kind, children, count)
    return [value if held else None for value, held in zip(stored, valid, strict=True)]


def page_rows(content, type_name, encoding, validity_form, count):
    """The rows of one page of a dictionary's or a column's values."""
    page = Page(content)
    rows = rows_of(page, parse_type(type_name), encoding, validity_form, count)
    assert page.at == len(content), "the page holds more than its values"
    return rows
