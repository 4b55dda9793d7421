"""GROUPING SETS, ROLLUP and CUBE as sets of grouping columns; several are multiplied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Final, NoReturn

import msgspec
import sqlglot
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.dialect import split_list
from projseg.errors import InvalidInputError

GROUPING_SETS_MAX: Final = 4096
"""The most grouping sets of a query: a CUBE of twelve columns."""
GROUPING_COLUMNS_MAX: Final = 63
"""The most grouping columns beside grouping sets: each is a bit of `grouping_id()`."""

_CONSTRUCT: Final = re.compile(r"(rollup|cube|grouping\s+sets)\s*(\(.*\))", re.I | re.S)
_Texts = tuple[str, ...]


class Grouping(msgspec.Struct, frozen=True):
    """What GROUP BY asks for.

    Parameters
    ----------
    texts : tuple of str
        The grouping columns, each text once, in the order in which they are written.
    sets : tuple of tuple of int, or None
        Positions of the columns of each grouping set; None: GROUP BY is a list of columns.
    """

    texts: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...] | None


def has_grouping_sets(texts: Iterable[str]) -> bool:
    """Whether one of the texts of GROUP BY is GROUPING SETS, ROLLUP or CUBE."""
    return any(_CONSTRUCT.fullmatch(text.strip()) for text in texts)


def parse_grouping(texts: Sequence[str]) -> Grouping:
    """Return the grouping columns and the sets that the texts of GROUP BY mean.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_QUERY if a construct is empty, or there are too many sets or columns.
    """
    if not has_grouping_sets(texts):
        return Grouping(tuple(texts), None)
    choices = [_sets(text) for text in texts]
    _check_count(prod(map(len, choices)))
    sets = [tuple(dict.fromkeys(sum(chosen, ()))) for chosen in product(*choices)]
    columns = tuple(dict.fromkeys(column for one in _written(texts) for column in one))
    if len(columns) > GROUPING_COLUMNS_MAX:
        _refuse(
            f"groups by {len(columns)} columns in sets; at most {GROUPING_COLUMNS_MAX} are allowed"
        )
    position = {column: number for number, column in enumerate(columns)}
    return Grouping(columns, tuple(tuple(position[c] for c in one) for one in sets))


def _written(texts: Sequence[str]) -> Iterable[_Texts]:
    """Yield the columns of each text in the order in which they are written."""
    for text in texts:
        construct = _CONSTRUCT.fullmatch(text.strip())
        if construct is None:
            yield (text.strip(),)
        elif construct[1].casefold() in ("rollup", "cube"):
            yield from _elements(construct[2])
        else:
            inside = split_list(construct[2][1:-1])
            yield from _written([part for one in inside for part in _members(one)])


def _members(text: str) -> _Texts:
    """Return what is in the brackets of an element of GROUPING SETS, or the element itself."""
    return (text,) if _CONSTRUCT.fullmatch(text.strip()) else _columns(text)


def _sets(text: str) -> list[_Texts]:
    """Return the grouping sets of one text."""
    construct = _CONSTRUCT.fullmatch(text.strip())
    if construct is None:
        return [(text.strip(),)]
    kind = construct[1].casefold()
    if kind not in ("rollup", "cube"):
        inside = split_list(construct[2][1:-1])
        if not inside:
            _refuse(f"has '{text.strip()}', which has no grouping set; write (()) for one group")
        return [one for part in inside for one in _sets_of_element(part)]
    elements = _elements(construct[2])
    if kind == "rollup":
        return [_joined(elements[:count]) for count in range(len(elements), -1, -1)]
    _check_count(1 << len(elements))
    keeping = product((True, False), repeat=len(elements))
    return [_joined([e for e, kept in zip(elements, k, strict=True) if kept]) for k in keeping]


def _sets_of_element(text: str) -> list[_Texts]:
    return _sets(text) if _CONSTRUCT.fullmatch(text.strip()) else [_columns(text)]


def _elements(brackets: str) -> list[_Texts]:
    """Return the elements of ROLLUP or CUBE, each a column or several in brackets."""
    elements = [_columns(part) for part in split_list(brackets[1:-1])]
    if not elements or not all(elements):
        _refuse(f"has ROLLUP or CUBE of '{brackets}', which lacks a column")
    return elements


def _columns(text: str) -> _Texts:
    """Return the columns of an element: one expression, or a list in brackets."""
    text = text.strip()
    if not _is_in_brackets(text):
        return (text,)
    return tuple(split_list(text[1:-1]))


def _is_in_brackets(text: str) -> bool:
    """Whether the first bracket is closed by the last character: `(a, b)`, not `(a) + (b)`."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for token in sqlglot.tokenize(text, read="spark"):
        opens, closes = token.token_type == TokenType.L_PAREN, token.token_type == TokenType.R_PAREN
        depth += opens - closes
        if depth == 0:
            return token.end == len(text) - 1
    return False


def _joined(elements: Sequence[_Texts]) -> _Texts:
    return tuple(column for element in elements for column in element)


def _check_count(count: int) -> None:
    if count > GROUPING_SETS_MAX:
        _refuse(f"has {count} grouping sets; at most {GROUPING_SETS_MAX} are allowed")


def _refuse(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_QUERY", f"group_by {problem}")
