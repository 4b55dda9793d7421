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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a file's tests to one process, and all of Spark's to one, which has one session."""
    from xdist.scheduler import LoadFileScheduling

    class OneSessionScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return OneSessionScheduling(config, log)
