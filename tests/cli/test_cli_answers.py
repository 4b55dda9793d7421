"""Two answers are the same when their rows are, whatever their order."""

from __future__ import annotations

import pyarrow as pa

from projseg.benchmarks.bench import same_answer

ANSWER = pa.table({"k": ["a", "b", None], "sum": [1, 2, None], "mean": [0.1, 0.2, float("nan")]})


def changed(name, values):
    index = ANSWER.column_names.index(name)
    return ANSWER.set_column(index, name, pa.array(values, ANSWER.schema.field(name).type))


def test_order_of_rows_does_not_matter():
    assert same_answer(ANSWER, ANSWER.take([2, 0, 1]))


def test_another_value_null_or_count_of_rows_is_another_answer():
    assert not same_answer(ANSWER, changed("sum", [1, 3, None]))
    assert not same_answer(ANSWER, changed("sum", [1, 2, 0]))
    assert not same_answer(ANSWER, changed("k", ["a", "c", None]))
    assert not same_answer(ANSWER, ANSWER.slice(1))


def test_doubles_may_differ_by_rounding_only():
    assert same_answer(ANSWER, changed("mean", [0.1 + 1e-16, 0.2, float("nan")]))
    assert not same_answer(ANSWER, changed("mean", [0.1001, 0.2, float("nan")]))


def test_other_types_are_another_answer():
    assert not same_answer(pa.table({"n": pa.array([1], pa.int32())}), pa.table({"n": [1]}))
