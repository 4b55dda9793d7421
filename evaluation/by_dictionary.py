"""Expressions over one column, evaluated once for each value of its dictionary."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.segment_format.dictionaries.dictionary import Dictionary, TextValue
from projseg.segment_format.vectors.arrow_arrays import filled_values
from projseg.segment_format.vectors.vectors import Vector, held_bytes

# More texts are sought all at once.
_SOUGHT_MAX: Final = 64


def values_by_id(expression: Expression, name: str, dictionary: Dictionary) -> Vector:
    """Return the value of `expression` for each id of the dictionary of its one column.

    It is computed once and kept with the dictionary, for all queries and pages.
    """

    def compute() -> Vector:
        values = dictionary.values
        return grouping_vector(evaluate(expression, {name: values}, len(values)))

    return dictionary.memo(("values by id", expression), compute, held_bytes)


def truth_by_id(condition: Expression, name: str, dictionary: Dictionary) -> NDArray[np.bool_]:
    """Return where `condition` is true (not false, not null), bool[ids]; computed once."""

    def compute() -> NDArray[np.bool_]:
        texts = _equal_texts(condition)
        if texts is not None:
            truths = np.zeros(len(dictionary), np.bool_)
            truths[[found for one in texts if (found := dictionary.id_of(one)) is not None]] = True
            return truths
        values = dictionary.values
        return filled_values(evaluate(condition, {name: values}, len(values)), False)

    return dictionary.memo(("truth by id", condition), compute, lambda truths: truths.nbytes)


def _equal_texts(condition: Expression) -> list[TextValue] | None:
    """Return the few texts that a condition `column IN (...)` names; None if it is another."""
    if not isinstance(condition, Call) or condition.function not in ("=", "in"):
        return None
    value, *constants = condition.arguments
    if not isinstance(value, Column) or len(constants) > _SOUGHT_MAX:
        return None
    texts = [one.value for one in constants if isinstance(one, Literal) and one.type == value.type]
    found = [text for text in texts if isinstance(text, str | bytes)]
    return found if len(found) == len(constants) else None
