"""No function is computed by a loop over rows in Python: its lines do not grow with the rows."""

import sys

import pytest

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.benchmarks.scenarios.function_costs import function_cases, made_rows
from projseg.errors import ProjsegError
from projseg.kernels.runtime import kernel

FEW, MANY = 100, 1100
ROWS = made_rows(MANY)
DAILY = ("md5", "sha2", "rlike", "like", "hash", "lpad", "bround", "regexp_replace", "split")


@pytest.fixture(autouse=True)
def no_interpreted_kernels(monkeypatch):
    """A kernel that is not stored yet would run as Python, a line for each row."""
    monkeypatch.setattr(kernel, "interpreter", kernel.Interpreter(0))


def lines_run(expression, count, compute=evaluate):
    """How many lines of Python run while an expression is computed, outside kernels."""
    columns = {name: ROWS[name].slice(0, count).combine_chunks() for name in expression.columns}
    compute(expression, columns, count)  # which may load modules and machine code
    lines = 0

    def traced(frame, event, argument):
        nonlocal lines
        if "kernels" in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        compute(expression, columns, count)
    finally:
        sys.settrace(before)
    return lines


def looping(cases):
    """Yield the text of each case whose lines grow with the rows."""
    for case in cases:
        if case.shape == "constants":
            continue
        expression = bind(case.text, ROWS.schema)
        try:
            few, many = (lines_run(expression, count) for count in (FEW, MANY))
        except ProjsegError:  # a value among all that the function refuses
            continue
        if many - few > (MANY - FEW) / 2:
            yield case.text


def test_few_functions_have_no_loop_over_rows():
    assert [*looping(function_cases(DAILY))] == []


@pytest.mark.slow
def test_no_function_has_a_loop_over_rows():
    assert [*looping(function_cases())] == []


def test_a_loop_over_rows_is_found():
    def slow(expression, columns, count):
        return [value.as_py().upper() for value in columns["s"] if value.is_valid]

    few, many = (lines_run(bind("upper(s)", ROWS.schema), count, slow) for count in (FEW, MANY))
    assert many - few > (MANY - FEW) / 2
