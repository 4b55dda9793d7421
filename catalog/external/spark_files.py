"""Definitions of type `spark`: which files Spark reads by them, with its own reader."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, Final

from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.spec.table_spec import SparkSpec, TableSpec
from projseg.errors import InvalidInputError, UnsupportedFeatureError

FORMATS: Final = ("csv", "json", "orc", "parquet", "text")
"""Those that read the files of their path, and nothing else that an option may name."""
_PATTERNS: Final = frozenset("*?[]{}\\")


def spark_source(spec: TableSpec, places: AllowedPlaces) -> dict[str, Any]:
    """Return the format, options and files of a definition, as Spark's reader takes them.

    Raises
    ------
    InvalidInputError
        PROJSEG_MISSING_PARAMETER without a path, PROJSEG_OUTSIDE_ROOTS, PROJSEG_BAD_INPUT_FILE.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FEATURE for formats that may read more than files.
    """
    properties = spec.properties
    assert isinstance(properties, SparkSpec), "the caller knows its type"
    form = str(properties.format or "").lower()
    if form not in FORMATS:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FEATURE",
            f"format '{form[:80]}' of a definition of type spark is none of {', '.join(FORMATS)}",
        )
    options = {key.lower(): text for key, text in dict(properties.options or {}).items()}
    path = options.pop("path", "")
    if not path or {"paths", "basepath"} & options.keys():
        raise InvalidInputError(
            "PROJSEG_MISSING_PARAMETER",
            "a definition of type spark needs its files as option path, and no paths or basePath",
        )
    base, pattern = _parted(path)
    found = [path for path in places.files(base, None, pattern) if _is_shown(path, base)]
    if os.path.isdir(path):
        options["basepath"] = os.path.realpath(path)  # its folders may be values of columns
    return {"format": form, "options": options, "paths": found}


def _parted(path: str) -> tuple[str, str]:
    """Return the folder above the first pattern of a path, and the pattern below it."""
    if os.path.isdir(path):
        return path, "**"
    parts = PurePath(path).parts
    plain = next((n for n, part in enumerate(parts) if _PATTERNS & set(part)), len(parts) - 1)
    return str(PurePath(*parts[:plain])), str(PurePath(*parts[plain:]))


def _is_shown(path: str, base: str) -> bool:
    """Whether Spark reads a file, by its name and those of its folders below a base."""
    parts = PurePath(os.path.relpath(path, os.path.realpath(base))).parts
    if _PATTERNS & set(path):
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE", f"{path} holds characters that Spark takes for a pattern"
        )
    return not any(part.startswith(("_", ".")) for part in parts)
