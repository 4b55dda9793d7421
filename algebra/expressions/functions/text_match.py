"""text_match: whether a text holds the words of a query. SPEC.md section 16 says what words are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import CONSTANT, TEXT, spark_call
from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import Datum, as_array, literal_of
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    never,
    unordered,
)
from projseg.algebra.expressions.patterns.text_query import (
    Every,
    Phrase,
    Some,
    TextQuery,
    Without,
    read_text_query,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.segment_format.arrow_arrays import primitive_array, valid_values
from projseg.segment_format.indexes.text_keys import Words, slices

Mask = NDArray[np.bool_]


def _build(arguments: tuple[Expression, ...], zone: str) -> Expression:
    if isinstance(arguments[1], Literal) and arguments[1].value is None:
        return Literal(pa.bool_(), None)
    query = literal_of(arguments, 1, "the query of text_match")
    read_text_query(str(query))
    text = cast_to(arguments[0], pa.string(), zone)
    return Call(pa.bool_(), "text_match", (text, Literal(pa.string(), str(query))))


def text_query_of(call: Call) -> TextQuery:
    """Return the query of a call."""
    query = call.arguments[1]
    assert isinstance(query, Literal)
    return read_text_query(str(query.value))


def _text_match(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    texts, query = as_array(arguments[0], row_count), text_query_of(call)
    found = np.concatenate([_Matches(part).of(query) for part in slices(texts)])
    return primitive_array(found, valid_values(texts) if texts.null_count else None)


class _Matches:
    """Which texts of a slice match a query."""

    def __init__(self, texts: pa.Array) -> None:
        self._words, self._count = Words(texts), len(texts)

    def of(self, query: TextQuery) -> Mask:
        """Return which texts match: bool[n]."""
        if isinstance(query, Phrase):
            return self._of_phrase(query)
        if isinstance(query, Without):
            return ~self.of(query.part)
        assert isinstance(query, Every | Some)  # a column's own query names no column
        combine = np.logical_and if isinstance(query, Every) else np.logical_or
        mask: Mask = combine.reduce([self.of(part) for part in query.parts])
        return mask

    def _of_phrase(self, phrase: Phrase) -> Mask:
        """Return the texts that hold a row of words: each word's places, moved to the first's."""
        rows, size = self._words.texts, len(phrase.words)
        starts = max(0, len(rows) - size + 1)
        hits = rows[:starts] == rows[size - 1 :][:starts]
        for place, word in enumerate(phrase.words):
            hits &= _equal(self._words.values.slice(place, starts), word)
        found = np.zeros(self._count, np.bool_)
        found[rows[:starts][hits]] = True
        return found


def _equal(words: pa.Array, wanted: str) -> Mask:
    if "*" not in wanted:
        found = pc.equal(words, wanted)
    else:  # no word has a character that LIKE knows
        found = pc.match_like(words, wanted.replace("*", "%"))
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "text_match": ScalarFunction(
        spellings=(
            Spelling("text_match", _build, 2, 2, catalyst=spark_call("TextMatch", TEXT, CONSTANT)),
        ),
        evaluate=_text_match,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=never,
        order=unordered,
        canonical_folds_null=True,
    )
}
