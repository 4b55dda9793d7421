"""Requests of these tests may be spoiled, and are repeated quickly."""

import pytest
from leaks import no_open_files, no_threads

from projseg.table_layer.storage import object_storage

__all__ = ["no_open_files", "no_threads"]


@pytest.fixture(autouse=True)
def quick_repetitions(monkeypatch):
    monkeypatch.setattr(object_storage, "_FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def spoiled(store_server):
    """Spoil requests of later calls; requests are served well again after the test."""
    yield store_server.spoil
    store_server.spoil()


@pytest.fixture
def options(store_server):
    """Storage options of the server, by way of its proxy."""
    return store_server.options(through_proxy=True)
