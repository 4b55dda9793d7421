"""Shared by all tests: helper modules on the path, and Hypothesis without deadlines."""

import sys
from pathlib import Path

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
