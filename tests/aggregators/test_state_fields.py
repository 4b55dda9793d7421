"""SPEC.md section 7.1 and the code name the same state columns."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from projseg.algebra.aggregators.primitive import Primitive
from projseg.algebra.aggregators.states import SKETCHES, STATES, state_fields
from projseg.algebra.expressions.tree import Column
from projseg.segment_format.types import TIMESTAMP, type_name

SPEC = Path(__file__).resolve().parents[2] / "SPEC.md"
FUNCTIONS = [*STATES, *SKETCHES]


def spec_rows() -> list[tuple[str, str, str]]:
    section = SPEC.read_text(encoding="utf-8").split("### 7.1 ")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (.+?) \| .+ \|$", section, re.MULTILINE)
    return [row for row in rows if row[0] != "function"]


def as_written(field_type: pa.DataType, x: pa.DataType) -> set[str]:
    """Return the ways in which the table may write a type."""
    names = {type_name(field_type)}
    if field_type == x:
        names.add("type of x")
    if field_type == TIMESTAMP:
        names.add("type of t")
    if field_type == pa.list_(x):
        names.add("array<type of x>")
    if field_type in (pa.float64(), pa.decimal128(38, 2), pa.decimal128(38, 0)):
        names.add("double, or decimal(38, scale of x)")
    return names


def test_every_function_is_in_the_table():
    assert {function for function, _, _ in spec_rows()} == set(FUNCTIONS)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("x", [pa.int32(), pa.decimal128(9, 2), pa.float64()], ids=str)
def test_state_columns_are_those_of_the_spec(function, x):
    arguments = (Column(x, "x"), Column(TIMESTAMP, "t"))
    primitive = Primitive(function, arguments, None, (12,))
    fields = state_fields(primitive)
    expected = [(part, written) for name, part, written in spec_rows() if name == function]
    assert [part for part, _ in fields] == [part for part, _ in expected]
    for (_, field_type), (_, written) in zip(fields, expected, strict=True):
        assert written in as_written(field_type, x)
