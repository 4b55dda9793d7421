"""Shared by all tests: helper modules on the path, and Hypothesis without deadlines."""

import sys
import uuid
import zoneinfo
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "oracle"), str(HERE / "support"), str(HERE.parent / "docs")]

from scale import IS_NIGHTLY, leave_to_the_night, tries  # noqa: E402 - found by the path above

zoneinfo.reset_tzpath(to=())  # the rules of the package tzdata, as those of projseg

settings.register_profile(
    "projseg",
    max_examples=tries(100),
    derandomize=not IS_NIGHTLY,  # CI draws the same cases each time, the night new ones
    deadline=None,  # the first example compiles kernels
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("projseg")


@pytest.fixture(scope="session")
def store_server():
    """An S3-compatible server with a proxy before it, for the whole run."""
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    from store_places import store_at

    from projseg.benchmarks.store_server import store_server

    with store_server() as server:
        server.make_bucket("tables")
        # The first request opens what every later one uses: no test leaves it open.
        list(store_at("s3://tables", server.options()).list())
        yield server


@pytest.fixture
def store_place(store_server):
    """A prefix of a bucket that no other test uses."""
    from store_places import StorePlace

    return StorePlace(f"s3://tables/{uuid.uuid4().hex}", store_server.options())


@pytest.fixture
def dear_base_rows(monkeypatch):
    """Let any projection that fits be cheaper than base rows."""
    from msgspec.structs import replace

    from projseg.algebra.planning import planner

    shape_of = planner.base_shape

    def dear(query, conditions):
        return replace(shape_of(query, conditions), filter_work=10_000, fold_work=10_000)

    monkeypatch.setattr(planner, "base_shape", dear)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items):
    """Sample the cases of tests that have many costly ones, and begin with what takes longest.

    Those of Spark take a process about half of the whole run.
    """
    leave_to_the_night(items)
    items.sort(key=lambda item: not item.nodeid.startswith("tests/spark/"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a file's tests to one process, and those of a few folders.

    Spark's have one session, but where `--dist loadfile` asks for one in each process; those of
    the house's style parse all modules once.
    """
    if config.option.dist == "loadfile":
        return None  # the scheduler of xdist that knows files alone
    from xdist.scheduler import LoadFileScheduling

    class OneSessionScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            folder = nodeid.split("/")[1]
            together = folder in ("spark", "house_style")
            return folder if together else super()._split_scope(nodeid)

    return OneSessionScheduling(config, log)
