"""Each kernel test runs thrice: with few rows widened, with narrow ones left narrow, interpreted.

Interpreted are the kernels that may be, over few rows, which is how a young process runs them. With
each night they run from stored code, too, which is how it runs them over more rows, and all as
Python, which is how they run where no memory may be made executable.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress
from operator import attrgetter
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from numba import typeof, types
from numba.np.numpy_support import as_dtype

from projseg import kernels
from projseg.kernels.runtime import kernel as kernel_module
from projseg.kernels.runtime.kernel import Kernel, interpreter
from projseg.kernels.runtime.machine_code import KernelFailedError, type_of
from projseg.kernels.runtime.stored_code import load


def every_kernel():
    """The kernels of all modules."""
    for found in pkgutil.walk_packages(kernels.__path__, "projseg.kernels."):
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, Kernel):
                yield value


def interpreted(kernel):
    """What a kernel is while its process is young."""

    def run(*arguments):
        with np.errstate(all="ignore"), suppress(OverflowError):
            return kernel.function(*arguments)
        return compiled(*arguments)

    compiled = kernel.compiled()
    return run


def from_stored_code(kernel):
    """What a kernel is in a process that finds its machine code."""

    def run(*arguments):
        names = [type_of(argument) for argument in arguments]
        if None not in names:
            stored = load(kernel.name, names, kernel.stamp)
            if stored is None:
                compiled.compile(tuple(map(typeof, arguments)))
                stored = load(kernel.name, names, kernel.stamp)
            if stored is not None:
                with suppress(KernelFailedError):
                    return stored(*arguments)
        return compiled(*arguments)

    compiled = kernel.compiled()
    return run


AT_NIGHT = [pytest.param(way, marks=pytest.mark.slow) for way in ("stored", "python")]
WAYS = ["narrow", "wide", "interpreted", *AT_NIGHT]


@pytest.fixture(scope="module", autouse=True, params=WAYS)
def few_rows_limit(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_values_left", 0)
        patch.setattr(interpreter, "is_retired", True)
        few_rows = 0 if request.param == "narrow" else kernel_module.FEW_ROWS
        patch.setattr(kernel_module, "FEW_ROWS", few_rows)
        if request.param in ("interpreted", "stored"):
            for kernel in every_kernel():
                kernel.compiled()  # all, before any is replaced that another one calls
        if request.param == "interpreted":
            for kernel in filter(attrgetter("is_interpretable"), every_kernel()):
                patch.setattr(kernel, "_compiled", interpreted(kernel))
        if request.param == "python":
            patch.setattr(interpreter, "is_alone", True)
            for kernel in every_kernel():
                patch.setattr(kernel, "_compiled", kernel._interpreted)
        if request.param == "stored":
            for kernel in every_kernel():
                patch.setattr(kernel, "_compiled", from_stored_code(kernel))
        yield


@pytest.fixture(scope="module", autouse=True)
def annotations_hold():
    """What a kernel was compiled for is what its parameters are annotated with."""
    yield
    for kernel in every_kernel():
        hints = get_type_hints(kernel.function)
        names = kernel.function.__code__.co_varnames[: kernel.function.__code__.co_argcount]
        for signature in getattr(kernel._compiled, "signatures", ()):
            for name, found in zip(names, signature, strict=False):
                assert is_annotated(hints[name], found), (kernel.function, name, found)


def written_out(hint):
    """What an annotation stands for: NumPy's are aliases of their own from Python 3.12 on."""
    meant = getattr(get_origin(hint), "__value__", None)
    return hint if meant is None else meant[get_args(hint)]


def is_annotated(hint, numba_type):
    """Whether a type of Numba is one of those an annotation allows."""
    allowed = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    allowed = tuple(map(written_out, allowed))
    if isinstance(numba_type, types.NoneType):
        return type(None) in allowed
    if isinstance(numba_type, types.UniTuple):
        return get_origin(hint) is tuple and is_annotated(get_args(hint)[0], numba_type.dtype)
    if isinstance(numba_type, types.Array):
        dtype = as_dtype(numba_type.dtype)
        arrays = [each for each in allowed if get_origin(each) is np.ndarray]
        return any(dtype == np.dtype(get_args(get_args(each)[1])[0]) for each in arrays)
    kinds = (get_origin(each) or each for each in allowed)  # `np.integer[Any]` is no type
    wanted = tuple(kind for kind in kinds if isinstance(kind, type))
    if isinstance(numba_type, types.Integer | types.IntegerLiteral):
        return issubclass(as_dtype(types.unliteral(numba_type)).type, wanted) or int in wanted
    return {types.boolean: bool, types.float64: float}.get(numba_type) in wanted
