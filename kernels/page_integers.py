"""Decode the integers of many small pages in one call. SPEC.md section 6.

A page of a few hundred rows is decoded sooner than Python looks at its header. A page that breaks a
rule is left out: whoever decodes it alone says which one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.integer_codes import _accumulate
from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import read_only, word_at

CONTENT_MARGIN: Final = 8
"""Bytes after the last page, which are read and not used."""

_U = np.uint64
_ALL: Final = _U(2**64 - 1)
_LOW_HALF: Final = _U(2**32 - 1)
_CONSTANT, _FRAME, _PACKED, _PATCHED, _DELTA, _SCALED, _RUNS = range(1, 8)
_HEADER_WORDS: Final = (0, 1, 2, 2, 2, 3)
_ROWS_MAX: Final = 65_536
_WORD: Final = 8
_BAD: Final = -1


def decode_integer_pages(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    encodings: NDArray[np.int64],
    row_starts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the integers of all pages, and where each page ends: (int64[rows], int64[pages]).

    Each page, which has a row, begins at its entry of `starts` and passes no entry of `ends`;
    `CONTENT_MARGIN` bytes follow the last. An end of -1 marks a page that is malformed or whose
    encoding is not one of integers; its values have no meaning.
    """
    counts = np.diff(row_starts)
    in_bounds = (starts >= 0) & (starts <= ends) & (ends <= len(content) - CONTENT_MARGIN)
    fits = len(starts) == len(ends) == len(encodings) == len(counts) and int(row_starts[0]) == 0
    if not fits or not in_bounds.all() or (counts < 1).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "pages lie outside their content")
    out, stops = np.empty(int(row_starts[-1]), np.int64), np.empty(len(starts), np.int64)
    scratch = np.empty((2, int(counts.max(initial=0))), np.int64)
    _decode_pages(read_only(content), starts, ends, encodings, row_starts, scratch, out, stops)
    return out, stops


@kernel
def _decode_pages(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    encodings: NDArray[np.int64],
    row_starts: NDArray[np.int64],
    scratch: NDArray[np.int64],
    out: NDArray[np.int64],
    stops: NDArray[np.int64],
) -> None:
    """Write the integers of each page, and where it ends, or -1.

    Shapes: content [bytes]; starts, ends, encodings, stops [n]; row_starts [n + 1];
    scratch [2, most rows of a page]; out [rows].
    Oracle: projseg.segment_format.encodings.encoding_table.INTEGER_ENCODINGS.
    """
    for page in range(len(starts)):
        rows = out[row_starts[page] : row_starts[page + 1]]
        if encodings[page] == _RUNS:
            stops[page] = _runs(content, starts[page], ends[page], scratch[0], scratch[1], rows)
        else:
            stops[page] = _scaled(content, starts[page], ends[page], encodings[page], rows)


@inlined_kernel
def _padded(content: NDArray[np.uint8], start: int, size: int, end: int) -> Any:
    """Return where an array and its padding end; -1: outside, or the padding is not zero.

    Shapes: content [bytes].
    Part of: `_unpack`.
    """
    stop = start + size
    padded = stop + -size % _WORD
    if padded > end:
        return _BAD
    for place in range(stop, padded):
        if content[place] != 0:
            return _BAD
    return padded


