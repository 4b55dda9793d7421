"""The exact matcher, which runs a program over a text in Java's order of search.

A text is read as Java reads it, in UTF-16 units: a pair of surrogates is one character, except to a
search that begins between them. A step that failed at a position is not tried there again, so only
back references can make a search take longer than text times pattern.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeAlias

from projseg.algebra.expressions.patterns.code_points import contains
from projseg.algebra.expressions.patterns.letter_case import folded
from projseg.algebra.expressions.patterns.nodes import Folding, Place
from projseg.algebra.expressions.patterns.program import (
    Fork,
    Found,
    Note,
    Program,
    Step,
    TakeAgain,
    TakeOnce,
    TakeOne,
    Test,
    TestAround,
)
from projseg.errors import EvaluationError
from projseg.memory.deadline import check_deadline

STEPS_MAX: Final = 200_000
_STEPS_BETWEEN_CHECKS: Final = 4096
_LINE_ENDS: Final = frozenset((0x0A, 0x0D, 0x85, 0x2028, 0x2029))
_LF: Final = 0x0A
_CR: Final = 0x0D
_NOWHERE: Final = -1
Notes: TypeAlias = tuple[int, ...]
"""Where each group that a back reference refers to begins and ends."""


def matches(program: Program, text: str) -> bool:
    """Whether a text has a match anywhere, as `Matcher.find` tells.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_TOO_LONG if the program is not linear and needs too many steps.
    """
    return Search(program, text).find(0) is not None


class Search:
    """A search through one text.

    Parameters
    ----------
    program : Program
        The compiled pattern.
    text : str
        The text to search.
    """

    def __init__(self, program: Program, text: str) -> None:
        self.program = program
        self.units = memoryview(text.encode("utf-16-le")).cast("H")
        self.steps_left = STEPS_MAX
        self.first_ends: dict[tuple[int, int, Notes], int] = {}
        self.notes: Notes = ()

    def find(self, first: int) -> tuple[int, int] | None:
        """Return where the first match from a position on begins and ends; None without one.

        `notes` then holds where its noted groups begin and end.

        Raises
        ------
        EvaluationError
            As `matches` does.
        """
        unset = (_NOWHERE,) * (2 * len(self.program.slots))
        failed: set[tuple[int, int, Notes]] = set()
        for start in range(first, len(self.units) + 1):
            if self.program.skips_pairs and self.is_in_pair(start):
                continue
            end = self.run(self.program.start, start, unset, failed)
            if end != _NOWHERE:
                return start, end
        return None

    def part(self, start: int, end: int) -> str:
        """Return a part of the text; half of a surrogate pair becomes ?, as in Java."""
        return text_of_units(self.units[start:end].tobytes())

    def run(
        self,
        step_index: int,
        position: int,
        notes: Notes,
        failed: set[tuple[int, int, Notes]],
        wanted_end: int = _NOWHERE,
    ) -> int:
        """Return where the first match from a step and position ends, or _NOWHERE.

        `failed` holds forks that did not lead to a match; runs with the same `wanted_end` may share
        it.
        """
        steps = self.program.steps
        waiting = [(step_index, position, notes)]
        while waiting:
            index, at, notes = waiting.pop()
            while at != _NOWHERE:
                step = steps[index]
                if isinstance(step, Found):
                    if wanted_end in (_NOWHERE, at):
                        self.notes = notes
                        return at
                    break
                if isinstance(step, Fork):
                    tried = (index, at, notes if self.program.has_references else ())
                    if tried in failed:
                        break
                    failed.add(tried)
                    self.count_step()
                    waiting.append((step.second, at, notes))
                    index = step.first
                    continue
                if isinstance(step, Note):
                    notes = (*notes[: step.slot], at, *notes[step.slot + 1 :])
                else:
                    at = _MOVES[type(step)](self, step, at, notes)
                index = step.next
        return _NOWHERE

    def count_step(self) -> None:
        """Count a step; raise PROJSEG_EVALUATION_TOO_LONG after too many, unless linear."""
        self.steps_left -= 1
        if self.steps_left % _STEPS_BETWEEN_CHECKS == 0:
            check_deadline()
        if self.steps_left < 0 and not self.program.is_linear:
            raise EvaluationError(
                "PROJSEG_EVALUATION_TOO_LONG",
                f"a regular expression took more than {STEPS_MAX} steps over a text of "
                f"{len(self.units)} characters; write it without back references, look-around and "
                "possessive quantifiers",
            )

    def after_once(self, step: TakeOnce, at: int, notes: Notes) -> int:
        """Return the position after the first match of an atomic part, or _NOWHERE."""
        return self.first_end(step.body, at, notes)

    def first_end(self, body: int, at: int, notes: Notes) -> int:
        """Return where the first match of an atomic part ends."""
        key = (body, at, notes)
        if key not in self.first_ends:
            self.first_ends[key] = self.run(body, at, notes, set())
        return self.first_ends[key]

    def if_around(self, step: TestAround, at: int, notes: Notes) -> int:
        """Return the position if a look-around holds there, else _NOWHERE."""
        if step.is_behind:
            starts = self.starts_behind(step, at)
            is_found = any(self.run(step.body, s, notes, set(), at) != _NOWHERE for s in starts)
        else:
            is_found = self.first_end(step.body, at, notes) != _NOWHERE
        return at if is_found != step.is_negated else _NOWHERE

    def starts_behind(self, step: TestAround, at: int) -> list[int]:
        """Return where a look-behind may begin, nearest first."""
        starts, start = [], at
        for distance in range(step.most + 1):
            if distance >= step.fewest:
                starts.append(start)
            if start == 0:
                break
            start -= 2 if step.steps_by_pairs and self.is_in_pair(start - 1) else 1
        return starts

    def is_in_pair(self, at: int) -> bool:
        """Whether a position lies between the two units of one character."""
        if not 0 < at < len(self.units):
            return False
        return 0xDC00 <= self.units[at] < 0xE000 and 0xD800 <= self.units[at - 1] < 0xDC00

    def character(self, at: int) -> int:
        """Return the character that begins at a position."""
        unit = self.units[at]
        if 0xD800 <= unit < 0xDC00 and at + 1 < len(self.units):
            return 0x10000 + ((unit - 0xD800) << 10) + (self.units[at + 1] - 0xDC00)
        return unit

    def character_before(self, at: int) -> int:
        """Return the character that ends at a position."""
        return self.character(at - 2) if self.is_in_pair(at - 1) else self.units[at - 1]

    def after_one(self, step: TakeOne, at: int, notes: Notes) -> int:
        """Return the position after a character of the set, or _NOWHERE."""
        if at == len(self.units):
            return _NOWHERE
        found = self.character(at)
        if not contains(step.members, found):
            return _NOWHERE
        return at + 1 if found < 0x10000 else at + 2

    def after_again(self, step: TakeAgain, at: int, notes: Notes) -> int:
        """Return the position after another copy of what a group matched, or _NOWHERE."""
        start, end = notes[step.slot], notes[step.slot + 1]
        size = end - start
        if end == _NOWHERE or at + size > len(self.units):
            return _NOWHERE
        there, here = start, at
        while there < end:
            one, other = self.character(there), self.character(here)
            if not _is_same(one, other, step.folding):
                return _NOWHERE
            there += 1 if one < 0x10000 else 2
            here += 1 if other < 0x10000 else 2
        return at + size

    def if_place(self, step: Test, at: int, notes: Notes) -> int:
        """Return the position if a condition holds there, else _NOWHERE."""
        return at if _PLACES[step.place](self, at) else _NOWHERE

    def is_end(self, at: int) -> bool:
        """Whether the text ends here."""
        return at == len(self.units)

    def is_newline(self, at: int) -> bool:
        """Whether a newline follows."""
        return self.units[at] == _LF

    def is_line_start(self, at: int) -> bool:
        """Whether a line begins here; for Java no line begins at the end of the text."""
        return not self.is_end(at) and (at == 0 or self.is_after_line(at))

    def is_unix_line_start(self, at: int) -> bool:
        """Whether a line begins here, if only newlines end lines."""
        return not self.is_end(at) and (at == 0 or self.is_newline(at - 1))

    def is_word_edge(self, at: int) -> bool:
        """Whether a word begins or ends here."""
        return self.is_word(at, is_before=True) != self.is_word(at, is_before=False)

    def is_after_line(self, at: int) -> bool:
        """Whether a complete line end precedes: between CR and LF none does."""
        before = self.units[at - 1]
        is_inside = before == _CR and at < len(self.units) and self.units[at] == _LF
        return before in _LINE_ENDS and not is_inside

    def is_before_line_end(self, at: int) -> bool:
        """Whether a complete line end follows: between CR and LF none does."""
        is_inside = at > 0 and self.units[at - 1] == _CR and self.units[at] == _LF
        return self.units[at] in _LINE_ENDS and not is_inside

    def is_last_line_end(self, at: int) -> bool:
        """Whether the line end that follows is the last of the text."""
        rest = self.units[at : at + 3].tolist()
        return len(rest) == 1 or rest == [_CR, _LF]

    def is_word(self, at: int, is_before: bool) -> bool:
        """Whether the character before or after a position belongs to a word."""
        if at == (0 if is_before else len(self.units)):
            return False
        found = self.character_before(at) if is_before else self.character(at)
        if found == ord("_") or _is_letter_or_digit(found):
            return True
        is_mark = unicodedata.category(chr(found)) == "Mn"
        return is_mark and self.has_base[at - 1 if is_before else at]

    @cached_property
    def has_base(self) -> list[bool]:
        """Whether each unit is a letter or digit, or in a run of marks after one."""
        found: list[bool] = []
        for at in range(len(self.units)):
            character = self.character(at)
            is_mark = unicodedata.category(chr(character)) == "Mn"
            is_behind_base = is_mark and at > 0 and found[at - 1]
            found.append(_is_letter_or_digit(character) or is_behind_base)
        return found


_MOVES: Final[dict[type[Step], Callable[[Search, Any, int, Notes], int]]] = {
    TakeOne: Search.after_one,
    TakeAgain: Search.after_again,
    TakeOnce: Search.after_once,
    Test: Search.if_place,
    TestAround: Search.if_around,
}
_PLACES: Final[dict[Place, Callable[[Search, int], bool]]] = {
    Place.START: lambda search, at: at == 0,
    Place.END: Search.is_end,
    Place.LAST_NEWLINE: lambda search, at: (
        search.is_end(at) or (search.is_end(at + 1) and search.is_newline(at))
    ),
    Place.LAST_LINE_END: lambda search, at: (
        search.is_end(at) or (search.is_before_line_end(at) and search.is_last_line_end(at))
    ),
    Place.LINE_START: Search.is_line_start,
    Place.LINE_END: lambda search, at: search.is_end(at) or search.is_before_line_end(at),
    Place.UNIX_LINE_START: Search.is_unix_line_start,
    Place.UNIX_LINE_END: lambda search, at: search.is_end(at) or search.is_newline(at),
    Place.WORD_EDGE: Search.is_word_edge,
    Place.NO_WORD_EDGE: lambda search, at: not search.is_word_edge(at),
}


def _is_letter_or_digit(code_point: int) -> bool:
    category = unicodedata.category(chr(code_point))
    return category[0] == "L" or category == "Nd"


def _is_same(one: int, other: int, folding: Folding) -> bool:
    if one == other or folding is Folding.NONE:
        return one == other
    if folding is Folding.UNICODE:
        return folded(one) == folded(other)
    return one < 0x80 and other < 0x80 and chr(one).lower() == chr(other).lower()


def text_of_units(units: bytes) -> str:
    """Return the text of UTF-16; half of a surrogate pair becomes ?, as in Java."""
    return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()
