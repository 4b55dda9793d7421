"""Segment files of released versions, and their contents.

A `build_` function specifies its file. Neither of them ever changes: a new case gets a new name.
`python tests/support/golden_files.py` writes the files that are missing.
"""

import datetime
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from segment_bytes import build_segment
from segment_columns import ids_of, vector_of

from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Ids, Numbers, Opaque

GOLDEN = Path(__file__).parents[1] / "golden"


def read_golden(name):
    """The bytes of a golden file."""
    return (GOLDEN / f"{name}.pseg").read_bytes()


def build_smallest():
    """One integer."""
    return {"n": Numbers(np.array([7]), pa.int64())}, {}


def build_every_type():
    """A column of each type with nulls first, middle and last."""
    utc = datetime.UTC
    values = {
        "boolean": (pa.bool_(), [True, False]),
        "tinyint": (pa.int8(), [-128, 127]),
        "smallint": (pa.int16(), [-32768, 32767]),
        "int": (pa.int32(), [-(2**31), 2**31 - 1]),
        "bigint": (pa.int64(), [-(2**63), 2**63 - 1]),
        "float": (pa.float32(), [1.5, float("-inf")]),
        "double": (pa.float64(), [-0.0, float("nan")]),
        "decimal": (pa.decimal128(38, 2), [decimal.Decimal("-1.25"), decimal.Decimal(10**35)]),
        "string": (pa.string(), ["", "zażółć \U0001f600\0"]),
        "binary": (pa.binary(), [b"", b"\xff\x00"]),
        "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        "timestamp": (
            pa.timestamp("us", "UTC"),
            [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, utc)] * 2,
        ),
        "timestamp_ntz": (pa.timestamp("us"), [datetime.datetime(2015, 9, 12), None]),
        "void": (pa.null(), [None, None]),
        "array": (pa.list_(pa.string()), [[], ["a", None]]),
        "map": (pa.map_(pa.string(), pa.int32()), [[], [("k", None), ("l", 2)]]),
        "struct": (
            pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))]),
            [{"a": None, "b": [1.0, None]}, {"a": 5, "b": None}],
        ),
    }
    columns = {
        name: vector_of(pa.array([None, first, None, second, None], arrow_type))
        for name, (arrow_type, (first, second)) in values.items()
    }
    return columns, {}


def build_every_encoding():
    """Columns of 1,000 rows, shaped so that each encoding is chosen for one."""
    rows = np.arange(1_000, dtype=np.int64)
    noise = rows * 2_654_435_761 % 2**32
    outliers = np.where(rows % 100 == 0, noise, rows * 7 % 13)
    text = [None if row % 10 == 0 else f"text {row * 7 % 50}" for row in range(1_000)]
    columns = {
        "constant": Numbers(np.full(1_000, -5), pa.int64()),
        "bytes": Numbers(noise % 256, pa.int64()),
        "bits": Numbers(noise % 1024, pa.int64()),
        "outliers": Numbers(outliers, pa.int64()),
        "rising": Numbers(np.cumsum(noise % 50), pa.int64()),
        "hours": Numbers(noise % 700 * 3_600_000_000, pa.timestamp("us", "UTC")),
        "runs": Numbers(rows // 60 * 11 % 17, pa.int64()),
        "plain": Numbers(np.sqrt(rows), pa.float64()),
        "price": Numbers(noise % 10_000 / 100, pa.float64()),
        "wide": Numbers(rows.astype(object) * 10**25, pa.decimal128(38, 0)),
        "text": Opaque(pa.array(text)),
        "lists": Opaque(pa.array([[row, None] for row in range(1_000)], pa.list_(pa.int64()))),
    }
    return columns, {}


def build_projections():
    """Shared dictionaries, a bitmap index, two projections."""
    words = Dictionary(pa.array([None, *(f"word {i:03d}" for i in range(30))]))
    days = Dictionary(pa.array(range(4), pa.int32()).cast(pa.date32()))
    rows = np.arange(10_000)
    word = Ids((rows // 300 % 31).astype(np.uint8), words)
    day = Ids((rows * 7 % 4).astype(np.uint8), days)
    columns = {"word": word, "day": day, "n": Numbers(rows % 97, pa.int64())}
    by_word = {
        ("grouping", "word"): Ids(np.arange(31, dtype=np.uint8), words),
        ("state", "count(*)"): Numbers(np.bincount(word.ids, minlength=31), pa.int64()),
    }
    by_day = {
        ("grouping", "day"): Ids(np.arange(4, dtype=np.uint8), days),
        ("state", "sum(n)"): Numbers(np.array([10**30] * 4, object), pa.decimal128(38, 0)),
    }
    return columns, {"by_word": by_word, "by_day": by_day}


def build_sorted_rows():
    """A projection of rows in another order, which has the base table's dictionary."""
    words = Dictionary(pa.array([None, "first", "second", "third"]))
    rows = np.arange(1_000)
    word = Ids((rows * 7 % 4).astype(np.uint8), words)
    columns = {"word": word, "n": Numbers(rows % 10, pa.int64())}
    order = np.argsort(word.ids, kind="stable")
    by_word = {
        ("grouping", "word"): word.take(order),
        ("grouping", "n"): columns["n"].take(order),
        ("state", "row number"): Numbers(order, pa.int64()),
    }
    return columns, {"by_word": by_word}


def build_empty():
    """No rows at all, and a dictionary of no values."""
    empty = {"s": ids_of(pa.array([], pa.string())), "x": vector_of(pa.array([], pa.float64()))}
    return empty, {}


BUILDERS = {
    "smallest": build_smallest,
    "every_type": build_every_type,
    "every_encoding": build_every_encoding,
    "projections": build_projections,
    "empty": build_empty,
    "sorted_rows": build_sorted_rows,
}
DEFINITIONS = {
    "sorted_rows": {
        "by_word": (
            '{"name":"by_word","timeColumn":null,"columns":[["word","word"],["n","n"]],'
            '"orderBy":["word"],"filter":null}',
            ("word",),
        )
    }
}


def main():
    """Write the golden files that are missing."""
    for name, build in BUILDERS.items():
        path = GOLDEN / f"{name}.pseg"
        if not path.exists():
            columns, projections = build()
            definitions = DEFINITIONS.get(name)
            content = build_segment(columns, projections=projections, definitions=definitions)
            path.write_bytes(content)
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
