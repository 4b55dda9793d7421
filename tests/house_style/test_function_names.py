"""What is known of an aggregate stands in its record, and no code asks for it by its name."""

import ast
from itertools import chain

import pytest
from test_layers import ROOT, modules

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.primitive import PRIMITIVES

ROOMS = ("aggregation", "algebra/planning", "maintenance", "reader", "views", "writer")
NAMES = AGGREGATES.keys() | PRIMITIVES.keys()


def compared_names(text):
    """Yield the lines at which a function is compared with an aggregate's name."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        constants = {
            inner.value
            for inner in chain.from_iterable(map(ast.walk, sides))
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        }
        if constants & NAMES and any("function" in ast.unparse(side) for side in sides):
            yield node.lineno


def test_no_aggregate_is_compared_by_its_name():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for _, path in modules()
        if str(path.relative_to(ROOT)).startswith(ROOMS)
        for line in compared_names(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ['one.function == "sum"', 'function in ("count", "min")', '"kll" != state.function']
)
def test_comparisons_are_found(text):
    assert [*compared_names(text)] == [1]
