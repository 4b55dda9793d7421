"""Random columns in all their forms, and random expressions over them, for block programs."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from projseg.aggregation.state import narrowed
from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.evaluation.rows import MemorySource, all_rows
from projseg.segment_format.arrow_arrays import as_wide
from projseg.segment_format.logical_types import TIMESTAMP
from projseg.segment_format.vectors import Numbers

TYPES = {
    "y": pa.int8(),
    "i": pa.int32(),
    "j": pa.int32(),
    "b": pa.int64(),
    "c": pa.int64(),
    "m": pa.decimal128(10, 2),
    "n": pa.decimal128(12, 4),
    "w": pa.decimal128(30, 3),
    "x": pa.decimal128(38, 18),
    "f": pa.float64(),
    "g": pa.float64(),
    "p": pa.bool_(),
    "q": pa.bool_(),
    "d": pa.date32(),
    "e": pa.date32(),
    "t": TIMESTAMP,
    "s": pa.string(),
}
SCHEMA = pa.schema(list(TYPES.items()))
_DOUBLES = [0.0, -0.0, 1.5, -2.25, 1e300, 1e-300, float("inf"), float("-inf"), float("nan")]


def random_vector(rng, arrow_type, row_count):
    """Draw a column: numbers, narrow or wide, or ids; with nulls or without, small or extreme."""
    share = rng.choice([0, 0, 0.3, 1])
    validity = None if share == 0 else np.array([rng.random() >= share for _ in range(row_count)])
    if arrow_type == pa.string():
        values = [rng.choice(["", "a", "ab", "b", "é"]) for _ in range(row_count)]
        return encode_sorted(pa.array(values, arrow_type, mask=_mask(validity)))
    if arrow_type == pa.float64():
        doubles = np.array([rng.choice([*_DOUBLES, rng.gauss(0, 10)]) for _ in range(row_count)])
        numbers = Numbers(doubles, arrow_type, 0, validity)
    elif pa.types.is_decimal(arrow_type):
        numbers = _decimals(rng, arrow_type, row_count, validity)
    else:
        low, high = _limits(rng, arrow_type)
        integers = np.array([rng.randint(low, high) for _ in range(row_count)], np.int64)
        numbers = Numbers(integers, arrow_type, 0, validity)
    if validity is not None:
        numbers.values[~validity] = 0
    if rng.random() < 0.3:
        return encode_sorted(numbers.to_arrow(), with_null=rng.random() < 0.5)
    return narrowed(numbers) if rng.random() < 0.6 else numbers


def _decimals(rng, arrow_type, row_count, validity):
    """Draw decimals, of 64 or 128 bits, which may all end with zeros."""
    edge = 10**arrow_type.precision - 1
    zeros = 10 ** rng.choice([0, 0, min(16, arrow_type.scale)])
    low, high = rng.choice(
        [(-9, 9), (0, 105), (100, 10**7), (-(10**20), 10**20), (-(2**63), 2**63 - 1), (-edge, edge)]
    )
    low, high = max(low, -(edge // zeros)), min(high, edge // zeros)
    integers = np.array([rng.randint(low, high) * zeros for _ in range(row_count)], object)
    fits = integers.min() >= -(2**63) and integers.max() < 2**63
    values = integers.astype(np.int64) if fits else as_wide(integers)
    numbers = Numbers(values, arrow_type, 0, validity)
    return numbers.with_bounds() if rng.random() < 0.7 else numbers


def _mask(validity):
    return None if validity is None else ~validity


def _limits(rng, arrow_type):
    if pa.types.is_boolean(arrow_type):
        return 0, 1
    if pa.types.is_date32(arrow_type):
        return rng.choice([(-5, 5), (8000, 12_000), (-719_162, 2_932_896)])
    if pa.types.is_timestamp(arrow_type):
        return rng.choice([(0, 10**15), (-10, 10)])
    edge = 2 ** (arrow_type.bit_width - 1)
    near = rng.choice([(-5, 5), (1, 9), (0, 100), (-edge, edge - 1), (edge - 3, edge - 1)])
    return max(near[0], -edge), min(near[1], edge - 1)


def random_rows(rng, row_count=None):
    """Draw rows with a column of each type."""
    row_count = rng.choice([1, 2, 7, 40]) if row_count is None else row_count
    vectors = {name: random_vector(rng, each, row_count) for name, each in TYPES.items()}
    return all_rows(MemorySource(row_count, vectors))


def number(rng, depth):
    """Draw the text of a number."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([*"yijbcmnwxfg", "0", "1", "-3", "100L", "2.50", "0.1", "1.5D", "NULL"])
    one, other, third = (lambda: number(rng, depth - 1) for _ in range(3))
    forms = {
        "arithmetic": lambda: f"({one()} {rng.choice('+-*')} {other()})",
        "product": lambda: f"({one()} * (1 {rng.choice('+-')} {other()}))",
        "divided": lambda: f"({one()} {rng.choice(['/', '%', 'div'])} {other()})",
        "share": lambda: f"({one()} / {rng.choice(['100', '7', '0.03', '12345678901', '-2'])})",
        "guarded": lambda: f"({one()} % nullif({other()}, 0))",
        "pmod": lambda: f"pmod({one()}, {rng.choice(['7', '10L', '2.5', other()])})",
        "sign": lambda: f"{rng.choice(['-', 'abs'])}({one()})",
        "case": lambda: f"CASE WHEN {truth(rng, depth - 1)} THEN {one()} ELSE {other()} END",
        "cases": lambda: (
            f"CASE WHEN {truth(rng, depth - 1)} THEN {one()} "
            f"WHEN {truth(rng, depth - 1)} THEN {other()} END"
        ),
        "if": lambda: f"if({truth(rng, depth - 1)}, {one()}, {other()})",
        "coalesce": lambda: f"coalesce({one()}, {other()}, {third()})",
        "cast": lambda: f"CAST({one()} AS {rng.choice(_CASTS)})",
        "of truth": lambda: f"CAST({truth(rng, depth - 1)} AS INT)",
        "days": lambda: f"datediff({date(rng)}, {date(rng)})",
        "field": lambda: f"{rng.choice(['year', 'month', 'dayofweek'])}({date(rng)})",
        "length": lambda: "length(s)",
    }
    return rng.choice([*forms.values()])()


