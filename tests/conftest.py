"""Shared by all tests: helper modules on the path, and Hypothesis without deadlines."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "oracle"), str(HERE / "support"), str(HERE.parent / "docs")]

settings.register_profile(
    "projseg",
    deadline=None,  # the first example compiles kernels
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("projseg")


def pytest_collection_modifyitems(items):
    """Give a file's tests to one process, and all of Spark's to one, which has one session."""
    for item in items:
        is_spark = HERE / "spark" in item.path.parents
        item.add_marker(pytest.mark.xdist_group("spark" if is_spark else str(item.path)))
