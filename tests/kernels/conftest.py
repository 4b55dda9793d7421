"""Each kernel test runs thrice: with few rows widened, with narrow ones left narrow, interpreted.

Interpreted are the kernels that may be, over few rows, which is how a young process runs them.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

import numpy as np
import pytest

from projseg import kernels
from projseg.kernels import few_rows
from projseg.kernels.kernel import Kernel


def every_kernel():
    """The kernels of all modules."""
    for found in pkgutil.iter_modules(kernels.__path__, "projseg.kernels."):
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


@pytest.fixture(scope="module", autouse=True, params=["narrow", "wide", "interpreted"])
def few_rows_limit(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_rows, "FEW_ROWS", 0 if request.param == "narrow" else few_rows.FEW_ROWS)
        if request.param == "interpreted":
            kernels = [each for each in every_kernel() if each.is_interpretable]
            for kernel in kernels:
                kernel.compiled()  # all, before any is replaced that another one calls
            for kernel in kernels:
                patch.setattr(kernel, "_compiled", interpreted(kernel))
        yield