_CASTS = ["INT", "BIGINT", "SMALLINT", "DOUBLE", "DECIMAL(12,3)", "DECIMAL(20,0)", "DECIMAL(5,4)"]
_CASTS += ["DECIMAL(38,18)", "DECIMAL(38,6)"]


def date(rng):
    """Draw the text of a date."""
    moved = f"{rng.choice('de')} {rng.choice('+-')} {rng.choice(['3', 'i', 'y'])}"
    return rng.choice(["d", "e", "DATE '1995-06-17'", f"({moved})"])


def truth(rng, depth):
    """Draw the text of a condition."""
    compare = rng.choice(["=", "!=", "<", "<=", ">", ">=", "<=>"])
    if depth == 0 or rng.random() < 0.2:
        leaves = ["p", "q", "TRUE", "NULL", "(s = 'a')", "(s LIKE 'a%')", f"(d {compare} e)"]
        leaves += ["(t > '2001-01-01')", f"(y {compare} i)", f"(m {compare} n)", f"(f {compare} g)"]
        return rng.choice(leaves)
    inner = truth(rng, depth - 1)
    forms = {
        "compare": lambda: f"({number(rng, depth - 1)} {compare} {number(rng, depth - 1)})",
        "dates": lambda: f"({date(rng)} {compare} {date(rng)})",
        "times": lambda: f"(CAST(d AS TIMESTAMP) {compare} t)",
        "both": lambda: f"({inner} {rng.choice(['AND', 'OR'])} {truth(rng, depth - 1)})",
        "guard": lambda: f"(i <> 0 {rng.choice(['AND', 'OR'])} (b / i) > 2)",
        "not": lambda: f"(NOT {inner})",
        "null": lambda: f"({rng.choice([inner, number(rng, depth - 1)])} IS NULL)",
        "is": lambda: f"({inner} IS {rng.choice(['TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE'])})",
        "in": lambda: f"({number(rng, depth - 1)} IN (1, 2, {rng.choice(['NULL', '5'])}))",
        "between": lambda: f"({number(rng, depth - 1)} BETWEEN {rng.choice('yib')} AND 100)",
        "nan": lambda: f"isnan({rng.choice('fgbm')})",
        "same truth": lambda: f"({inner} {compare} {truth(rng, depth - 1)})",
    }
    return rng.choice([*forms.values()])()


def expression(rng):
    """Draw the text of an expression."""
    return rng.choice([number, number, truth])(rng, rng.choice([1, 2, 2, 3]))


def generator(seed):
    """Return a source of random choices."""
    return random.Random(seed)