@kernel
def _unpack(
    content: NDArray[np.uint8],
    start: int,
    end: int,
    width: int,
    addend: np.int64,
    out: NDArray[np.int64],
) -> int:
    """Write packed values plus an addend; return where they end.

    Shapes: content [bytes]; out [n].
    Part of: `_flat`.
    """
    if width == 0:
        out[:] = addend
        return start
    count = len(out)
    bits = 32 if width <= 32 else 64
    lanes = (count + bits - 1) // bits
    stop = _padded(content, start, lanes * width * bits // 8, end)
    if stop < 0:
        return _BAD
    mask = _ALL >> _U(64 - width)
    for row in range(bits):
        first_row = row * lanes
        length = min(lanes, count - first_row)
        first = start + row * width // bits * lanes * bits // 8
        shift = row * width % bits
        for lane in range(length):
            place = first + lane * bits // 8
            value = word_at(content, _U(place))
            if bits == 32:
                value &= _LOW_HALF
            value >>= _U(shift)
            if shift + width > bits:
                value |= word_at(content, _U(place + lanes * bits // 8)) << _U(bits - shift)
            out[first_row + lane] = np.int64(value & mask) + addend
    return int(stop)


@kernel
def _patch(
    content: NDArray[np.uint8],
    start: int,
    end: int,
    count: int,
    value_bytes: int,
    reference: np.int64,
    out: NDArray[np.int64],
) -> int:
    """Write exceptions plus a reference over other values; return where they end.

    Shapes: content [bytes]; out [n].
    Part of: `_flat`.
    """
    if value_bytes not in (1, 2, 4, 8) or not count <= len(out) <= _ROWS_MAX:
        return _BAD
    values = _padded(content, start, 2 * count, end)
    stop = _BAD if values < 0 else _padded(content, values, value_bytes * count, end)
    mask = _ALL >> _U(64 - 8 * value_bytes)
    before = np.int64(-1)
    for number in range(count if stop >= 0 else 0):
        place = np.int64(word_at(content, _U(start + 2 * number)) & _U(0xFFFF))
        if not before < place < len(out):
            return _BAD
        value = word_at(content, _U(values + value_bytes * number)) & mask
        out[place] = np.int64(value) + reference
        before = place
    return int(stop)


@kernel
def _framed(
    content: NDArray[np.uint8],
    start: int,
    end: int,
    width: int,
    reference: np.int64,
    out: NDArray[np.int64],
) -> int:
    """Write values of whole bytes plus a reference; return where they end.

    Shapes: content [bytes]; out [n].
    Part of: `_flat`.
    """
    if width not in (1, 2, 4, 8):
        return _BAD
    stop = _padded(content, start, width * len(out), end)
    mask = _ALL >> _U(64 - 8 * width)
    for row in range(len(out) if stop >= 0 else 0):
        out[row] = np.int64(word_at(content, _U(start + width * row)) & mask) + reference
    return int(stop)


@kernel
def _flat(
    content: NDArray[np.uint8], start: int, end: int, encoding: int, out: NDArray[np.int64]
) -> int:
    """Write the integers of an encoding without parts; return where they end.

    Shapes: content [bytes]; out [n].
    Part of: `_scaled`.
    """
    header_words = _HEADER_WORDS[encoding if _CONSTANT <= encoding <= _DELTA else 0]
    stop = start + header_words * _WORD
    if stop > end or header_words == 0:
        return _BAD
    reference = np.int64(word_at(content, _U(start)))
    facts = word_at(content, _U(stop - _WORD))
    addend, width, others = reference, np.int64(facts & _LOW_HALF), facts >> _U(32)
    if encoding == _CONSTANT:
        width, others = np.int64(0), _U(0)
    elif encoding == _PATCHED:
        width, others = np.int64(others & _U(0xFFFF)), facts >> _U(56)
    elif encoding == _DELTA:
        addend = np.int64(word_at(content, _U(start + _WORD)))
    if others != _U(0) or width > 64 or (width == 0 and _FRAME <= encoding <= _PATCHED):
        stop = _BAD
    elif encoding == _FRAME:
        stop = _framed(content, stop, end, width, reference, out)
    else:
        stop = _unpack(content, stop, end, width, addend, out)
    if stop < 0:
        return _BAD
    if encoding == _PATCHED:
        count, value_bytes = np.int64(facts & _LOW_HALF), np.int64(facts >> _U(48) & _U(0xFF))
        stop = _patch(content, stop, end, count, value_bytes, reference, out)
    if encoding == _DELTA:
        out[0] = reference
        _accumulate(out)
    return int(stop)


@kernel
def _scaled(
    content: NDArray[np.uint8], start: int, end: int, encoding: int, out: NDArray[np.int64]
) -> int:
    """Write the integers of an encoding other than of runs; return where they end.

    Shapes: content [bytes]; out [n].
    Part of: `_decode_pages`.
    """
    if encoding != _SCALED:
        return int(_flat(content, start, end, encoding, out))
    body = start + 3 * _WORD
    if body > end:
        return _BAD
    reference = np.int64(word_at(content, _U(start)))
    factor = word_at(content, _U(start + _WORD))
    inner = word_at(content, _U(start + 2 * _WORD))
    if inner >> _U(32) != _U(0):
        return _BAD
    stop = _flat(content, body, end, np.int64(inner), out)
    for row in range(len(out) if stop >= 0 else 0):
        out[row] = np.int64(_U(out[row]) * factor) + reference
    return int(stop)


@kernel
def _runs(
    content: NDArray[np.uint8],
    start: int,
    end: int,
    lengths: NDArray[np.int64],
    values: NDArray[np.int64],
    out: NDArray[np.int64],
) -> int:
    """Write each value as often as its run is long; return where they end.

    Shapes: content [bytes]; lengths, values [most rows of a page]; out [n].
    Part of: `_decode_pages`.
    """
    body = start + _WORD
    if body > end:
        return _BAD
    facts = word_at(content, _U(start))
    count = np.int64(facts & _LOW_HALF)
    if not 1 <= count <= len(out):
        return _BAD
    of_lengths, of_values = np.int64(facts >> _U(32) & _U(0xFFFF)), np.int64(facts >> _U(48))
    at = _scaled(content, body, end, of_lengths, lengths[:count])
    stop = _BAD if at < 0 else _scaled(content, at, end, of_values, values[:count])
    filled = 0
    for run in range(count if stop >= 0 else 0):
        length = lengths[run]
        if not 1 <= length <= len(out) - filled:
            return _BAD
        for row in range(filled, filled + length):
            out[row] = values[run]
        filled += length
    return int(stop) if filled == len(out) else _BAD
