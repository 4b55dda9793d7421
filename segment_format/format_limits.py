"""Every maximum of the segment format, each with its reason. SPEC.md section 9.

A limit is checked when writing and again when reading, before anything is allocated.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from projseg.errors import InvalidInputError, LimitExceededError

SEGMENT_BYTES_MAX: Final = 4 * 2**30  # a segment is a unit of rebuilding; cut tables into more
FOOTER_BYTES_MAX: Final = 64 * 2**20  # read and decoded whole when a file is opened
SEGMENT_ROWS_MAX: Final = 2**32 - 1  # row ids are 32 bits wide
PAGE_ROWS_MAX: Final = 65_536  # one Roaring container of row ids
PAGE_RAW_BYTES_MAX: Final = 17 * 2**20  # one value of the largest size, with its headers
VALUE_BYTES_MAX: Final = 16 * 2**20  # a text, binary or sketch value
DICTIONARY_VALUES_MAX: Final = 16_777_216  # beyond it ids cost as much as the values
DICTIONARY_BYTES_MAX: Final = 2**30  # text of one dictionary: Arrow's 32-bit offsets hold it
COLUMNS_MAX: Final = 4_096  # of one table of a segment
PROJECTIONS_MAX: Final = 64  # tables beside the base table
PARTS_MAX: Final = 1_000_000  # pages, index blocks and other parts of one file
NAME_BYTES_MAX: Final = 255  # UTF-8 bytes of a column's, dictionary's or projection's name
LIST_ITEMS_MAX: Final = 4_194_304  # of one level of a page: items may cost no bytes
NESTED_VALUES_MAX: Final = 16_777_216  # of all levels of a page
NESTING_DEPTH_MAX: Final = 32  # of arrays, structs and maps in one type
DELETED_ROWS_MAX: Final = 16_777_216  # of one segment: their row ids take 64 MiB in memory
VECTOR_BYTES_MAX: Final = 50_331_648  # of one deletion vector: so many rows take fewer bytes
BLOOM_FILE_BYTES_MAX: Final = 4 * 2**30  # a Bloom file: read by pages, and merged by stripes
BLOOM_SEGMENTS_MAX: Final = 4_096  # segments of one Bloom file: a key is 128 KiB at most
BLOOM_BLOCKS_MAX: Final = 4_194_304  # of one segment's filter: 128 MiB in memory
BLOOM_FOOTER_BYTES_MAX: Final = 4 * 2**20  # decoded whole: so many segments take fewer
POSTINGS_ROWS_MAX: Final = 2**31 - 1  # pairs of a key and a value, of one definition
EXPANSION_MAX: Final = 64  # dictionaries are held whole: so many times the bytes of their file
EXPANDED_BYTES_MAX: Final = 67_108_864  # or so many bytes, where that is more


def expanded_bytes_max(file_bytes: int) -> int:
    """Return the limit on the memory of all dictionaries of a file of `file_bytes`."""
    return max(EXPANDED_BYTES_MAX, EXPANSION_MAX * file_bytes)


def require_limit(name: str, value: int, maximum: int) -> None:
    """Refuse a size beyond its limit."""
    if value > maximum:
        raise LimitExceededError(
            "PROJSEG_LIMIT_EXCEEDED", f"{name} is {value}; the limit is {maximum}"
        )


def check_new_name(what: str, name: object) -> None:
    """Refuse a name for a new projection, index or view; older ones keep theirs."""
    problem = name_problem(name) if isinstance(name, str) else "is no text"
    if problem is None and isinstance(name, str):
        if name in (".", "..") or "/" in name or "\\" in name:
            problem = "reads as a path; give one without '/' and '\\' that is not only dots"
        elif name != name.strip() or not name.isprintable():
            problem = "has a space at an end, or a character that is not shown; leave it out"
    if problem is not None:
        raise InvalidInputError("PROJSEG_BAD_NAME", f"{what} name {str(name)[:80]!r} {problem}")


def name_key(name: str) -> str:
    """Return a key that two names of columns or fields share if Spark takes them for one.

    Lower case alone decides, so `straße` and `strasse` are two names.
    """
    return name.lower()


def name_problem(name: str) -> str | None:
    """Return why a name may not be stored, or None if it may."""
    if not name:
        return "is empty"
    is_plain = name.isascii() and name.isprintable()
    if not is_plain and any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "has a control character or a lone surrogate"
    byte_count = len(name.encode())
    if byte_count > NAME_BYTES_MAX:
        return f"has {byte_count} bytes of UTF-8; at most {NAME_BYTES_MAX} are allowed"
    if is_plain:
        return None
    return None if unicodedata.is_normalized("NFC", name) else "is not in Unicode form NFC"
