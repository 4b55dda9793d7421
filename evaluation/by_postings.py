"""Find the values of a dictionary for which a condition is true by the postings of its segment.

Words alone decide a text query. A phrase, a pattern of LIKE or a regular expression leaves
candidates: these alone are decoded, and the condition is evaluated on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.text_match import text_query_of
from projseg.algebra.expressions.patterns.text_query import (
    Every,
    Phrase,
    Some,
    TextQuery,
    Without,
)
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.proofs.index_keys import AllOf, Keys, Needed, OneOf, keys_of
from projseg.errors import ProjsegError
from projseg.segment_format.arrow_arrays import filled_values
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.postings import StoredPostings

LOGGER: Final = logging.getLogger("projseg.table")

# Fewer values are compared in less time than postings are read.
_WORDS_VALUES_MIN: Final = 1 << 12
_GRAMS_BYTES_MIN: Final = 1 << 21
# More candidates than one of so many values are not decoded by themselves.
_CANDIDATE_SHARE: Final = 4
# So few candidates are compared rather than made fewer.
_FEW: Final = 16

Mask = NDArray[np.bool_]


class Found(NamedTuple):
    """Values for which a condition may be true: bool[ids]; whether it is true for all of these."""

    mask: Mask
    is_exact: bool


def truth_by_postings(
    condition: Expression, name: str, dictionary: Dictionary, postings: Sequence[StoredPostings]
) -> Mask | None:
    """Return where a condition is true, bool[ids]; None if postings do not help, or are damaged."""
    useful = {one.definition.kind: one for one in postings if _is_worth(one, dictionary)}
    if not useful:
        return None
    try:
        found = _Search(name, useful).of(condition)
    except (ProjsegError, OSError) as error:
        LOGGER.warning("a query goes on without postings of column '%s': %s", name, error)
        return None
    if found is None or found.is_exact:
        return None if found is None else found.mask
    ids = np.flatnonzero(found.mask).astype(dictionary.id_dtype)
    if len(ids) * _CANDIDATE_SHARE > len(dictionary):
        return None
    truths = np.zeros(len(dictionary), np.bool_)
    if len(ids):
        values = dictionary.values_of(ids)
        truths[ids] = filled_values(evaluate(condition, {name: values}, len(ids)), False)
    return truths


def _is_worth(postings: StoredPostings, dictionary: Dictionary) -> bool:
    if postings.definition.kind == "token":
        return len(dictionary) >= _WORDS_VALUES_MIN
    return dictionary.nbytes >= _GRAMS_BYTES_MIN


class _Search:
    """One condition's search in a column's postings, which are by kind of index."""

    def __init__(self, name: str, postings: dict[str, StoredPostings]) -> None:
        self._name, self._postings = name, postings

    def of(self, condition: Expression) -> Found | None:
        """Return the values that a condition may be true for; None means any."""
        if isinstance(condition, Call) and condition.function in ("and", "or"):
            combine = _all_of if condition.function == "and" else _any_of
            return combine([self.of(part) for part in condition.arguments])
        if not isinstance(condition, Call):
            return None
        words, grams = self._postings.get("token"), self._postings.get("ngram")
        if condition.function == "text_match" and words is not None:
            text = condition.arguments[0]
            if isinstance(text, Column) and text.name == self._name:
                return _of_query(words, text_query_of(condition))
        if grams is None:
            return None
        keys, _ = keys_of(condition, {self._name: frozenset(["ngram"])})
        if not isinstance(keys, Keys):
            return None
        mask = _of_keys(grams, keys.needed)
        return None if mask is None else Found(mask, is_exact=False)


def _of_query(words: StoredPostings, query: TextQuery) -> Found | None:
    if isinstance(query, Phrase):
        each = [_of_word(words, word) for word in query.words]
        found = _all_of(each)
        is_alone = len(each) == 1
        return found if found is None or is_alone else Found(found.mask, is_exact=False)
    if isinstance(query, Without):
        found = _of_query(words, query.part)
        if found is None or not found.is_exact:
            return None
        others = ~found.mask
        others[: words.null_count] = False
        return Found(others, is_exact=True)
    assert isinstance(query, Every | Some)  # a column's own query names no column
    combine = _all_of if isinstance(query, Every) else _any_of
    return combine([_of_query(words, part) for part in query.parts])


def _of_word(words: StoredPostings, word: str) -> Found | None:
    if "*" not in word:
        place = words.id_of(word)
        ids = [] if place is None else [place]
    else:  # no word has a character that LIKE knows
        matching = pc.match_like(words.keys.values, word.replace("*", "%"))
        ids = np.flatnonzero(filled_values(matching, False)).tolist()
    mask = words.holders(ids)
    return None if mask is None else Found(mask, is_exact=True)


def _of_keys(postings: StoredPostings, needed: Needed) -> Mask | None:
    """Return the values that hold the keys that are needed; None if any may."""
    if isinstance(needed, OneOf):
        keys = [one.value for one in needed.values if isinstance(one.value, str | int)]
        ids = [postings.id_of(key) for key in keys]
        return postings.holders([one for one in ids if one is not None])
    if not isinstance(needed, AllOf):
        masks = [_of_keys(postings, part) for part in needed.parts]
        known = [mask for mask in masks if mask is not None]
        return reduce(np.logical_or, known) if len(known) == len(masks) else None
    found: Mask | None = None
    for part in needed.parts:
        mask = _of_keys(postings, part)
        if mask is not None:
            found = mask if found is None else found & mask
            if np.count_nonzero(found) <= _FEW:
                break
    return found


def _all_of(parts: Iterable[Found | None]) -> Found | None:
    several = list(parts)
    known = [part for part in several if part is not None]
    if not known:
        return None
    is_exact = len(known) == len(several) and all(part.is_exact for part in known)
    return Found(reduce(np.logical_and, (part.mask for part in known)), is_exact)


def _any_of(parts: Iterable[Found | None]) -> Found | None:
    several = list(parts)
    known = [part for part in several if part is not None]
    if len(known) < len(several) or not known:
        return None
    masks = (part.mask for part in known)
    return Found(reduce(np.logical_or, masks), all(part.is_exact for part in known))
