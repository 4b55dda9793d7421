"""For which values of its argument a call has one of some values."""

from __future__ import annotations

from functools import lru_cache

from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.expressions.value_order import Cut
from projseg.algebra.proofs.value_set import NOTHING, ValueSet


def preimage(term: Expression, values: ValueSet) -> ValueSet | None:
    """Return the exact set of a call's first arguments that give one of some values.

    Arguments for which the call raises are in no such set. None: it is not known, or the term is no
    call of one argument beside constants.
    """
    if not isinstance(term, Call) or FUNCTIONS[term.function].inverse is None:
        return None
    if not all(isinstance(argument, Literal) for argument in term.arguments[1:]):
        return None
    found = NOTHING
    for start, end in zip(values.cuts[::2], values.cuts[1::2], strict=True):
        after_start, after_end = _after(term, start), _after(term, end)
        if after_start is None or after_end is None:
            return None
        found = found.union(after_start.minus(after_end))
    return ValueSet(found.cuts, values.has_null)


@lru_cache(maxsize=4096)
def _after(call: Call, cut: Cut) -> ValueSet | None:
    inverse = FUNCTIONS[call.function].inverse
    cuts = None if inverse is None else inverse(call, cut)
    return None if cuts is None else ValueSet(cuts)
