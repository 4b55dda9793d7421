"""Find what a pattern of Java's, or a group of it, matches in texts, and split texts at matches.

RE2 finds groups where it is proved equal. The exact matcher does the rest, once for each distinct
text; a pattern that is one fixed text is looked for as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.patterns.java_regex import is_usable
from projseg.algebra.expressions.patterns.matcher import Search
from projseg.algebra.expressions.patterns.nodes import Capture, Chars, Node, Sequence
from projseg.algebra.expressions.patterns.parser import parse_pattern
from projseg.algebra.expressions.patterns.patience import PARTS_AT_ONCE, in_slices, part_count
from projseg.algebra.expressions.patterns.pattern_errors import unsupported
from projseg.algebra.expressions.patterns.program import (
    compile_program,
    may_repeat_nothing,
    numbers_in_loops,
)
from projseg.algebra.expressions.patterns.re2_pattern import group_re2
from projseg.errors import LimitExceededError
from projseg.segment_format.vectors.arrow_arrays import array_of

_NOWHERE = -1


class Finder:
    """Finds one group of a parsed pattern.

    Parameters
    ----------
    text : str
        A pattern of `java.util.regex.Pattern`, without flags beside it.
    group : int
        The number of a group; 0 is the whole match.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if Java refuses it, or it has no such group.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION if what Java finds depends on details of its implementation.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG if its groups are nested too deeply.
    """

    def __init__(self, text: str, group: int) -> None:
        pattern = parse_pattern(text)
        self._text = text
        self._is_large = part_count(pattern.root) > PARTS_AT_ONCE
        nodes = list(pattern.root.walk())
        count = sum(isinstance(node, Capture) for node in nodes)
        if not 0 <= group <= count:
            raise bad_expression(f"the regular expression '{text}' has no group {group}")
        if any(map(may_repeat_nothing, nodes)):
            raise unsupported(text, "a repetition of what may be empty, whose extent is asked for")
        if group in numbers_in_loops(pattern.root):
            raise unsupported(text, f"group {group} inside a repetition or look-around")
        self._group = group
        self._literal = _literal(pattern.root)
        self._program = compile_program(pattern, {group} - {0})
        re2 = group_re2(pattern, group)
        self._re2 = re2 if re2 is not None and is_usable(re2.pattern) else None

    @property
    def may_fail(self) -> bool:
        """Whether texts may take more steps or time than is allowed."""
        return self._is_large or not self._program.is_linear

    def extract(self, texts: pa.Array) -> pa.Array:
        """Return what the group holds at the first match in each text.

        It is empty where nothing matches or the group takes no part, and null for null.

        Raises
        ------
        EvaluationError
            PROJSEG_EVALUATION_TOO_LONG if `may_fail` and a text takes too many steps, or all of
            them too much time.
        """
        if not self.may_fail:
            return self._extract(texts)
        return in_slices(self._text, self._extract, texts)

    def _extract(self, texts: pa.Array) -> pa.Array:
        if self._re2 is None:
            return distinct_texts(texts, self._first, pa.string())
        found = pc.struct_field(pc.extract_regex(texts, self._re2.pattern), "found")
        found = pc.if_else(pc.is_valid(texts), pc.fill_null(found, ""), texts)
        undecided = pc.match_substring_regex(texts, self._re2.undecided).fill_null(False)
        if not pc.any(undecided).as_py():
            return found
        exact = distinct_texts(texts.filter(undecided), self._first, pa.string())
        return pc.replace_with_mask(found, undecided, exact)

    def split(self, texts: pa.Array, limit: int) -> pa.Array:
        """Return the parts of each text between matches, as Java's `String.split` gives them.

        Parameters
        ----------
        texts : pa.Array
            Strings.
        limit : int
            The most parts; below 1 there is no limit. Empty parts at the end are kept.

        Raises
        ------
        EvaluationError
            As `extract` does.
        """
        if not self.may_fail:
            return self._split(texts, limit)
        return in_slices(self._text, lambda some: self._split(some, limit), texts)

    def _split(self, texts: pa.Array, limit: int) -> pa.Array:
        if self._literal:
            splits_max = limit - 1 if limit > 0 else None
            return pc.split_pattern(texts, pattern=self._literal, max_splits=splits_max)
        cut = _characters if self._literal == "" else self._parts
        return distinct_texts(texts, lambda text: cut(text, limit), pa.list_(pa.string()))

    def _first(self, text: str) -> str:
        search = Search(self._program, text)
        found = search.find(0)
        if found is None:
            return ""
        if self._group:
            slot = self._program.slots[self._group]
            found = search.notes[slot], search.notes[slot + 1]
        return "" if found[1] == _NOWHERE else search.part(*found)

    def _parts(self, text: str, limit: int) -> list[str]:
        search = Search(self._program, text)
        parts: list[str] = []
        begin = 0
        for start, end in matches_of(search):
            if len(parts) == limit - 1:
                break
            if end > 0:  # an empty match at the start cuts nothing
                parts.append(search.part(begin, start))
                begin = end
        return [*parts, search.part(begin, len(search.units))]


def matches_of(search: Search) -> Iterator[tuple[int, int]]:
    """Yield matches from left to right; after an empty one the search begins a unit later."""
    position = 0
    while (found := search.find(position)) is not None:
        yield found
        start, end = found
        position = end + (start == end)


def _characters(text: str, limit: int) -> list[str]:
    """Return what Spark's split at the empty pattern does: characters, the last part with more."""
    count = limit if 0 < limit < len(text) else len(text)
    return [*text[: count - 1], text[count - 1 :]] if text else [""]


def _literal(root: Node) -> str | None:
    """Return the one text that a pattern matches, or None if it may match others."""
    parts = root.parts if isinstance(root, Sequence) else (root,)
    sets = [part.members if isinstance(part, Chars) else () for part in parts]
    is_fixed = all(len(one) == 2 and one[1] == one[0] + 1 for one in sets)
    return "".join(chr(one[0]) for one in sets) if is_fixed else None


def distinct_texts(texts: pa.Array, compute: Callable[[str], Any], result: pa.DataType) -> pa.Array:
    """Return a function's value for each text; it is computed once for each distinct one."""
    encoded = texts.dictionary_encode()
    values = [compute(text) for text in encoded.dictionary.to_pylist()]
    return array_of(values, result).take(encoded.indices)


@lru_cache(maxsize=1024)
def finder(text: str, group: int) -> Finder:
    """Return what finds a group of a pattern, from a cache if it was asked for before.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `Finder` does.
    """
    try:
        return Finder(text, group)
    except RecursionError as error:
        raise LimitExceededError(
            "PROJSEG_EXPRESSION_TOO_LONG", "a regular expression is nested too deeply"
        ) from error
