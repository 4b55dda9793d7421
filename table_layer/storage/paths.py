"""The one place that makes and checks the names of a table's files.

A name read from a file is never used as a path: it must be exactly a name that this module could
have made, so it cannot leave the table's directory. SPEC.md "Table", names.
"""

from __future__ import annotations

import os
import re
import uuid
from typing import Final

import msgspec

from projseg.errors import InvalidInputError

DATA_PREFIX: Final = "data/"
METADATA_PREFIX: Final = "_projseg/"
SNAPSHOT_PREFIX: Final = "_projseg/0"
"""Twenty digits cannot start with anything but 0 before version 10^19: lists snapshots only."""
MANIFEST_PREFIX: Final = "_projseg/manifests/"
COVER_PREFIX: Final = "_projseg/covers/"
VIEWS: Final = "views/"
"""The folder of a table's views: files in it have the names of a table's, after this."""
RESULTS: Final = f"{VIEWS}results/"
"""In it are the tables of stored results, each in a folder with the id of its cover."""
PLACES: Final = (
    *(METADATA_PREFIX, DATA_PREFIX),
    *(f"{VIEWS}{METADATA_PREFIX}", f"{VIEWS}{DATA_PREFIX}", RESULTS),
)
"""Every place below a table where rows of it, or values of them, are stored: no other is one."""
_PREFIXES: Final = frozenset(
    {DATA_PREFIX, METADATA_PREFIX, SNAPSHOT_PREFIX, MANIFEST_PREFIX, COVER_PREFIX}
    | {RESULTS.removeprefix(VIEWS)}
)

