"""Replace what a pattern of Java's matches, as `java.util.regex.Matcher.replaceAll` does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.patterns.finder import Finder, distinct_texts, matches_of
from projseg.algebra.expressions.patterns.java_regex import is_usable
from projseg.algebra.expressions.patterns.matcher import Search, text_of_units
from projseg.algebra.expressions.patterns.nodes import Capture
from projseg.algebra.expressions.patterns.parser import parse_pattern
from projseg.algebra.expressions.patterns.pattern_errors import unsupported
from projseg.algebra.expressions.patterns.program import compile_program, length
from projseg.algebra.expressions.patterns.re2_pattern import group_re2

_NOWHERE = -1


class Replacer:
    r"""Replaces every match of a parsed pattern.

    Parameters
    ----------
    text : str
        A pattern of `java.util.regex.Pattern`.
    replacement : str
        What stands in place of a match; `$1` is what its first group holds, `\\$` a dollar.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if Java refuses either.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION as `Finder` does, for groups by name, and for a pattern that
        may match the empty text.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG if groups are nested too deeply.
    """

    def __init__(self, text: str, replacement: str) -> None:
        pattern = parse_pattern(text)
        if length(pattern.root)[0] == 0:
            raise unsupported(text, "matches of the empty text, which Java finds within characters")
        group_count = sum(isinstance(node, Capture) for node in pattern.root.walk())
        self._parts = tuple(_parts(text, replacement, group_count))
        self._groups = {part for part in self._parts if isinstance(part, int) and part}
        for group in (0, *self._groups):
            Finder(text, group)  # refuses what depends on details of Java's implementation
        self._program = compile_program(pattern, self._groups)
        self._re2: str | None = None
        self._undecided = ""
        re2 = group_re2(pattern, max(self._groups, default=0)) if len(self._groups) < 2 else None
        if re2 is not None and is_usable(re2.pattern):
            self._re2, self._undecided = re2.pattern, re2.undecided or ""

    @property
    def may_fail(self) -> bool:
        """Whether some text may take more steps than are allowed."""
        return not self._program.is_linear

    def replaced(self, texts: pa.Array) -> pa.Array:
        """Return each text with its matches replaced; null for null.

        Raises
        ------
        EvaluationError
            PROJSEG_EVALUATION_TOO_LONG if `may_fail` and a text takes too many steps.
        """
        if self._re2 is None:
            return distinct_texts(texts, self._exactly, pa.string())
        instead = "".join(
            part.replace("\\", "\\\\") if isinstance(part, str) else f"\\{min(part, 1)}"
            for part in self._parts
        )
        found = pc.replace_substring_regex(texts, self._re2, instead)
        undecided = pc.match_substring_regex(texts, self._undecided).fill_null(False)
        if not pc.any(undecided).as_py():
            return found
        exact = distinct_texts(texts.filter(undecided), self._exactly, pa.string())
        return pc.replace_with_mask(found, undecided, exact)

    def _exactly(self, text: str) -> str:
        search = Search(self._program, text)
        parts: list[bytes] = []
        begin = 0
        for start, end in matches_of(search):
            parts += [search.units[begin:start].tobytes(), *self._instead(search, start, end)]
            begin = end
        return text_of_units(b"".join([*parts, search.units[begin:].tobytes()]))

    def _instead(self, search: Search, start: int, end: int) -> Iterator[bytes]:
        """Yield what stands in place of a match, as UTF-16: halves of pairs may join again."""
        for part in self._parts:
            if isinstance(part, str):
                yield part.encode("utf-16-le")
                continue
            first, last = start, end
            if part:
                slot = self._program.slots[part]
                first, last = search.notes[slot], search.notes[slot + 1]
            yield b"" if last == _NOWHERE else search.units[first:last].tobytes()


def _parts(pattern: str, replacement: str, group_count: int) -> Iterator[str | int]:
    """Yield what a replacement is made of: texts, and numbers of groups."""
    place = 0
    while place < len(replacement):
        character = replacement[place]
        following = replacement[place + 1 : place + 2]
        if character not in "\\$":
            yield character
            place += 1
        elif not following:
            raise bad_expression(f"the replacement '{replacement}' ends in '{character}'")
        elif character == "\\":
            yield following
            place += 2
        elif following == "{":
            raise unsupported(pattern, "a replacement that has a group's name")
        elif not ("0" <= following <= "9") or int(following) > group_count:
            raise bad_expression(
                f"the replacement '{replacement}' has '${following}', and the regular expression "
                f"'{pattern}' has {group_count} groups; write \\$ for a dollar"
            )
        else:
            group, place = int(following), place + 2
            while "0" <= (digit := replacement[place : place + 1] or " ") <= "9":
                if group * 10 + int(digit) > group_count:
                    break
                group, place = group * 10 + int(digit), place + 1
            yield group


@lru_cache(maxsize=1024)
def replacer(text: str, replacement: str) -> Replacer:
    """Return what replaces a pattern, from a cache if it was asked for before.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `Replacer` does.
    """
    return Replacer(text, replacement)
