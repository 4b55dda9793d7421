"""Match texts against Java's patterns: by RE2 where it is proved equal, else by an exact matcher.

RE2's time grows with the length of the text only. The exact matcher is much slower; it runs once
for each distinct text, and only for texts that RE2 does not decide.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.patterns.matcher import matches
from projseg.algebra.expressions.patterns.parser import parse_pattern
from projseg.algebra.expressions.patterns.patience import PARTS_AT_ONCE, in_slices, part_count
from projseg.algebra.expressions.patterns.program import Program, compile_program
from projseg.algebra.expressions.patterns.re2_pattern import necessary_re2, to_re2
from projseg.errors import LimitExceededError
from projseg.segment_format.vectors.arrow_arrays import array_of


class JavaRegex:
    """A parsed pattern that can be searched for.

    Parameters
    ----------
    text : str
        A pattern of `java.util.regex.Pattern`, without flags beside it.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if Java refuses it.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION if it has a construct whose meaning is not known here.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG if its groups are nested too deeply.
    """

    def __init__(self, text: str) -> None:
        pattern = parse_pattern(text)
        self._text = text
        self._is_large = part_count(pattern.root) > PARTS_AT_ONCE
        re2 = to_re2(pattern)
        self._re2 = re2 if re2 is not None and is_usable(re2.pattern) else None
        self._program: Program | None = None
        self._necessary: str | None = None
        if self._re2 is None or self._re2.undecided is not None:
            self._program = compile_program(pattern)
            necessary = necessary_re2(pattern)
            self._necessary = necessary if is_usable(necessary) else None

    @property
    def may_fail(self) -> bool:
        """Whether texts may take more steps or time than is allowed."""
        return self._is_large or (self._program is not None and not self._program.is_linear)

    def search(self, texts: pa.Array) -> pa.Array:
        """Return bool[n], whether the pattern is found anywhere in each text; null for null.

        Raises
        ------
        EvaluationError
            PROJSEG_EVALUATION_TOO_LONG if `may_fail` and a text takes too many steps, or all of
            them too much time.
        """
        if not self.may_fail:
            return self._search(texts)
        return in_slices(self._text, self._search, texts)

    def _search(self, texts: pa.Array) -> pa.Array:
        if self._re2 is None:
            return self._search_exactly(texts)
        found = pc.match_substring_regex(texts, self._re2.pattern)
        if self._re2.undecided is None:
            return found
        undecided = pc.match_substring_regex(texts, self._re2.undecided).fill_null(False)
        if not pc.any(undecided).as_py():
            return found
        return pc.replace_with_mask(found, undecided, self._search_exactly(texts.filter(undecided)))

    def _search_exactly(self, texts: pa.Array) -> pa.Array:
        """Return what `search` does, by the exact matcher where RE2 does not rule out a match."""
        if self._necessary is None:
            return self._matched(texts)
        possible = pc.match_substring_regex(texts, self._necessary)
        return pc.replace_with_mask(
            possible, possible.fill_null(False), self._matched(texts.filter(possible))
        )

    def _matched(self, texts: pa.Array) -> pa.Array:
        assert self._program is not None
        encoded = texts.dictionary_encode()
        found = [matches(self._program, text) for text in encoded.dictionary.to_pylist()]
        return array_of(found, pa.bool_()).take(encoded.indices)


@lru_cache(maxsize=1024)
def java_regex(text: str) -> JavaRegex:
    """Return the parsed pattern, from a cache if it was parsed before.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `JavaRegex` does.
    """
    try:
        return JavaRegex(text)
    except RecursionError as error:
        raise LimitExceededError(
            "PROJSEG_EXPRESSION_TOO_LONG", "a regular expression is nested too deeply"
        ) from error


def is_usable(pattern: str) -> bool:
    """Whether RE2 accepts a pattern; it refuses those that are too large."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        return False
    return True
