"""What time it is where files are removed by their age: the earlier of two clocks.

A machine whose clock is ahead would take files of running writes for old ones. The storage's clock
dates the files, and is read from one that is written for it.
"""

from __future__ import annotations

from typing import Final

from projseg.errors import StorageError
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.storage.local_files import create_unique
from projseg.table_layer.storage.paths import METADATA_PREFIX, new_probe_name
from projseg.table_layer.storage.storage_contract import Storage

_SECOND_US: Final = 1_000_000
"""The tick of stores that tell no parts of a second."""


def earlier_now_us(storage: Storage) -> int:
    """Return the earlier one of this machine's and the storage's time, microseconds UTC.

    Where no file can be written, the storage's time is that of its newest file: it is no earlier.
    """
    name = new_probe_name()
    try:
        create_unique(storage, name, b"what time is it")
        found = [file for file in storage.list_names(METADATA_PREFIX) if file.name == name]
        storage.delete(name)
    except StorageError:
        found = list(storage.list_names(METADATA_PREFIX))
    # What was written within the same tick of its clock was written before.
    times = [one.modified_us + (1 if one.modified_us % _SECOND_US else _SECOND_US) for one in found]
    return min(now_us(), max(times, default=now_us()))
