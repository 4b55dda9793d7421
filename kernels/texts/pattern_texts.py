"""Find the texts that hold what a pattern of their row matches, without a program for each pattern.

Patterns are those of `java.util.regex` that are made of characters, sets, groups, choices and `*`,
`+` and `?`, and may begin with `^` and end with `$`; others are left. A pattern becomes an
automaton with a state for each place where it takes a character.
After: V. M. Glushkov, The Abstract Theory of Automata.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.kernels.texts.text_parts import Texts, step_of
from projseg.kernels.texts.text_words import character_at
from projseg.memory.memory_pool import zeros

_U = np.uint64
_STATES_MAX: Final = 63
_SPANS_MAX: Final = 256
_SPANS_OF_A_SET: Final = 5  # the most that an escape stands for, and one that follows
_DEPTH_MAX: Final = 16
_FIRST, _LAST, _OTHER_FIRST, _OTHER_LAST, _EMPTY, _OTHER_EMPTY = range(6)


def matching_pairs(
    texts: Texts, patterns: Texts, valid: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which texts hold a match of the pattern of their row, and the rows that are left.

    Rows that are not valid hold none, and are not left.
    """
    texts, patterns = checked_texts(*texts), checked_texts(*patterns)
    found, left = zeros(len(valid), np.bool_), zeros(len(valid), np.bool_)
    _match_patterns(
        *texts,
        *patterns,
        read_only(valid),
        np.zeros(_STATES_MAX, _U),
        np.zeros((_STATES_MAX + 1, 2), np.int64),
        np.zeros((_SPANS_MAX, 2), np.int64),
        np.zeros((_DEPTH_MAX + 1, 6), _U),
        found,
        left,
    )
    return found, left


@inlined_kernel
def _add_span(spans: NDArray[np.int64], count: np.int64, low: int, high: int) -> Any:
    """Add characters from one to another to a set, and return how many spans there are.

    Shapes: spans [r, 2].
    Part of: `_read_escape`.
    """
    spans[count, 0] = low
    spans[count, 1] = high
    return count + 1


@kernel
def _read_escape(code: np.int64, spans: NDArray[np.int64], count: np.int64) -> Any:
    """Add what a backslash and a character stand for; return how many spans there are, or -1.

    Shapes: spans [r, 2].
    Part of: `_read_member`.
    """
    if code == 100 or code == 119:  # noqa: PLR1714 - slow in Numba; d, w
        count = _add_span(spans, count, 48, 57)
        if code == 119:
            count = _add_span(spans, count, 65, 90)
            count = _add_span(spans, count, 95, 95)
            count = _add_span(spans, count, 97, 122)
        return count
    if code == 115:  # s
        count = _add_span(spans, count, 9, 13)
        return _add_span(spans, count, 32, 32)
    is_letter = 97 <= (code | 32) <= 122
    if code >= 128 or is_letter or 48 <= code <= 57:
        return np.int64(-1)
    return _add_span(spans, count, code, code)


@inlined_kernel
def _is_sign(code: np.int64, is_member: bool) -> Any:
    r"""Whether a character has a meaning of its own in a pattern, or in a set of it.

    Part of: `_read_member`.
    """
    if is_member:  # & - [ \ ] ^
        return code == 38 or code == 45 or 91 <= code <= 94  # noqa: PLR1714 - slow in Numba
    is_group = code == 36 or 40 <= code <= 43  # $ ( ) * +
    is_any = code == 46 or code == 63  # noqa: PLR1714 - slow in Numba; . ?
    return is_group or is_any or 91 <= code <= 94 or 123 <= code <= 125


@inlined_kernel
def _read_member(
    patterns: NDArray[np.uint8],
    at: np.int64,
    end: np.int64,
    spans: NDArray[np.int64],
    count: np.int64,
    is_member: bool,
) -> Any:
    r"""Read a character, an escape or, within a set, a span; return the place after it, or -1.

    The last span's number is returned times 2^32 besides.

    Shapes: patterns [bytes]; spans [r, 2].
    Part of: `_read_set`.
    """
    character = character_at(patterns, at, end)
    at, code = at + (character >> 32), character & 0xFFFFFFFF
    if code == 92:
        if at >= end:
            return np.int64(-1)
        count = _read_escape(np.int64(patterns[at]), spans, count)
        at += 1
        return np.int64(-1) if count < 0 else count << 32 | at
    if _is_sign(code, is_member):
        return np.int64(-1)
    last = code
    if is_member and at < end and patterns[at] == 45:
        if at + 1 >= end:
            return np.int64(-1)
        character = character_at(patterns, at + 1, end)
        at, last = at + 1 + (character >> 32), character & 0xFFFFFFFF
        if _is_sign(last, True) or last < code:
            return np.int64(-1)
    return _add_span(spans, count, code, last) << 32 | at


