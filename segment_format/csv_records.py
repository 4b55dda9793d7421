"""Where the records of CSV end: lines, but those within quotes, as Arrow's reader has them.

A quote character counts as a quote only at the beginning of a value. A record over several lines
has as many values as others, and nothing behind a closing quote; else its first line is bad, and
the next begins anew. So a quote that is left open costs a line, and not all that follow.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

OPEN_QUOTE: Final = "a quote is left open"
_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r|\Z")


class Records(NamedTuple):
    """Where each record of a text ends, behind its line's end, and which leave a quote open.

    `rest` is where text begins that may go on in the next block.
    """

    ends: NDArray[np.int64]
    bad: list[int]
    rest: int


def records(
    data: bytes, delimiter: str, quote: str, count: int | None, *, is_last: bool
) -> Records:
    """Return the records of some text that begins with one.

    A record has `count` values, None if that is not known yet; without `quote` none has a meaning.
    `is_last` says that no more text follows.
    """
    signs = np.frombuffer(data, np.uint8)
    ends = line_ends(data, signs)
    if not is_last:
        ends = ends[: -1 if len(ends) and data[-1] == _RETURN else None]
    if not quote or quote.encode() not in data:
        return _of_lines(ends, len(data), is_last)
    found = _regular(signs, ends, ord(quote), ord(delimiter), count)
    if found is None or (found.rest < len(data) and is_last):
        return _one_by_one(data, delimiter, quote, count, is_last=is_last)
    return found


def line_ends(data: bytes, signs: NDArray[np.uint8] | None = None) -> NDArray[np.int64]:
    """Return where lines end, each behind its last character."""
    found = np.frombuffer(data, np.uint8) if signs is None else signs
    is_end = found == _NEWLINE
    if b"\r" in data:
        alone = found == _RETURN
        alone[:-1] &= found[1:] != _NEWLINE
        is_end |= alone
    return np.flatnonzero(is_end) + 1


def _of_lines(ends: NDArray[np.int64], length: int, is_last: bool) -> Records:
    last = int(ends[-1]) if len(ends) else 0
    if is_last and last < length:
        return Records(np.append(ends, length), [], length)
    return Records(ends, [], last)


def _regular(
    signs: NDArray[np.uint8], ends: NDArray[np.int64], quote: int, delimiter: int, count: int | None
) -> Records | None:
    """Return records where each quote opens or closes a whole value; None where one does not.

    Then a place is outside of quotes if an even number of them precedes it. A doubled quote closes
    and opens.
    """
    places = np.flatnonzero(signs == quote)
    opening, closing = places[::2], places[1::2]
    breaks = (delimiter, _NEWLINE, _RETURN, quote)
    starts = np.isin(signs[opening - 1], breaks) | (opening == 0)
    stops = np.isin(signs[np.minimum(closing + 1, len(signs) - 1)], breaks)
    if not starts.all() or not (stops | (closing == len(signs) - 1)).all():
        return None
    is_outside = np.searchsorted(places, ends) % 2 == 0
    kept = ends[is_outside]
    rest = int(kept[-1]) if len(kept) else 0
    if count is not None and len(kept) < np.searchsorted(ends, rest, "right"):
        commas = np.flatnonzero(signs[:rest] == delimiter)
        commas = commas[np.searchsorted(places, commas) % 2 == 0]
        values = np.diff(np.searchsorted(commas, np.concatenate(([0], kept)))) + 1
        lines = np.diff(np.searchsorted(ends, np.concatenate(([0], kept)), "right"))
        if ((lines > 1) & (values != count)).any():
            return None
    return Records(kept, [], rest)


class _Patterns(NamedTuple):
    """A record in one line, one over several lines, a value of it, and one that is open."""

    line: re.Pattern[bytes]
    record: re.Pattern[bytes]
    value: re.Pattern[bytes]
    opened: re.Pattern[bytes]


@lru_cache(maxsize=16)
def _patterns(delimiter: str, quote: str) -> _Patterns:
    d, q = re.escape(delimiter.encode()), re.escape(quote.encode())
    plain = rb"[^" + d + q + rb"\r\n][^" + d + rb"\r\n]*+|"
    within = q + rb"(?:[^" + q + rb"\r\n]++|" + q + q + rb")*+" + q
    loose = rb"(?:" + within + rb"(?!" + q + rb")[^" + d + rb"\r\n]*+|" + plain + rb")"
    opened = q + rb"(?:[^" + q + rb"]++|" + q + q + rb")*+"
    strict = rb"(?:" + opened + q + rb"(?=[" + d + rb"\r\n]|\Z)|" + plain + rb")"
    end = rb"(?:\r\n|\n|\r|\Z)"
    texts = (
        loose + rb"(?:" + d + loose + rb")*+" + end,
        strict + rb"(?:" + d + strict + rb")*+" + end,
        strict,
        rb"(?:" + strict + d + rb")*+" + opened + rb"\Z",
    )
    return _Patterns(*map(re.compile, texts))


def _one_by_one(
    data: bytes, delimiter: str, quote: str, count: int | None, *, is_last: bool
) -> Records:
    patterns = _patterns(delimiter, quote)
    ends: list[int] = []
    bad: list[int] = []
    place = 0
    while place < len(data):
        found = patterns.line.match(data, place)
        if found is None and not is_last and patterns.opened.match(data, place):
            break
        if found is None:
            found = patterns.record.match(data, place)
            if found and count not in (None, _value_count(data, place, delimiter, patterns.value)):
                found = None
        if found is None:
            bad.append(len(ends))
            found = _LINE_END.search(data, place)
        end = len(data) if found is None else found.end()
        if end == len(data) and not is_last and not data.endswith(b"\n"):
            bad = bad[:-1] if bad[-1:] == [len(ends)] else bad
            break
        ends.append(end)
        place = end
    return Records(np.array(ends, np.int64), bad, place)


def _value_count(data: bytes, place: int, delimiter: str, value: re.Pattern[bytes]) -> int:
    count, sign = 1, delimiter.encode()
    while (found := value.match(data, place)) and data[found.end() : found.end() + 1] == sign:
        count, place = count + 1, found.end() + 1
    return count
