"""LIKE, ILIKE and RLIKE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.rule import Datum, Evaluator, Rule, literal_of
from projseg.algebra.expressions.functions.text import by_row
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import EvaluationError, InvalidInputError

_ONE_CHARACTER: Final = r"(?s:.)"
_NO_REGEX: Final = (
    "RLIKE's pattern is no regular expression of RE2 (no look-around, no back-references)"
)
_ANY_CHARACTERS: Final = r"(?s:.*)"


def _build_like(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """`text LIKE pattern [ESCAPE character]`, written with backslash as the escape."""
    text, pattern = (cast_to(argument, pa.string(), zone) for argument in arguments[:2])
    if len(arguments) > 2:
        escape = str(literal_of(arguments, 2, "the escape of LIKE"))
        written = literal_of((text, pattern), 1, "the pattern of LIKE with ESCAPE")
        if len(escape) != 1:
            raise bad_expression("the escape of LIKE must be one character")
        pattern = Literal(pa.string(), _with_backslashes(written, escape))
    if isinstance(pattern, Literal) and pattern.value is not None:
        like_regex(str(pattern.value))
    return Call(pa.bool_(), "like", (text, pattern))


def _build_ilike(arguments: tuple[Expression, ...], zone: str) -> Expression:
    lowered = [Call(pa.string(), "lower", (cast_to(a, pa.string(), zone),)) for a in arguments[:2]]
    return _build_like((*lowered, *arguments[2:]), zone)


def _with_backslashes(pattern: str, escape: str) -> str:
    """Return a pattern of another escape character as one whose escape is the backslash."""
    if escape == "\\":
        return pattern
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise bad_expression(f"the pattern '{pattern}' escapes '{escaped}'")
            parts.append("\\" + escaped if escaped in "%_" else _literal_part(escape))
        else:
            parts.append(_literal_part(character) if character == "\\" else character)
    return "".join(parts)


def _literal_part(character: str) -> str:
    return "\\\\" if character == "\\" else character


@lru_cache(maxsize=1024)
def like_regex(pattern: str) -> str:
    """Return the regular expression of a LIKE pattern.

    Raises
    ------
    InvalidInputError
        If a backslash stands before anything but %, _ and a backslash.
    """
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("%", "_", "\\") or not escaped:
                raise bad_expression(
                    f"the LIKE pattern '{pattern}' has a backslash before '{escaped}'; "
                    "only %, _ and \\ may be escaped"
                )
            parts.append(re.escape(escaped))
        elif character == "%":
            parts.append(_ANY_CHARACTERS)
        else:
            parts.append(_ONE_CHARACTER if character == "_" else re.escape(character))
    return "".join(parts)


def _like(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    text, pattern = arguments
    if not isinstance(pattern, pa.Scalar) or isinstance(text, pa.Scalar):
        return by_row(_matches_like, arguments, row_count, call.type)
    wanted = pattern.as_py()
    body = wanted.strip("%")
    if "%" not in body and "_" not in body and "\\" not in body:
        return _plain_like(text, wanted, body)
    return pc.match_substring_regex(text, rf"\A{like_regex(wanted)}\z")


def _plain_like(text: pa.Array, pattern: str, body: str) -> pa.Array:
    """Return LIKE of a pattern whose only wildcards are % at its ends."""
    opens, closes = pattern.startswith("%"), pattern.endswith("%")
    if opens and closes:
        return pc.match_substring(text, body)
    if opens:
        return pc.ends_with(text, body)
    return pc.starts_with(text, body) if closes else pc.equal(text, body)


def _matches_like(text: str, pattern: str) -> bool:
    try:
        return re.fullmatch(like_regex(pattern), text) is not None
    except InvalidInputError as error:
        raise EvaluationError("PROJSEG_EVALUATION_BAD_ARGUMENT", error.message) from error


def _rlike(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    text, pattern = arguments
    try:
        if not isinstance(pattern, pa.Scalar) or isinstance(text, pa.Scalar):
            return by_row(_matches_regex, arguments, row_count, call.type)
        return pc.match_substring_regex(text, pattern.as_py())
    except pa.ArrowInvalid as error:
        raise EvaluationError("PROJSEG_EVALUATION_BAD_ARGUMENT", _NO_REGEX) from error


def _matches_regex(text: str, pattern: str) -> bool:
    found = pc.match_substring_regex(pa.array([text]), pattern)
    return bool(found[0].as_py())


def _build_rlike(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text, pattern = (cast_to(argument, pa.string(), zone) for argument in arguments)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            _matches_regex("", pattern.value)
        except pa.ArrowInvalid as error:
            raise bad_expression(f"'{pattern.value}': {_NO_REGEX}") from error
    return Call(pa.bool_(), "rlike", (text, pattern))


RULES: Final[dict[str, Rule]] = {
    "like": Rule(_build_like, 2, 3),
    "ilike": Rule(_build_ilike, 2, 3),
    "rlike": Rule(_build_rlike, 2, 2),
    "regexp": Rule(_build_rlike, 2, 2),
    "regexp_like": Rule(_build_rlike, 2, 2),
}
EVALUATORS: Final[dict[str, Evaluator]] = {"like": _like, "rlike": _rlike}