@kernel
def _read_set(
    patterns: NDArray[np.uint8],
    at: np.int64,
    end: np.int64,
    spans: NDArray[np.int64],
    sets: NDArray[np.int64],
    state: int,
) -> Any:
    """Read what a state takes, a character or one of a set; return the place after it, or -1.

    Shapes: patterns [bytes]; spans [r, 2]; sets [p + 1, 2].
    Part of: `_read_pattern`.
    """
    count = sets[state, 0]
    if state == _STATES_MAX or count + _SPANS_OF_A_SET > _SPANS_MAX:
        return np.int64(-1)
    sets[state, 1] = 0
    if patterns[at] == 46:  # .
        sets[state, 1] = 1
        count = _add_span(spans, count, 10, 10)
        count = _add_span(spans, count, 13, 13)
        count = _add_span(spans, count, 0x85, 0x85)
        sets[state + 1, 0] = _add_span(spans, count, 0x2028, 0x2029)
        return at + 1
    if patterns[at] == 92 and at + 1 < end and 65 <= patterns[at + 1] <= 90:
        sets[state, 1] = 1  # \D, \S, \W
        sets[state + 1, 0] = _read_escape(np.int64(patterns[at + 1]) | 32, spans, count)
        is_known = patterns[at + 1] in (68, 83, 87)
        return at + 2 if is_known else np.int64(-1)
    if patterns[at] != 91:  # [
        found = _read_member(patterns, at, end, spans, count, False)
        sets[state + 1, 0] = found >> 32
        return found & 0xFFFFFFFF if found >= 0 else np.int64(-1)
    at += 1
    if at < end and patterns[at] == 94:
        sets[state, 1] = 1
        at += 1
    begin = at
    while at < end and patterns[at] != 93:
        found = _read_member(patterns, at, end, spans, count, True)
        if found < 0 or (found >> 32) + _SPANS_OF_A_SET > _SPANS_MAX:
            return np.int64(-1)
        count, at = found >> 32, found & 0xFFFFFFFF
    sets[state + 1, 0] = count
    return np.int64(-1) if at >= end or at == begin else at + 1


@inlined_kernel
def _follow(follows: NDArray[np.uint64], states: np.uint64, next_states: np.uint64) -> None:
    """Let states come after others.

    Shapes: follows [p].
    Part of: `_append`.
    """
    state = 0
    while states:
        while states & _U(0xFF) == 0:
            states >>= _U(8)
            state += 8
        if states & _U(1):
            follows[state] |= next_states
        states >>= _U(1)
        state += 1


@inlined_kernel
def _close(frames: NDArray[np.uint64], depth: int) -> None:
    """Join what was read last to the other choices of a group.

    Shapes: frames [d, 6].
    Part of: `_read_pattern`.
    """
    frames[depth, _OTHER_FIRST] |= frames[depth, _FIRST]
    frames[depth, _OTHER_LAST] |= frames[depth, _LAST]
    frames[depth, _OTHER_EMPTY] |= frames[depth, _EMPTY]
    frames[depth, _FIRST] = _U(0)
    frames[depth, _LAST] = _U(0)
    frames[depth, _EMPTY] = _U(1)


@inlined_kernel
def _open(frames: NDArray[np.uint64], depth: int) -> None:
    """Begin a group.

    Shapes: frames [d, 6].
    Part of: `_read_pattern`.
    """
    frames[depth, :] = _U(0)
    frames[depth, _EMPTY] = _U(1)


@inlined_kernel
def _group_begin(patterns: NDArray[np.uint8], at: np.int64, end: np.int64) -> Any:
    """Return the place after an opening bracket, or -1 if it is of a group of another kind.

    Shapes: patterns [bytes].
    Part of: `_read_pattern`.
    """
    if at + 1 < end and patterns[at + 1] == 63:
        is_plain = at + 2 < end and patterns[at + 2] == 58
        return at + 3 if is_plain else np.int64(-1)
    return at + 1