_ID: Final = "[0-9a-f]{32}"
_NUMBER: Final = "0|[1-9][0-9]{0,18}"
_OF_WRITE: Final = re.compile(rf"data/{_ID}-")
_SEGMENT: Final = re.compile(rf"data/({_ID})-({_NUMBER})-({_NUMBER})-({_NUMBER})\.pseg")
_VECTOR: Final = re.compile(rf"data/({_ID})-{_ID}\.pdel")
_BLOOM: Final = re.compile(rf"data/({_ID})-{_ID}\.pblm")
_SNAPSHOT: Final = re.compile(r"_projseg/(0[0-9]{19})\.json")
_MANIFEST: Final = re.compile(rf"_projseg/manifests/{_ID}\.json")
_COVER: Final = re.compile(rf"_projseg/covers/{_ID}\.json")
_KEPT: Final = re.compile(r"_projseg/kept-(0[0-9]{19})\.json")
_PROBE: Final = re.compile(rf"_projseg/probe-{_ID}")
_RESULT: Final = re.compile(rf"{RESULTS}{_ID}/")
_LISTED_INSIDE: Final = re.compile(
    rf"(?:{VIEWS})?{METADATA_PREFIX}(?:manifests|covers)/"
    rf"|{RESULTS}{_ID}/(?:{DATA_PREFIX}|{METADATA_PREFIX}(?:manifests/)?)?"
)
_TEMPORARY: Final = re.compile(r"(.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)
_NUMBER_MAX: Final = 2**63 - 1


class SegmentName(msgspec.Struct, frozen=True):
    """The content of a segment file's name: write id, partition, attempt and number."""

    write_id: str
    partition: int
    attempt: int
    number: int

    def __str__(self) -> str:
        return f"data/{self.write_id}-{self.partition}-{self.attempt}-{self.number}.pseg"


def new_write_id() -> str:
    """Return a random id for one logical commit: 32 lower-case hexadecimal digits."""
    return uuid.uuid4().hex


def check_write_id(write_id: str) -> str:
    """Return `write_id`, or raise InvalidInputError if `new_write_id` could not have made it."""
    if re.fullmatch(_ID, write_id) is None:
        raise InvalidInputError(
            "PROJSEG_BAD_WRITE_ID",
            f"write id {write_id[:80]!r} is not 32 lower-case hexadecimal digits",
        )
    return write_id


def segment_name(write_id: str, partition: int, attempt: int, number: int) -> str:
    """Return the name of the `number`-th segment file of one attempt at one partition."""
    check_write_id(write_id)
    for value in (partition, attempt, number):
        if not 0 <= value <= _NUMBER_MAX:
            raise InvalidInputError(
                "PROJSEG_BAD_FILE_NAME", f"{value} cannot be part of a segment file's name"
            )
    return str(SegmentName(write_id, partition, attempt, number))


def prefix_of_write(write_id: str) -> str:
    """Return the beginning of the names of all files that one commit adds to `data/`."""
    return f"{DATA_PREFIX}{check_write_id(write_id)}-"


def parse_segment_name(name: str) -> SegmentName | None:
    """Return the parts of a segment file's name, or None if `segment_name` cannot have made it."""
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return None
    parsed = SegmentName(match[1], int(match[2]), int(match[3]), int(match[4]))
    largest = max(parsed.partition, parsed.attempt, parsed.number)
    return parsed if largest <= _NUMBER_MAX else None


def new_vector_name(write_id: str) -> str:
    """Return a name never used before for a file of deleted rows that a commit adds."""
    return f"data/{check_write_id(write_id)}-{uuid.uuid4().hex}.pdel"


def parse_vector_name(name: str) -> str | None:
    """Return the write id in the name of a file of deleted rows, or None if it is no such name."""
    match = _VECTOR.fullmatch(name)
    return None if match is None else match[1]


def new_bloom_name(write_id: str) -> str:
    """Return a name never used before for a Bloom file that a commit adds."""
    return f"data/{check_write_id(write_id)}-{uuid.uuid4().hex}.pblm"


def parse_bloom_name(name: str) -> str | None:
    """Return the write id in the name of a Bloom file, or None if it is no such name."""
    match = _BLOOM.fullmatch(name)
    return None if match is None else match[1]


def snapshot_name(version: int) -> str:
    """Return the name of the snapshot file of one table version."""
    return f"_projseg/{version:020d}.json"


def parse_snapshot_name(name: str) -> int | None:
    """Return the version a snapshot file's name states, or None if it is no such name."""
    match = _SNAPSHOT.fullmatch(name)
    return None if match is None else int(match[1])


def kept_name(version: int) -> str:
    """Return the name of the copy that a tagged version leaves when it leaves the log."""
    return f"_projseg/kept-{version:020d}.json"


def parse_kept_name(name: str) -> int | None:
    """Return the version that a file is a copy of, or None if it has no such name."""
    match = _KEPT.fullmatch(name)
    return None if match is None else int(match[1])


def new_manifest_name() -> str:
    """Return a manifest name never used before."""
    return f"_projseg/manifests/{uuid.uuid4().hex}.json"


def new_cover_name() -> str:
    """Return a name never used before for a list of the segments that a part stands for."""
    return f"{COVER_PREFIX}{uuid.uuid4().hex}.json"


def result_folder(cover: str) -> str:
    """Return the folder in a store with the table of a stored result, by the name of its cover."""
    return f"{RESULTS.removeprefix(VIEWS)}{cover.rpartition('/')[2].removesuffix('.json')}"


def is_cover_name(name: str) -> bool:
    """Whether `new_cover_name` could have made the name."""
    return _COVER.fullmatch(name) is not None


def is_manifest_name(name: str) -> bool:
    """Whether `new_manifest_name` could have made the name."""
    return _MANIFEST.fullmatch(name) is not None


def new_probe_name() -> str:
    """Return a name for the file that tests the storage's conditional create."""
    return f"_projseg/probe-{uuid.uuid4().hex}"


def is_probe_name(name: str) -> bool:
    """Whether `new_probe_name` could have made the name."""
    return _PROBE.fullmatch(name) is not None


def temporary_name(name: str) -> str:
    """Return a fresh name to write to before `name` is published."""
    return f"{name}.{os.urandom(8).hex()}.tmp"


def is_temporary(name: str) -> bool:
    """Whether the name is one that `temporary_name` makes from a name of ours."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and _is_published_name(match[1])


def is_own_name(name: str) -> bool:
    """Whether this module could have made the name, temporary ones included."""
    return _is_published_name(name) or is_temporary(name)


def _is_published_name(name: str) -> bool:
    name = _RESULT.sub("", name, count=1) if name.startswith(RESULTS) else name.removeprefix(VIEWS)
    if parse_segment_name(name) is not None:
        return True
    patterns = (_VECTOR, _BLOOM, _SNAPSHOT, _MANIFEST, _COVER, _KEPT, _PROBE)
    return any(pattern.fullmatch(name) for pattern in patterns)


def check_name(name: str) -> str:
    """Return `name`, or raise InvalidInputError if it is not the name of a table's file."""
    if not is_own_name(name):
        raise InvalidInputError(
            "PROJSEG_BAD_FILE_NAME",
            f"{name[:200]!r} is not a name of a file of a projseg table; only files that projseg "
            "named itself are read, listed or deleted",
        )
    return name


def is_listed_inside(folder: str) -> bool:
    """Whether a folder is listed with the one that it lies in; a name with its last slash."""
    return _LISTED_INSIDE.fullmatch(folder) is not None


def check_prefix(prefix: str) -> str:
    """Return `prefix`, or raise InvalidInputError if it is not one of this module's prefixes."""
    inner = prefix.removeprefix(VIEWS)
    if inner not in _PREFIXES and _OF_WRITE.fullmatch(inner) is None:
        raise InvalidInputError(
            "PROJSEG_BAD_FILE_NAME",
            f"{prefix[:200]!r} is not a prefix of a projseg table; use one of {sorted(_PREFIXES)}, "
            "or what prefix_of_write returns",
        )
    return prefix
