"""Letters in lower, upper and title case, by tables made of what Python's Unicode says."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.row_texts import texts_of, written_texts
from projseg.memory.forks import late_import

Case: TypeAlias = Literal["lower", "upper", "title"]

_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"
_LAST_SIGMA: Final = "\N{GREEK SMALL LETTER FINAL SIGMA}"


class _Tables(NamedTuple):
    """What `cased_rows` takes: a table for each case, and the characters that become several."""

    lower: NDArray[np.uint32]
    upper: NDArray[np.uint32]
    title: NDArray[np.uint32]
    several: NDArray[np.uint32]


def cased(texts: pa.Array, first: Case, others: Case) -> pa.Array:
    """Return texts with the first letter of each word in a case, and its others in another."""
    with late_import:
        from projseg.kernels.texts.text_changes import cased_rows
    known = _tables()
    tables = getattr(known, first), getattr(known, others)
    return written_texts(
        lambda valid, most: cased_rows(texts_of(texts), tables, known.several, valid, most),
        [texts],
        len(texts),
        texts.type,
    )


@cache
def _tables() -> _Tables:
    with late_import:
        from projseg.kernels.texts.text_changes import CASED, CODES, IGNORED, SEVERAL, SIGMA
    codes = np.r_[slice(*CODES[:2]), slice(*CODES[2:])].astype(np.uint32)
    characters = [*map(chr, codes[1:].tolist())]
    tables = []
    several: list[int] = []
    for change in (str.lower, str.upper, str.title):
        changed, ends = _words(change("\0".join(characters)))
        sizes = np.diff(ends, prepend=-1) - 1
        table = codes.copy()
        table[1:] = changed[ends - 1]
        for place in np.flatnonzero(sizes > 1):
            table[place + 1] = len(several) // 3 | SEVERAL
            several += [*changed[ends[place] - sizes[place] : ends[place]].tolist(), 0][:3]
        tables.append(table)
    lower, upper, title = tables
    # A sigma is the last of its word behind a letter, whatever is ignored between the two.
    for before, mark in (("a", IGNORED), ("", CASED | IGNORED)):
        changed, ends = _words(
            "\0".join(f"{before}{chr(code)}{_SIGMA}" for code in codes[1:]).lower()
        )
        lower[1:][changed[ends - 1] == ord(_LAST_SIGMA)] ^= np.uint32(mark)
    lower[ord(_SIGMA)] |= SIGMA
    return _Tables(lower, upper, title, np.array(several, np.uint32))


def _words(text: str) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return code points of words with nulls between them, and where each word ends."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return codes, np.append(np.flatnonzero(codes == 0), len(codes))
