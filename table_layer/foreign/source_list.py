"""What a source lists now: its files, in one list, and the version that the list is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from projseg.segment_format.format_limits import name_key
from projseg.table_layer.foreign.source_files import (
    ListedFile,
    absolute_pattern,
    bad_source,
    find_files,
)
from projseg.table_layer.metadata.table_properties import StoredSource
from projseg.table_layer.storage.store_location import StorageOptions

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
KINDS: Final = ("parquet",)


class SourceList(msgspec.Struct, frozen=True):
    """One list of a source's files.

    Parameters
    ----------
    files : tuple of ListedFile
        By path, each once.
    version : str or None
        The source's version, where it has versions.
    table_id : str or None
        What the source calls itself.
    """

    files: tuple[ListedFile, ...]
    version: str | None = None
    table_id: str | None = None


def parse_source(text: str) -> StoredSource:
    """Return a source that was given as a text, such as `parquet:/data/edits/**/*.parquet`."""
    kind, mark, location = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not mark or kind not in KINDS:
        raise bad_source(
            f"{text!r} is no source; write one of {', '.join(f'{kind}:' for kind in KINDS)} and "
            "where its files are, such as parquet:/data/edits/**/*.parquet"
        )
    return StoredSource(kind="parquet", location=absolute_pattern(location))


def list_source(source: StoredSource, options: StorageOptions) -> SourceList:
    """Return what a source lists now.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SOURCE, if it is not what it was.
    StorageError
        PROJSEG_SOURCE_CHANGED, if its list is not whole; and what the storage says.
    """
    listed = SourceList(tuple(find_files(source.location, options)))
    if not listed.files:
        raise bad_source(
            f"{source.location} has no Parquet files: is the folder mounted, and the pattern right?"
        )
    declared = {name_key(column.name): column.name for column in source.columns or ()}
    if declared:
        files = (_with_partition(one, declared) for one in listed.files)
        listed = replace(listed, files=tuple(files))
    return listed


def _with_partition(file: ListedFile, declared: Mapping[str, str]) -> ListedFile:
    """Return a file with the texts of those declared columns that its path names."""
    parts = [part.partition("=") for part in file.path.split("/")[:-1]]
    found = {
        declared[name_key(name)]: None if text == _NULL else unquote(text)
        for name, mark, text in parts
        if mark and name_key(name) in declared
    }
    return file._replace(partition=tuple(sorted(found.items())))


def names_of(files: Sequence[ListedFile]) -> list[str]:
    """Return what tells a list of files from every other list, in order."""
    return [f"{one.path} {one.byte_count} {one.tag}" for one in files]
