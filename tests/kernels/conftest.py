"""Each kernel test runs twice: with few rows widened, and with narrow ones left narrow."""

from __future__ import annotations

import pytest

from projseg.kernels import few_rows


@pytest.fixture(scope="module", autouse=True, params=[0, few_rows.FEW_ROWS], ids=["narrow", "wide"])
def few_rows_limit(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_rows, "FEW_ROWS", request.param)
        yield
