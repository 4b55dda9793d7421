"""Sizes in bytes as people write them: `4G`, `512M`, `65536`."""

from __future__ import annotations

import re
from typing import Final

from projseg.errors import InvalidInputError

_SIZE: Final = re.compile(r"(\d{1,18})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_byte_count(text: str, name: str) -> int:
    """Return the bytes that a text such as `4G` means; suffixes are powers of 1024.

    Parameters
    ----------
    text : str
        Digits, then nothing or K, M, G or T, then nothing, B or iB, in any case.
    name : str
        The setting it is the value of, for the error.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION, if it is no such text.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"{name} is {text[:80]!r}; it takes a number of bytes, such as 4294967296, 4G or 512M",
        )
    return int(found[1]) << _SHIFTS[found[2].upper()]
