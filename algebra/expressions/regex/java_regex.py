"""Whether texts match a pattern of Java's: by RE2 where that is proved equal, else exactly.

RE2 takes time that grows with the text alone. The exact matcher is slower by far; it is asked once
for each distinct text, and only for those that RE2 does not decide.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.regex.matcher import matches
from projseg.algebra.expressions.regex.parser import parse_pattern
from projseg.algebra.expressions.regex.program import Program, compile_program
from projseg.algebra.expressions.regex.re2_pattern import Re2Pattern, to_re2
from projseg.errors import LimitExceededError
from projseg.segment_format.arrow_arrays import array_of


class JavaRegex:
    """A pattern, read and ready.

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
        self._re2 = _usable(to_re2(pattern))
        decides_all = self._re2 is not None and self._re2.undecided is None
        self._program: Program | None = None if decides_all else compile_program(pattern)

    @property
    def may_fail(self) -> bool:
        """Whether some text may take more steps than are allowed."""
        return self._program is not None and not self._program.is_linear

    def search(self, texts: pa.Array) -> pa.Array:
        """Return bool[n], whether the pattern is found anywhere in each text; null for null.

        Raises
        ------
        EvaluationError
            PROJSEG_EVALUATION_TOO_LONG if `may_fail` and a text takes too many steps.
        """
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
        assert self._program is not None
        encoded = texts.dictionary_encode()
        found = [matches(self._program, text) for text in encoded.dictionary.to_pylist()]
        return array_of(found, pa.bool_()).take(encoded.indices)


@lru_cache(maxsize=1024)
def java_regex(text: str) -> JavaRegex:
    """Return a pattern, read once."""
    try:
        return JavaRegex(text)
    except RecursionError as error:
        raise LimitExceededError(
            "PROJSEG_EXPRESSION_TOO_LONG", "a regular expression is nested too deeply"
        ) from error


def _usable(found: Re2Pattern | None) -> Re2Pattern | None:
    """Return the pattern unless RE2 refuses it for its size."""
    if found is None:
        return None
    try:
        pc.match_substring_regex(pa.array([""]), found.pattern)
    except pa.ArrowInvalid:
        return None
    return found
