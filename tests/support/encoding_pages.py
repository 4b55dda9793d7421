"""For each encoding a column for which it is chosen, and the page of that column."""

import numpy as np
import pyarrow as pa
from forged_segments import forge

from projseg.segment_format.column_writer import vector_pages
from projseg.segment_format.encodings.encoding_table import TEXT_ENCODINGS
from projseg.segment_format.logical_types import type_name
from projseg.segment_format.vectors import Numbers, Opaque

ROWS = 300
_AT = np.arange(ROWS)
_NOISE = _AT * 7919
_INTEGERS = {
    1: np.full(ROWS, 9),
    2: _NOISE % 256,
    3: _NOISE % 1000,
    4: np.where(_AT % 50 == 0, 10**9, _AT % 13),
    5: np.cumsum(_AT % 3),
    6: _NOISE % 500 * 3_600_000_000,
    7: _AT // 30,
}
_LISTS = [[{"k": 1, "t": "x"}], [], [{"k": None, "t": None}] * 3] * (ROWS // 3)
COLUMNS = {
    **{
        (number, "integers"): Numbers(values.astype(np.int64), pa.int64())
        for number, values in _INTEGERS.items()
    },
    (8, "wide integers"): Numbers(_NOISE.astype(object) * 10**25, pa.decimal128(38, 0)),
    (8, "floats"): Numbers(np.sqrt(_AT), pa.float64()),
    (9, "floats"): Numbers(_NOISE % 1000 / 100, pa.float64()),
    (10, "text"): Opaque(pa.array([f"{at * 7 % 13} zażółć" for at in _AT])),
    (11, "text"): Opaque(pa.array([f"https://example.org/{at:04d}" for at in _AT])),
    (12, "nested"): Opaque(pa.array(_LISTS)),
}


def page_of(key):
    """(stored values, fields of its record) of the page that a writer makes of a column above."""
    (page,) = vector_pages(COLUMNS[key], is_sorted=True)
    fields = ("row_count", "encoding", "flags", "minimum", "maximum")
    return page.raw, {name: getattr(page, name) for name in fields}


def forged(page, key, column_type=None):
    """A file of one page, (stored values, fields of its record), of the type of a column above."""
    vector = COLUMNS[key]
    kind = "opaque" if isinstance(vector, Opaque) else "numbers"
    return forge([page], ROWS, column_type=column_type or type_name(vector.type), kind=kind)


def text_page(texts, *, is_sorted=False):
    """(values, claims) of a page of texts that has no nulls."""
    number, content = TEXT_ENCODINGS.choose(texts, is_sorted=is_sorted).encode()
    return content, {"row_count": len(texts), "encoding": number}
