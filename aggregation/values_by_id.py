"""Expressions over one column, evaluated once for each value of its dictionary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.arrow_vectors import grouping_vector
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Expression
from projseg.segment_format.arrow_arrays import filled_values
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Vector, held_bytes


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
        values = dictionary.values
        return filled_values(evaluate(condition, {name: values}, len(values)), False)

    return dictionary.memo(("truth by id", condition), compute, lambda truths: truths.nbytes)
