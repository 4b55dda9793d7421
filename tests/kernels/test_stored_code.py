"""Kernels' machine code: what is kept, what runs, and what is left to Numba."""

from __future__ import annotations

import itertools
import threading

import msgspec
import numpy as np
import pytest
from numba import njit, typeof

from projseg.kernels import fold_count, integer_codes
from projseg.kernels.integer_codes import pack_bits
from projseg.kernels.runtime import kernel as kernel_module
from projseg.kernels.runtime import stored_code
from projseg.kernels.runtime.compiler import numba_type_of, stored_kernel, text_of
from projseg.kernels.runtime.kernel import Interpreter, Kernel
from projseg.kernels.runtime.machine_code import KernelFailedError, machine_code, type_key, type_of
from projseg.kernels.runtime.stored_code import load, may_run, processor_stamp, store

pytestmark = pytest.mark.skipif(not may_run(), reason="no machine code is kept on this processor")

WIDE = np.zeros((3, 4), np.int64)
VALUES = np.arange(6000, dtype=np.uint32) % 31


@pytest.fixture(scope="module", autouse=True)
def few_rows_limit():
    """These tests are about one of the ways in which the others run."""


def compiled(function, *arguments):
    """What Numba makes of a function, without calling it."""
    return njit(nogil=True)(function), tuple(map(typeof, arguments))


def kept(function, *arguments):
    """The function in the form it is kept in."""
    dispatcher, signature = compiled(function, *arguments)
    dispatcher.compile(signature)
    return stored_kernel(dispatcher.overloads[signature], 7, processor_stamp())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_code, "cache_folder", lambda: tmp_path)
    return tmp_path


