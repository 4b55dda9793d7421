"""Every test here is spared the wait for the disk, and checked to leave nothing open."""

import pytest
from leaks import no_open_files
from recorded_os import UnsyncedOs

from projseg.table_layer.storage import local_storage

__all__ = ["no_open_files"]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(local_storage, "os", UnsyncedOs())
