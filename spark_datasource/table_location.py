"""Find the table of a read or a write: the one that its own options name, and no other.

Spark gives a Python source neither the location nor the options of a catalog table. A source could
hide them in the schema, but every DataFrame made of it would carry them on.
"""

from __future__ import annotations

import json
from typing import Final

from projseg.errors import InvalidInputError
from projseg.spark_datasource.options import Options

_WHY: Final = "names no table location, and Spark hands none of a catalog table's over"
_READ_REMEDIES: Final = (
    "use SELECT ... FROM t WITH (path = '/path'), spark.read.format('projseg').load('/path'), or "
    "CREATE TEMPORARY VIEW v USING projseg OPTIONS (path '/path'), which keeps the version that "
    "it was made at"
)
_WRITE_REMEDIES: Final = (
    "use INSERT INTO t WITH (path = '/path') ..., or "
    "df.write.format('projseg').mode('append').save('/path')"
)


def read_location(options: Options) -> str:
    """Return the table that a read is of, with its metadata suffix if it has one.

    Raises
    ------
    InvalidInputError
        PROJSEG_PATH_MISSING, or PROJSEG_BAD_OPTION for several locations.
    """
    return _location(options, f"the read {_WHY}; {_READ_REMEDIES}")


def write_location(options: Options) -> str:
    """Return the table that a write goes to.

    Raises
    ------
    InvalidInputError
        PROJSEG_PATH_MISSING, or PROJSEG_BAD_OPTION for several locations.
    """
    return _location(options, f"the write {_WHY}; {_WRITE_REMEDIES}")


def _location(options: Options, missing: str) -> str:
    path, paths = options.text("path"), options.text("paths")
    if paths is not None:
        path = _only(paths)
    if path is None:
        raise InvalidInputError("PROJSEG_PATH_MISSING", missing)
    return path


def _only(paths: str) -> str:
    try:
        locations = json.loads(paths)
    except (ValueError, RecursionError):
        locations = None
    if not isinstance(locations, list) or len(locations) != 1:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"load() was given the locations {paths}; projseg reads one table at a time, so load "
            "each and union them",
        )
    return str(locations[0])
