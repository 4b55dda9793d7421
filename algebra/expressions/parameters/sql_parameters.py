"""Parameters in SQL texts: `:name`, and `?`, which are known by their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.parameters.parameter_places import misplaced, parameter_places
from projseg.algebra.expressions.text.dialect import sql_tokens
from projseg.errors import InvalidInputError

_TEXTS_KEPT: Final = 8192
_ALONE: Final = re.compile(r"\s*(?:\?|:\s*\w+)\s*")


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of some texts.

    Parameters
    ----------
    texts : tuple of str or None
        The texts, in which the first `?` of all has become `:1`, the second `:2`.
    names : frozenset of str
        The names in them; of numbered ones the digits.
    positions : int
        How many `?` the texts had.
    """

    texts: tuple[str | None, ...]
    names: frozenset[str]
    positions: int


def parameter_names(text: str | None) -> frozenset[str]:
    """Return the names of the parameters in a text whose `?` are numbered.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if a quote or a comment is left open.
    """
    if text is None or ":" not in text:
        return frozenset()
    return _parameters((text,)).names


def has_parameters(text: str) -> bool:
    """Whether a text may have a parameter, and so mean something else with other values."""
    if ":" not in text and "?" not in text:
        return False
    try:
        found = _parameters((text,))
    except InvalidInputError:
        return True
    return bool(found.names or found.positions)


def refuse_alone(text: str, clause: str) -> None:
    """Refuse a parameter that is a whole term of a clause of names.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT.
    """
    if _ALONE.fullmatch(text) is not None:
        raise misplaced(text.strip(), f"is a whole term of {clause}, where a name belongs")


def parameters(texts: Iterable[str | None]) -> Parameters:
    """Return the parameters of texts, whose `?` are counted through all of them in their order.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT if they have both `?` and names, PROJSEG_BAD_EXPRESSION if a quote or
        a comment is left open.
    """
    given = tuple(texts)
    if not any(text is not None and (":" in text or "?" in text) for text in given):
        return Parameters(given, frozenset(), 0)
    return _parameters(given)


@lru_cache(maxsize=_TEXTS_KEPT)
def _parameters(texts: tuple[str | None, ...]) -> Parameters:
    names: set[str] = set()
    numbered: list[str | None] = []
    position = 0
    for text in texts:
        if text is None or (":" not in text and "?" not in text):
            numbered.append(text)
            continue
        parts, done = [], 0
        tokens = sql_tokens(text)
        names.update(tokens[place].text for place in parameter_places(tokens))
        for token in tokens:
            if token.token_type == TokenType.PLACEHOLDER:
                position += 1
                parts += [text[done : token.start], f":{position}"]
                done = token.end + 1
        numbered.append("".join([*parts, text[done:]]))
    if position and names:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"parameters are written ? and by name, :{', :'.join(sorted(names))}; write all of "
            "them one way",
        )
    return Parameters(
        tuple(numbered), frozenset(names or map(str, range(1, position + 1))), position
    )