@inlined_kernel
def _quantifier(patterns: NDArray[np.uint8], at: np.int64, end: np.int64) -> Any:
    """Return *, + or ? at a place, 0 if there is none, or -1 for what is no plain quantifier.

    Shapes: patterns [bytes].
    Part of: `_read_pattern`.
    """
    if at >= end:
        return np.int64(0)
    sign = np.int64(patterns[at])
    if sign == 123:
        return np.int64(-1)
    if sign != 63 and not 42 <= sign <= 43:
        return np.int64(0)
    if at + 1 < end and (42 <= patterns[at + 1] <= 43 or patterns[at + 1] in (63, 123)):
        return np.int64(-1)
    return sign


@inlined_kernel
def _append(
    frames: NDArray[np.uint64],
    follows: NDArray[np.uint64],
    depth: int,
    first: np.uint64,
    last: np.uint64,
    is_empty: np.uint64,
    sign: np.int64,
) -> None:
    """Put a part and its quantifier after what was read of a group.

    Shapes: frames [d, 6]; follows [p].
    Part of: `_read_pattern`.
    """
    if sign == 42 or sign == 43:  # noqa: PLR1714 - slow in Numba; *, +
        _follow(follows, last, first)
    if sign == 42 or sign == 63:  # noqa: PLR1714 - slow in Numba; *, ?
        is_empty = _U(1)
    _follow(follows, frames[depth, _LAST], first)
    if frames[depth, _EMPTY]:
        frames[depth, _FIRST] |= first
    frames[depth, _LAST] = last | frames[depth, _LAST] if is_empty else last
    frames[depth, _EMPTY] &= is_empty


@kernel
def _read_pattern(
    patterns: NDArray[np.uint8],
    at: np.int64,
    end: np.int64,
    is_bound: bool,
    follows: NDArray[np.uint64],
    sets: NDArray[np.int64],
    spans: NDArray[np.int64],
    frames: NDArray[np.uint64],
) -> Any:
    """Make the automaton of a pattern without anchors; whether it is one of these.

    A pattern that is bound has an anchor, which would not bind all of its choices.

    Shapes: patterns [bytes]; follows [p]; sets [p + 1, 2]; spans [r, 2]; frames [d, 6].
    Part of: `_match_patterns`.
    """
    count = depth = 0
    _open(frames, 0)
    while at < end:
        byte = patterns[at]
        if byte == 40:
            at, depth = _group_begin(patterns, at, end), depth + 1
            if at < 0 or depth > _DEPTH_MAX:
                return False
            _open(frames, depth)
            continue
        if byte == 124:
            if is_bound and depth == 0:
                return False
            _close(frames, depth)
            at += 1
            continue
        if byte == 41:
            if depth == 0:
                return False
            _close(frames, depth)
            first, last = frames[depth, _OTHER_FIRST], frames[depth, _OTHER_LAST]
            is_empty = frames[depth, _OTHER_EMPTY]
            at, depth = at + 1, depth - 1
        else:
            at = _read_set(patterns, at, end, spans, sets, count)
            if at < 0:
                return False
            first = last = _U(1) << _U(count)
            is_empty = _U(0)
            follows[count] = _U(0)
            count += 1
        sign = _quantifier(patterns, at, end)
        if sign < 0:
            return False
        at += sign > 0
        _append(frames, follows, depth, first, last, is_empty, sign)
    _close(frames, 0)
    return depth == 0


@inlined_kernel
def _takes(sets: NDArray[np.int64], spans: NDArray[np.int64], state: int, code: np.int64) -> Any:
    """Whether a state takes a character.

    Shapes: sets [p + 1, 2]; spans [r, 2].
    Part of: `_next_states`.
    """
    for place in range(sets[state, 0], sets[state + 1, 0]):
        if spans[place, 0] <= code <= spans[place, 1]:
            return sets[state, 1] == 0
    return sets[state, 1] != 0


@inlined_kernel
def _next_states(
    follows: NDArray[np.uint64],
    sets: NDArray[np.int64],
    spans: NDArray[np.int64],
    states: np.uint64,
    first: np.uint64,
    code: np.int64,
) -> np.uint64:
    """Return the states after a character.

    Shapes: follows [p]; sets [p + 1, 2]; spans [r, 2].
    Part of: `_holds_match`.
    """
    able, state = first, 0
    while states:
        while states & _U(0xFF) == 0:
            states >>= _U(8)
            state += 8
        if states & _U(1):
            able |= follows[state]
        states >>= _U(1)
        state += 1
    state = 0
    while able:
        while able & _U(0xFF) == 0:
            able >>= _U(8)
            state += 8
        if able & _U(1) and _takes(sets, spans, state, code):
            states |= _U(1) << _U(state)
        able >>= _U(1)
        state += 1
    return states


