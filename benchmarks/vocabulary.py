"""The distinct values of each generated text column, built from ranks alone.

A value is a function of its rank, so every run, block and machine agrees on it. Ranks are
scattered by an odd multiplier first: the frequent values are then spread over the alphabet instead
of standing at its beginning, which would flatter sorted dictionaries.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_WIKIS: Final = (
    "en de fr ru it ja vi es zh uk pt pl nl ar sv fa ko he hu ca cs fi no ro tr id el bg da sr hr "
    "sk lt et sl eu hy gl ms ce kk uz hi la th az simple be ur ta"
)
_DEVICES: Final = ("desktop", "mobile web", "android app", "ios app", "api")
_STARTS: Final = (
    "Al Bar Cor Dun El Fen Gar Hol Is Jor Kal Lin Mar Nor Or Pel Quin Ros Sal Tor Ul Vas Wil Yor "
    "Zan É Ö Św Žel Бо Ми 東"
)
_ENDINGS: Final = ("a", "by", "en", "ia", "is", "o", "ton", "ford")
_KINDS: Final = (
    "| album| band| bridge| castle| church| cup| district| election| film| (footballer)| novel"
    "| railway station| river| song| war"
)
_SCATTER: Final = np.uint64(0x9E3779B1)  # odd, so multiplying by it permutes the ranks


def channels() -> pa.Array:
    """Return the 50 channels, named as Wikipedia's recent-changes rooms are."""
    return pa.array([f"#{wiki}.wikipedia" for wiki in _WIKIS.split()])


def countries() -> pa.Array:
    """Return 200 distinct country names of 5 to 22 characters."""
    suffixes = pa.array(["", "", " Republic", " Islands", " Union", "", " Federation"])
    stems = _words(_scattered(200, bits=8))
    return _joined(stems, suffixes.take(pa.array(np.arange(200) % 7)))


def devices() -> pa.Array:
    """Return the 5 devices."""
    return pa.array(_DEVICES)


def pages() -> pa.Array:
    """Return 200,000 distinct page titles of about 20 characters, some of them not ASCII."""
    scattered = _scattered(200_000, bits=24)
    words = [_words((scattered >> np.uint64(shift)) & np.uint64(255)) for shift in (0, 8)]
    return _joined(words[0], " ", words[1], _title_ends().take(_ids(scattered >> np.uint64(16))))


def users() -> pa.Array:
    """Return 500,000 distinct users: names of about 13 characters, every fourth an IP address."""
    ranks = np.arange(500_000, dtype=np.uint64)
    scattered = _scattered(len(ranks), bits=24)
    names = _joined(
        _words(scattered & np.uint64(255)),
        _words((scattered >> np.uint64(8)) & np.uint64(255)),
        _numbers(scattered >> np.uint64(16)),
    )
    addresses = _addresses(scattered)
    return pc.if_else(pa.array(ranks % 4 == 3), addresses, names)


def _scattered(count: int, *, bits: int) -> NDArray[np.uint64]:
    """Return `count` distinct numbers below `2**bits`, in no visible order."""
    ranks = np.arange(count, dtype=np.uint64)
    return (ranks * _SCATTER) & np.uint64((1 << bits) - 1)


def _words(numbers: NDArray[np.uint64]) -> pa.Array:
    """Return the pseudo-word of each number below 256; different numbers, different words."""
    words = [start + ending for start in _STARTS.split() for ending in _ENDINGS]
    return pa.array(words).take(_ids(numbers))


def _title_ends() -> pa.Array:
    """Return 256 distinct endings of titles: a year, a kind, both, or nothing."""
    years = ["", *(f" {1880 + 9 * step}" for step in range(15))]
    return pa.array([f"{kind}{year}" for year in years for kind in _KINDS.split("|")])


def _addresses(numbers: NDArray[np.uint64]) -> pa.Array:
    octets = [_numbers((numbers >> np.uint64(shift)) & np.uint64(255)) for shift in (16, 8, 0)]
    return _joined("10.", octets[0], ".", octets[1], ".", octets[2])


def _numbers(numbers: NDArray[np.uint64]) -> pa.Array:
    return pa.array(numbers.astype(np.int64)).cast(pa.string())


def _ids(numbers: NDArray[np.uint64]) -> pa.Array:
    return pa.array(numbers.astype(np.int32))


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate row by row."""
    return pc.binary_join_element_wise(*parts, "")
