"""A store of views in which a stranger changed what the views say, every checksum right."""

import json
from pathlib import Path

from forged_tables import sealed

from projseg.memory.cache import KEPT


def newest_version_of(folder):
    """Return the file of the newest version of a log."""
    return max((Path(folder) / "_projseg").glob("0*.json"))


def forge_views(table_location, change):
    """Let `change` edit each view of a table's store as JSON has it, and seal its lists again."""
    store = Path(table_location) / "views"
    version = newest_version_of(store)
    document = json.loads(version.read_bytes())
    for reference in document["lists"]:
        path = store / reference[0]
        listed = json.loads(path.read_bytes())
        for view in listed["views"]:
            change(view)
        payload = sealed(listed)
        path.write_bytes(payload)
        reference[1:3] = len(payload), payload[13:45].decode()
    version.write_bytes(sealed(document))
    KEPT.clear()
