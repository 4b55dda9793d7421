"""Damaged Parquet files: flipped bits, cut ends, and footers that state something else."""

import random

import numpy as np
import pyarrow.parquet as pq
from foreign_source import rows
from oracle import parquet_footer as thrift

LAYOUTS = [
    {"compression": "none"},
    {"compression": "snappy"},
    {"compression": "none", "use_dictionary": False},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "none", "data_page_version": "2.0", "use_dictionary": False},
    {"compression": "none", "write_page_checksum": True},
]


def write_layout(path, layout, count=120):
    """Write the file that mutants of a layout are of."""
    pq.write_table(rows(np.random.default_rng(1), count), path, row_group_size=50, **layout)


def mutant(content, seed):
    """Return damaged bytes of a Parquet file, and what was done to them."""
    drawn = random.Random(seed)
    content = bytearray(content)
    footer = int.from_bytes(content[-8:-4], "little") + 8
    kind = drawn.choice(["pages", "pages", "headers", "footer", "footer", "statistics", "cut"])
    if kind == "cut":
        del content[drawn.randrange(4, len(content)) :]
    elif kind == "statistics":
        edit_statistics(content, footer, drawn)
    else:
        start, end = {
            "pages": (4, len(content) - footer),
            "headers": (4, min(200, len(content) - footer)),
            "footer": (len(content) - footer, len(content) - 8),
        }[kind]
        for _ in range(drawn.randint(1, 3)):
            content[drawn.randrange(start, end)] ^= 1 << drawn.randrange(8)
    return bytes(content), kind


def edit_statistics(content, footer, drawn):
    """Change bytes of a number that the footer states as a bound of `added` or of `time`."""
    start = len(content) - footer
    places = [
        place
        for place in range(start, len(content) - 16)
        if content[place] in (0x18, 0x88) and content[place + 1] in (4, 8)
    ]
    place = drawn.choice(places or [start])
    content[place + 2 + drawn.randrange(3)] ^= 1 << drawn.randrange(8)


def footer_of(content):
    """The struct that a Parquet file ends with, without the eight bytes behind it."""
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def footer_mutant(content, seed):
    """Return a Parquet file whose footer is whole and states some of its parts otherwise."""
    drawn = random.Random(seed)
    old = footer_of(content)
    tree = thrift.decode(old)
    for _ in range(drawn.choice([1, 1, 1, 2, 3])):
        drawn.choice(EDITS)(drawn, tree)
    new = thrift.encode(tree)
    return content[: -8 - len(old)] + new + len(new).to_bytes(4, "little") + content[-4:]


def _state(struct, field, kind, value, drawn=None):
    """State a field, or, one time of eight, state it again behind all others."""
    if drawn is None or drawn.randrange(8):
        struct[:] = [one for one in struct if one[0] != field]
    struct.append([field, kind, value])
    if drawn is None or drawn.randrange(8):
        struct.sort(key=lambda one: one[0])


def _drop(struct, field):
    struct[:] = [one for one in struct if one[0] != field]


def _group(drawn, tree):
    groups = thrift.values(tree, 4)[0][1]
    return drawn.choice(groups)


def _chunk(drawn, tree):
    parts = [part for _, found in thrift.values(_group(drawn, tree), 1) for part in found]
    return drawn.choice(parts) if parts else []


def _part(drawn, tree):
    return next(iter(thrift.values(_chunk(drawn, tree), 3)), [])


def _inner(drawn, tree, field):
    """A struct of a part, which is made if there is none."""
    part = _part(drawn, tree)
    if not thrift.values(part, field):
        _state(part, field, thrift.STRUCT, [])
    return thrift.values(part, field)[0]


def _edit_histogram(drawn, tree):
    counts = [drawn.randrange(100) for _ in range(drawn.choice([0, 1, 2, 3, 20]))]
    counts = [thrift.INT64, counts]
    _state(_inner(drawn, tree, 16), drawn.choice([2, 3]), thrift.LIST, counts, drawn)


def _edit_text_bytes(drawn, tree):
    _state(_inner(drawn, tree, 16), 1, thrift.INT64, drawn.randrange(-9, 99), drawn)


def _edit_bound(drawn, tree):
    bound = drawn.randbytes(drawn.choice([0, 1, 3, 4, 4, 5, 8, 8, 12]))
    _state(_inner(drawn, tree, 12), drawn.choice([1, 2, 5, 6]), thrift.BINARY, bound, drawn)


def _edit_type(drawn, tree):
    kind = drawn.choice([*range(-1, 10), 2**31 - 1, 2**32 + 1])
    _state(_part(drawn, tree), 1, thrift.INT32, kind, drawn)


def _edit_crypto(drawn, tree):
    key = drawn.choice([[1, thrift.STRUCT, []], [2, thrift.STRUCT, [[1, 9, [8, [b"added"]]]]]])
    _state(_chunk(drawn, tree), 8, thrift.STRUCT, [key])


def _edit_encrypted(drawn, tree):
    _state(_chunk(drawn, tree), 9, thrift.BINARY, drawn.randbytes(9))


def _edit_algorithm(drawn, tree):
    _state(tree, 8, thrift.STRUCT, [[drawn.randrange(1, 4), thrift.STRUCT, []]])


def _edit_places(drawn, tree):
    kinds = [thrift.INT32, [drawn.randrange(-1, 3000)]]
    _state(_part(drawn, tree), 17, thrift.STRUCT, [[2, thrift.LIST, kinds]])


def _edit_encodings(drawn, tree):
    kinds = [thrift.INT32, [drawn.randrange(-1, 12) for _ in range(drawn.randrange(4))]]
    _state(_part(drawn, tree), 2, thrift.LIST, kinds)


def _edit_item_type(drawn, tree):
    part = _part(drawn, tree)
    if part:
        drawn.choice([one for one in part if one[1] == thrift.LIST] or [[0, 0, []]])[2].append(
            drawn.randrange(13)
        )


def _edit_number(drawn, tree):
    number = drawn.choice([-1, 0, 1, 50, 2**31, 2**62, -(2**63)])
    _state(_part(drawn, tree), drawn.choice([5, 6, 7, 9, 10, 11, 14]), thrift.INT64, number)


def _drop_one(drawn, tree):
    one = drawn.choice([_group, _chunk, _part])(drawn, tree)
    if one:
        _drop(one, drawn.choice(one)[0])


def _drop_column(drawn, tree):
    parts = thrift.values(_group(drawn, tree), 1)
    if parts and parts[0][1]:
        parts[0][1].pop(drawn.randrange(len(parts[0][1])))


def _swap_columns(drawn, tree):
    for parts in thrift.values(_group(drawn, tree), 1)[:1]:
        drawn.shuffle(parts[1])


def _deepen(drawn, tree):
    struct = []
    for _ in range(drawn.choice([3, 20, 40])):
        struct = [[drawn.randrange(1, 40), thrift.STRUCT, struct]]
    _state(_part(drawn, tree), drawn.choice([18, 99, 2**15 - 1]), thrift.STRUCT, struct)


EDITS = [
    *[_edit_histogram, _edit_histogram, _edit_bound, _edit_bound, _edit_text_bytes, _edit_type],
    *[_edit_crypto, _edit_encrypted, _edit_algorithm, _edit_places, _edit_encodings],
    *[_edit_item_type, _edit_number, _drop_one, _drop_column, _swap_columns, _deepen],
]
