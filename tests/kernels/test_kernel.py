"""When a kernel is interpreted, and when it is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from projseg.kernels import grouping, integer_codes
from projseg.kernels.runtime import kernel as module
from projseg.kernels.runtime.kernel import Interpreter, Kernel
from projseg.kernels.runtime.stored_code import may_run

FIRST_ANSWER = """
import sys
import projseg
table = projseg.Table(sys.argv[1])
hours = table.query(group_by="hour, channel", aggregators="sum(added) AS added, count(*) AS n")
assert hours.num_rows == 120, hours.num_rows
print("numba" in sys.modules)
rows = table.query(group_by="user", aggregators="count(*) AS n")
assert rows.num_rows == 150_000, rows.num_rows
print("numba" in sys.modules)
"""


@pytest.fixture(scope="module", autouse=True)
def few_rows_limit():
    """These tests are about the ways in which the others run."""


def fresh(used, **changed):
    """A kernel as a new process has it."""
    return Kernel(used.function, **{"is_interpretable": True, "is_inlined": False} | changed)


def test_few_values_are_interpreted_and_more_compiled(monkeypatch):
    monkeypatch.setattr(module, "interpreter", Interpreter(20))
    mark, occupied = fresh(grouping._mark), np.zeros(5, np.bool_)
    mark(np.array([1, 3], np.uint32), occupied)
    assert occupied.tolist() == [False, True, False, True, False]
    assert mark._compiled is None
    mark(np.zeros(20, np.uint32), occupied)
    assert occupied.tolist() == [True, True, False, True, False]
    assert mark._compiled is not None
    another = fresh(grouping._relabel)
    another(np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    assert another._compiled is not None


def test_a_kernel_that_python_would_answer_otherwise_is_compiled_at_once(monkeypatch):
    monkeypatch.setattr(module, "interpreter", Interpreter(1_000))
    mark, occupied = fresh(grouping._mark, is_interpretable=False), np.zeros(2, np.bool_)
    monkeypatch.setattr(mark, "_stored", lambda arguments: None)
    mark(np.zeros(1, np.uint32), occupied)
    assert occupied.tolist() == [True, False]
    assert mark._compiled is not None


def test_a_compiled_kernel_calls_compiled_ones():
    compiled = grouping._number_keys.compiled()
    assert compiled.py_func.__globals__["slot_of"] is grouping.slot_of.compiled()
    assert isinstance(grouping._number_keys.function.__globals__["slot_of"], Kernel)


def test_wrapping_arithmetic_is_no_warning_when_interpreted(monkeypatch):
    monkeypatch.setattr(module, "interpreter", Interpreter(1_000))
    values = np.array([2**62, 2**62])
    fresh(integer_codes._accumulate)(values)
    assert values.tolist() == [2**62, -(2**63)]


def test_a_number_that_does_not_fit_is_stored_as_compiled_code_does(monkeypatch):
    monkeypatch.setattr(module, "interpreter", Interpreter(1_000))
    expand, narrow = fresh(integer_codes._expand_runs), np.zeros(2, np.int32)
    expand(np.array([1, 2]), np.array([7, 2**31 + 7]), narrow)
    assert narrow.tolist() == [7, 7 - 2**31]
    assert expand._compiled is not None


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """A table whose projection has 120 rows and whose base has 150,000 users."""
    path = tmp_path_factory.mktemp("kernel") / "edits"
    code = f"""
import numpy as np, pyarrow as pa, projseg
rows = np.arange(150_000)
table = pa.table({{
    "hour": pa.array(rows % 24, pa.int32()),
    "channel": pa.array((rows % 5).astype(str)),
    "user": pa.array(rows),
    "added": pa.array(rows % 100),
}})
made = projseg.Table.create({str(path)!r}, table.schema, projections=[
    projseg.Projection("p", ["hour", "channel"], ["sum(added)", "count(*)"])])
made.append(table)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    return Path(path)


def test_a_first_answer_from_a_small_projection_imports_no_numba(location):
    run = subprocess.run(
        [sys.executable, "-c", FIRST_ANSWER, str(location)], check=True, capture_output=True
    )
    assert run.stdout.split()[0] == b"False"


def test_what_one_process_compiled_another_runs_without_numba(location):
    command = [sys.executable, "-c", FIRST_ANSWER, str(location)]
    subprocess.run(command, check=True, capture_output=True)
    run = subprocess.run(command, check=True, capture_output=True)
    assert run.stdout.split() == ([b"False"] * 2 if may_run() else [b"False", b"True"])


def test_where_numba_compiles_nothing_every_call_is_interpreted():
    code = """
import threading
import numpy as np
from projseg.kernels.runtime import kernel
from projseg.kernels.grouping import occupied_groups
kernel.CALLS_BEFORE_NUMBA = 3
for _ in range(9):
    assert occupied_groups(np.ones(2_000, np.uint32), 2).tolist() == [False, True]
    for thread in threading.enumerate():
        if thread.name == "projseg-numba":
            thread.join()
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
