"""Damaged Parquet files: flipped bits, cut ends, and footers that state something else."""

import random

import numpy as np
import pyarrow.parquet as pq
from foreign_source import rows

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