@inlined_kernel
def _is_at_end(content: NDArray[np.uint8], start: np.int64, at: np.int64, end: np.int64) -> Any:
    """Whether nothing but the end of a line is left of a text.

    Shapes: content [bytes].
    Part of: `_holds_match`.
    """
    left = end - at
    if left == 0:
        return True
    first = content[at]
    if left == 1:
        is_within = at > start and content[at - 1] == 13
        return first == 13 or (first == 10 and not is_within)
    second = content[at + 1]
    if left == 2:
        return (first == 13 and second == 10) or (first == 0xC2 and second == 0x85)
    is_line = left == 3 and first == 0xE2 and second == 0x80
    return is_line and 0xA8 <= content[at + 2] <= 0xA9


@kernel
def _holds_match(
    content: NDArray[np.uint8],
    start: np.int64,
    end: np.int64,
    is_from_start: bool,
    is_to_end: bool,
    follows: NDArray[np.uint64],
    sets: NDArray[np.int64],
    spans: NDArray[np.int64],
    frames: NDArray[np.uint64],
) -> Any:
    """Whether a text holds a match of the automaton.

    Shapes: content [bytes]; follows [p]; sets [p + 1, 2]; spans [r, 2]; frames [d, 6].
    Part of: `_match_patterns`.
    """
    begins, lasts = frames[0, _OTHER_FIRST], frames[0, _OTHER_LAST]
    states, at = _U(0), start
    while True:
        may_begin = at == start or not is_from_start
        is_matched = states & lasts != 0 or (may_begin and frames[0, _OTHER_EMPTY] != 0)
        if is_matched and (not is_to_end or _is_at_end(content, start, at, end)):
            return True
        if at >= end or (states == 0 and not may_begin):
            return False
        character = character_at(content, at, end)
        first = begins if may_begin else _U(0)
        states = _next_states(follows, sets, spans, states, first, character & 0xFFFFFFFF)
        at += character >> 32


@inlined_kernel
def _is_escaped(patterns: NDArray[np.uint8], start: np.int64, at: np.int64) -> Any:
    """Whether an odd number of backslashes stands before a place.

    Shapes: patterns [bytes].
    Part of: `_match_patterns`.
    """
    before = at
    while before > start and patterns[before - 1] == 92:
        before -= 1
    return (at - before) % 2 == 1


@kernel
def _match_patterns(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    pattern_offsets: NDArray[np.int32],
    patterns: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    follows: NDArray[np.uint64],
    sets: NDArray[np.int64],
    spans: NDArray[np.int64],
    frames: NDArray[np.uint64],
    found: NDArray[np.bool_],
    left: NDArray[np.bool_],
) -> None:
    """Search each text for a match of its pattern, and mark the rows of other patterns.

    Shapes: offsets, pattern_offsets [1 or n, and 1]; content, patterns [bytes];
        valid, found, left [n]; follows [p]; sets [p + 1, 2]; spans [r, 2]; frames [d, 6].
    Oracle: tests/oracle/texts.py::rlike.
    """
    of_texts, of_patterns = step_of(len(offsets) - 1), step_of(len(pattern_offsets) - 1)
    for row in range(len(found)):
        if not valid[row]:
            continue
        at = np.int64(pattern_offsets[row * of_patterns])
        end = np.int64(pattern_offsets[row * of_patterns + 1])
        is_from_start = at < end and patterns[at] == 94
        at += is_from_start
        is_to_end = at < end and patterns[end - 1] == 36 and not _is_escaped(patterns, at, end - 1)
        end -= is_to_end
        is_bound = is_from_start or is_to_end
        if not _read_pattern(patterns, at, end, is_bound, follows, sets, spans, frames):
            left[row] = True
            continue
        start = np.int64(offsets[row * of_texts])
        stop = np.int64(offsets[row * of_texts + 1])
        found[row] = _holds_match(
            content, start, stop, is_from_start, is_to_end, follows, sets, spans, frames
        )
