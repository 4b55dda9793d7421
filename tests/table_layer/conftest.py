"""Every test here is spared the wait for the disk, and checked to leave nothing open.

Tests that use `tmp_path` run twice: over a folder and over an S3-compatible server. Those that
reach into a folder by other means than tables have the mark `folder`.
"""

import pytest
from leaks import no_open_files, no_threads
from recorded_os import UnsyncedOs
from store_places import environment_of

from projseg.table_layer.storage import local_storage

__all__ = ["no_open_files", "no_threads"]

# Modules whose tests run over a store with every commit; those of the others wait for the night.
OFTEN = {
    "test_commit",
    "test_versions",
    "test_vacuum",
    "test_tags",
    "test_restore",
    "test_as_of",
}
# Modules that are about folders: their names, and files damaged in place.
OF_FOLDERS = {
    "test_damaged_metadata",
    "test_hostile_metadata",
    "test_paths",
    "test_warehouse",
}


def pytest_generate_tests(metafunc):
    module = metafunc.module.__name__
    is_marked = metafunc.definition.get_closest_marker("folder") is not None
    if "tmp_path" in metafunc.fixturenames and not is_marked and module not in OF_FOLDERS:
        store = pytest.param("store", marks=() if module in OFTEN else pytest.mark.slow)
        metafunc.parametrize("tmp_path", ["folder", store], indirect=True)


@pytest.fixture
def tmp_path(request, tmp_path_factory, monkeypatch):
    if getattr(request, "param", "folder") == "folder":
        return tmp_path_factory.mktemp("table")
    server = request.getfixturevalue("store_server")
    for name, value in environment_of(server.options()).items():
        monkeypatch.setenv(name, value)
    return request.getfixturevalue("store_place")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(local_storage, "os", UnsyncedOs())