def spread(a, b, is_sum, scale, nothing):
    """Use arrays of every layout and scalars of every kind."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * scale
    for i in range(len(b)):
        total += b[i]
    if nothing is None and is_sum:
        return np.int64(total), total, np.uint64(len(b))
    return np.int64(-1), total, np.uint64(0)


def test_arguments_and_results_of_all_kinds_pass(folder):
    grid = np.arange(12, dtype=np.int64).reshape(3, 4)
    odd = np.arange(10, dtype=np.float64)[::2]
    for first in (grid, np.asfortranarray(grid), grid[:, ::2]):
        arguments = (first, odd, True, 0.5, None)
        store(kept(spread, *arguments), "spread")
        stored = load("spread", [type_of(one) for one in arguments], 7)
        assert stored(*arguments) == spread(*arguments)
        falsely = (first, odd, False, 0.5, None)
        assert stored(*falsely) == spread(*falsely)


def divide(a):
    return 100 // a[0]


def test_an_error_is_told_and_left_to_numba(folder):
    store(kept(divide, VALUES), "divide")
    stored = load("divide", [type_of(VALUES)], 7)
    assert stored(np.array([7], np.uint32)) == 14
    with pytest.raises(KernelFailedError):
        stored(np.array([0], np.uint32))


def allocate(n):
    return np.zeros(n).sum()


def test_a_kernel_that_needs_numbas_memory_is_not_kept():
    assert kept(allocate, 3) is None


def test_what_returns_an_array_is_not_kept():
    assert kept(lambda a: a[1:], VALUES) is None


def test_only_a_whole_file_for_this_processor_and_source_is_run(folder, monkeypatch):
    store(kept(divide, VALUES), "divide")
    types = [type_of(VALUES)]
    assert load("divide", types, 7) is not None
    assert load("divide", types, 8) is None
    assert load("divide", ["u4C1r"], 7) is None
    (path,) = folder.iterdir()
    content = path.read_bytes()
    for damaged in (b"", content[:-1], content[:20] + b"x" + content[21:]):
        path.write_bytes(damaged)
        assert load("divide", types, 7) is None
    path.write_bytes(content)
    assert load("divide", types, 7) is not None
    monkeypatch.setattr(stored_code, "processor_stamp", lambda: 1)
    path.rename(folder / path.name.replace(path.name.split(".")[-2], "1"))
    assert load("divide", types, 7) is None


@pytest.mark.parametrize("name", ["no_such_symbol", "system", "printf", ""])
def test_code_that_calls_what_it_may_not_is_no_kernel(folder, name):
    kernel = kept(divide, VALUES)
    code = msgspec.structs.replace(kernel.code, imports=[(0, name)])
    store(msgspec.structs.replace(kernel, code=code), "divide")
    assert load("divide", [type_of(VALUES)], 7) is None


def test_numbas_settings_keep_code_from_running(monkeypatch):
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert not may_run()


def test_another_machines_object_is_no_code():
    assert machine_code(b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\0" + bytes(44), "f") is None
    assert machine_code(b"\xcf\xfa\xed\xfe" + bytes(60), "f") is None


@pytest.mark.parametrize(
    "argument",
    [
        VALUES,
        VALUES[::2],
        np.asfortranarray(WIDE),
        np.frombuffer(bytes(8), np.uint32),
        np.zeros((0, 3)),
        True,
        1.5,
        -(2**63),
        np.uint16(3),
        np.bool_(True),
        None,
    ],
)
def test_types_are_told_apart_as_numba_does(argument):
    text = type_of(argument)
    assert text == text_of(typeof(argument)) is not None
    assert numba_type_of(text) == typeof(argument)
    assert type_key(argument) is not None


@pytest.mark.parametrize(
    "argument",
    [
        WIDE.astype(">i8"),
        VALUES.astype("M8[us]"),
        np.frombuffer(bytes(17), np.uint8)[1:].view(np.int64),
        2**63,
        (1, 2),
        np.float16(1),
        "text",
    ],
)
def test_other_types_are_numbas(argument):
    assert type_of(argument) is None


def test_one_class_of_numbers_may_be_of_two_types():
    assert type_key(2**63 - 1) is int
    assert type_key(2**63) is None


def test_numba_is_loaded_beside_the_calls_once_they_are_many(monkeypatch):
    words, width = pack_bits(VALUES, 5), 5
    signature = tuple(map(typeof, (words, width, 0, np.zeros(len(VALUES), np.int64))))
    integer_codes._unpack_32.compiled().compile(signature)
    used = integer_codes._unpack_32
    monkeypatch.setattr(kernel_module, "interpreter", Interpreter(0))
    monkeypatch.setattr(kernel_module, "CALLS_BEFORE_NUMBA", 3)
    monkeypatch.setattr(kernel_module, "_calls_of_stored", itertools.count(1))
    monkeypatch.setattr(kernel_module, "_STORED", [])
    fresh = Kernel(used.function, is_interpretable=True, is_inlined=False)
    for calls in range(1, 5):
        out = np.zeros(len(VALUES), np.int64)
        fresh(words, width, 0, out)
        assert np.array_equal(out, VALUES)
        if calls < 3:
            assert fresh._compiled is None
        for thread in threading.enumerate():
            if thread.name == "projseg-numba":
                thread.join()
        assert kernel_module.interpreter.is_retired == (calls >= 3)
    assert fresh._compiled.signatures == [signature]


def test_a_retired_interpreter_leaves_all_to_numba(monkeypatch):
    retired = Interpreter(1_000_000)
    retired.retire()
    monkeypatch.setattr(kernel_module, "interpreter", retired)
    used = fold_count._count
    fresh = Kernel(used.function, is_interpretable=True, is_inlined=False)
    counts = np.zeros(31, np.int64)
    fresh(VALUES, None, counts)
    assert counts.tolist() == np.bincount(VALUES).tolist()
    assert fresh._compiled is not None


def test_a_stamp_changes_with_the_sources_of_called_kernels(monkeypatch):
    used = fold_count._count
    before = Kernel(used.function, is_interpretable=True, is_inlined=False).stamp
    monkeypatch.setattr(kernel_module, "_source_stamp", lambda module: 1)
    after = Kernel(used.function, is_interpretable=True, is_inlined=False).stamp
    assert before != after
