"""Kernels that a wheel brings compiled: which are listed, and when their code runs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from numba import njit, typeof

from projseg.kernels.runtime import stored_code
from projseg.kernels.runtime.compiler import numba_type_of, stored_kernel, text_of
from projseg.kernels.runtime.machine_code import type_of
from projseg.kernels.runtime.shipped_code import kernels
from projseg.kernels.runtime.stored_code import (
    ANY_LEVEL_3,
    listed_kernels,
    load,
    may_run,
    shipped_name,
)

VALUES = np.arange(7, dtype=np.int64)


def total(values):
    found = 0
    for value in values:
        found += value
    return found


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A file that brings `total`, and a cache that keeps nothing."""
    signature = (typeof(VALUES),)
    dispatcher = njit(nogil=True)(total)
    dispatcher.compile(signature)
    kernel = stored_kernel(dispatcher.overloads[signature], 5, ANY_LEVEL_3)
    path = tmp_path / "shipped.code"
    path.write_bytes(msgspec.msgpack.encode({shipped_name("total", kernel.arguments): kernel}))
    monkeypatch.setattr(stored_code, "SHIPPED_FILE", path)
    monkeypatch.setattr(stored_code, "cache_folder", lambda: None)
    stored_code.brought.cache_clear()
    yield path
    stored_code.brought.cache_clear()


@pytest.mark.skipif(not may_run(), reason="no machine code is kept on this processor")
def test_code_of_the_same_source_and_types_runs(shipped):
    assert load("total", [type_of(VALUES)], 5)(VALUES) == 21
    assert load("total", [type_of(VALUES)], 6) is None
    assert load("total", ["u4C1"], 5) is None


def test_another_processor_finds_none(shipped, monkeypatch):
    monkeypatch.setattr(stored_code, "_cpu_lines", lambda: ["flags\t\t: sse4_2 avx"])
    assert load("total", [type_of(VALUES)], 5) is None


@pytest.mark.parametrize("content", [None, b"", b"\x81\xa1a"])
def test_without_a_whole_file_there_is_none(shipped, content):
    shipped.unlink()
    if content is not None:
        shipped.write_bytes(content)
    assert load("total", [type_of(VALUES)], 5) is None


def test_listed_kernels_exist_and_take_as_many_arguments():
    known, listed = kernels(), listed_kernels()
    assert set(listed) <= set(known)
    for name, types in listed.items():
        counts = {len(one.split("-")) for one in types}
        assert counts == {known[name].function.__code__.co_argcount}, name
        texts = [text for one in types for text in one.split("-")]
        assert [text_of(numba_type_of(text)) for text in texts] == texts
