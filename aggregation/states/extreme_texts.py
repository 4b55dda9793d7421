"""Find the few rows among which each group's smallest or largest text is.

Texts without a dictionary would have to be sorted. Eight bytes of them are compared as a number,
then eight more of those that are as good as the best, until few are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.states.state import Groups, valid_rows
from projseg.kernels.folds.fold_extremum import INT64_MAX, INT64_MIN, max_into, min_into
from projseg.kernels.texts.text_prefixes import KEY_BYTES, rows_of_best, text_keys
from projseg.segment_format.vectors.arrow_arrays import text_buffers
from projseg.segment_format.vectors.vectors import Opaque

_ROWS_MIN: Final = 1 << 12  # fewer are sorted as soon
_ROWS_A_GROUP: Final = 4
_BYTES_MAX: Final = 64  # of a text that are compared

Fold = Callable[..., None]


def extreme_candidates(groups: Groups, texts: Opaque, *, is_min: bool) -> tuple[Groups, Opaque]:
    """Return rows among which there is one of each group's extreme texts, and their groups.

    Parameters
    ----------
    groups : Groups
        Of each row.
    texts : Opaque
        Strings or binary values; nulls do not count.
    is_min : bool
        Whether the smallest are wanted, or the largest.
    """
    for start in range(0, _BYTES_MAX, KEY_BYTES):
        few = max(_ROWS_MIN, _ROWS_A_GROUP * groups.count)
        if len(texts) < few:
            break
        kept = _best_rows(groups, texts, start, is_min)
        if len(kept) < len(texts):
            ids = None if groups.ids is None else groups.ids[kept]
            groups, texts = Groups(ids, groups.count, len(kept)), texts.take(kept)
    return groups, texts


def _best_rows(groups: Groups, texts: Opaque, start: int, is_min: bool) -> NDArray[np.uint32]:
    """Return the rows that have the best eight bytes of their group."""
    keys = text_keys(*text_buffers(texts.array), start)
    validity = valid_rows(texts)
    best = np.full(groups.count, INT64_MAX if is_min else INT64_MIN)
    seen = np.zeros(groups.count, np.bool_)
    fold: Fold = min_into if is_min else max_into
    fold(best, seen, groups.ids, keys, validity=validity)
    return rows_of_best(groups.ids, keys, validity, best)
