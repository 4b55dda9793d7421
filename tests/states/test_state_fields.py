"""SPEC.md section 7.1 and the code name the same state columns."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pyarrow as pa
import pytest

from projseg.aggregation.state_table import SKETCHES, STATES
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.primitive import PRIMITIVES, Primitive
from projseg.algebra.expressions.tree import Column
from projseg.segment_format.logical_types import TIMESTAMP, type_name

SPEC = Path(__file__).resolve().parents[2] / "SPEC.md"


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


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_every_primitive_is_in_the_table_and_has_states():
    storable = {name for name, kind in PRIMITIVES.items() if not kind.not_stored}
    assert {function for function, _, _ in spec_rows()} == storable
    assert {*STATES, *SKETCHES} == set(PRIMITIVES)


def test_every_aggregate_is_made_of_primitives_and_all_of_them_are_used():
    made_of = {
        name
        for function in AGGREGATES.values()
        for name in (*function.primitives, *function.tuple_primitives)
    }
    assert made_of == set(PRIMITIVES)


@pytest.mark.parametrize("name", AGGREGATES)
def test_what_a_record_names_exists(name):
    function = AGGREGATES[name]
    assert {function.distinct_form} <= {"", *AGGREGATES}
    if function.finish is not None:
        merged = {
            part for primitive in function.primitives for part in PRIMITIVES[primitive].merged
        }
        assert {part for part in fields_of(function.finish.sql) if part != "type"} <= merged
    assert not set(function.aliases) & set(AGGREGATES)
    for first in (*function.primitives[:1], *function.tuple_primitives[:1]):
        state = STATES[first] if first in STATES else SKETCHES[first]()
        sums = "sums" if len(function.primitives) == 1 else "columns"
        assert hasattr(state, sums if function.is_average else function.finisher)


@pytest.mark.parametrize("function", PRIMITIVES)
def test_every_column_of_a_state_has_its_merging_or_none_has(function):
    primitive = Primitive(function, (Column(pa.int64(), "x"), Column(TIMESTAMP, "t")), None, (12,))
    kind = primitive.kind
    arguments = primitive.arguments if kind.is_by_time else primitive.arguments[:1]
    parts = [part for part, _ in kind.fields(*(argument.type for argument in arguments))]
    assert list(kind.merged) in ([], parts)
    assert all(fields_of(sql) <= {*parts, "parameter", "item"} for sql in kind.merged.values())


@pytest.mark.parametrize("function", PRIMITIVES)
@pytest.mark.parametrize("x", [pa.int32(), pa.decimal128(9, 2), pa.float64()], ids=str)
def test_state_columns_are_those_of_the_spec(function, x):
    arguments = (Column(x, "x"), Column(TIMESTAMP, "t"))
    if not PRIMITIVES[function].is_by_time:
        arguments = arguments[:1]
    primitive = Primitive(function, arguments, None, (12,))
    fields = primitive.fields
    expected = [(part, written) for name, part, written in spec_rows() if name == function]
    assert [part for part, _ in fields] == [part for part, _ in expected]
    for (_, field_type), (_, written) in zip(fields, expected, strict=True):
        assert written in as_written(field_type, x)
