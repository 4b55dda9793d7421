"""LIKE, ILIKE, RLIKE and the parts of texts that patterns find."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.catalyst_call import CONSTANT, TEXT, failing_call
from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    SEARCHED_TEXTS_MIN,
    Datum,
    all_valid,
    as_array,
    constant_of,
    literal_of,
    searched,
    whole_of,
)
from projseg.algebra.expressions.functions.row_texts import (
    texts_of,
    truths,
    written_texts,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    never,
    unordered,
    written_infix,
)
from projseg.algebra.expressions.patterns import (
    accepted_pattern,
    check_pattern,
    pattern_may_fail,
    read_finder,
    read_pattern,
    read_replacer,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import EvaluationError, InvalidInputError
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    primitive_values,
)

_ONE_CHARACTER: Final = r"(?s:.)"
_ANY_CHARACTERS: Final = r"(?s:.*)"


def _build_like(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build `text LIKE pattern [ESCAPE character]` as LIKE with backslash as the escape."""
    text, pattern = (cast_to(argument, pa.string(), zone) for argument in arguments[:2])
    if len(arguments) > 2:
        escape = str(literal_of(arguments, 2, "the escape of LIKE"))
        written = literal_of((text, pattern), 1, "the pattern of LIKE with ESCAPE")
        if len(escape) != 1:
            raise bad_expression("the escape of LIKE must be one character")
        pattern = Literal(pa.string(), _with_backslashes(written, escape))
    if isinstance(pattern, Literal) and pattern.value is not None:
        like_pieces(str(pattern.value))
    return Call(pa.bool_(), "like", (text, pattern))


def _build_ilike(arguments: tuple[Expression, ...], zone: str) -> Expression:
    texts = (_lowered(cast_to(argument, pa.string(), zone)) for argument in arguments[:2])
    return _build_like((*texts, *arguments[2:]), zone)


def _lowered(text: Expression) -> Expression:
    """Return a text in lower case; a constant stays a constant, since ESCAPE needs one."""
    if isinstance(text, Literal) and isinstance(text.value, str):
        return Literal(text.type, text.value.lower())
    return Call(pa.string(), "lower", (text,))


def _with_backslashes(pattern: str, escape: str) -> str:
    """Return a pattern with its escape character replaced by the backslash."""
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
def like_pieces(pattern: str) -> tuple[tuple[str | None, ...], ...]:
    """Return the pieces of a LIKE pattern between its %: characters, and None for each _.

    Raises InvalidInputError if a backslash stands before anything but %, _ and a backslash.
    """
    pieces: list[tuple[str | None, ...]] = []
    piece: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("%", "_", "\\") or not escaped:
                raise bad_expression(
                    f"the LIKE pattern '{pattern}' has a backslash before '{escaped}'; "
                    "only %, _ and \\ may be escaped"
                )
            piece.append(escaped)
        elif character == "%":
            pieces.append(tuple(piece))
            piece = []
        else:
            piece.append(None if character == "_" else character)
    return (*pieces, tuple(piece))


def _like_regex(pattern: str) -> str:
    """Return RE2's form of a LIKE pattern."""
    pieces = (
        "".join(_ONE_CHARACTER if part is None else re.escape(part) for part in piece)
        for piece in like_pieces(pattern)
    )
    return rf"\A{_ANY_CHARACTERS.join(pieces)}\z"


def _like(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    text, pattern = arguments
    wanted = constant_of(pattern)
    if wanted is None or isinstance(text, pa.Scalar):
        return _like_by_row(arguments, row_count)
    body = wanted.strip("%")
    if "%" not in body and "_" not in body and "\\" not in body:
        return _plain_like(text, wanted, body)
    if len(text) >= SEARCHED_TEXTS_MIN:
        return _searched(text, wanted)
    try:
        return pc.match_substring_regex(text, _like_regex(wanted))
    except pa.ArrowInvalid:  # RE2 refuses patterns that are too large for it
        return _searched(text, wanted)


def _like_by_row(arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return LIKE by the pattern of each row; EvaluationError if a text is no pattern."""
    with late_import:
        from projseg.kernels.texts.like_texts import like_pairs
    text, pattern = arguments
    valid = all_valid(arguments, row_count)
    found, wrong = like_pairs(texts_of(text), texts_of(pattern), valid)
    if wrong >= 0:
        try:
            like_pieces(as_array(pattern, row_count)[wrong].as_py())
        except InvalidInputError as error:
            raise EvaluationError("PROJSEG_EVALUATION_BAD_ARGUMENT", error.message) from error
    return truths(found, valid)


def _plain_like(text: pa.Array, pattern: str, body: str) -> pa.Array:
    """Return LIKE of a pattern whose only wildcards are % at its ends."""
    opens, closes = pattern.startswith("%"), pattern.endswith("%")
    if ((opens and closes and body) or not (opens or closes)) and len(text) >= SEARCHED_TEXTS_MIN:
        return _searched(text, pattern)
    if opens and closes:
        return pc.match_substring(text, body)
    if opens:
        return pc.ends_with(text, body)
    return pc.starts_with(text, body) if closes else pc.equal(text, body)


def _searched(text: pa.Array, pattern: str) -> pa.Array:
    """Return LIKE of many texts, in compiled code."""
    with late_import:
        from projseg.kernels.texts.like_texts import ANY, ONE
    codes: list[int] = []
    for piece in like_pieces(pattern):
        for part in piece:
            codes.extend([ONE] if part is None else part.encode())
        codes.append(ANY)
    return searched(text, codes[:-1])


def _rlike(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    text, pattern = arguments
    wanted = constant_of(pattern)
    if wanted is None or isinstance(text, pa.Scalar):
        return _rlike_by_row(arguments, row_count)
    return accepted_pattern(read_pattern, wanted).search(text)


def _rlike_by_row(arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return RLIKE by the pattern of each row; one that no kernel takes is read once."""
    with late_import:
        from projseg.kernels.texts.pattern_texts import matching_pairs
    valid = all_valid(arguments, row_count)
    found, left = matching_pairs(texts_of(arguments[0]), texts_of(arguments[1]), valid)
    rows = np.flatnonzero(left)
    texts, patterns = (as_array(argument, row_count) for argument in arguments)
    encoded = patterns.take(primitive_array(rows)).dictionary_encode()
    ids = filled_values(encoded.indices, 0)
    order = np.argsort(ids, kind="stable")
    bounds = np.flatnonzero(np.diff(ids[order])) + 1
    for some in np.split(order, bounds) if len(rows) else ():
        pattern = accepted_pattern(read_pattern, encoded.dictionary[ids[some[0]]].as_py())
        together = primitive_array(rows[some])
        found[rows[some]] = primitive_values(pattern.search(texts.take(together)))
    return truths(found, valid)


def _build_rlike(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text, pattern = (cast_to(argument, pa.string(), zone) for argument in arguments)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        check_pattern(read_pattern, pattern.value)
    return Call(pa.bool_(), "rlike", (text, pattern))


def _build_regexp_extract(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text = cast_to(arguments[0], pa.string(), zone)
    pattern = str(literal_of(arguments, 1, "the pattern of regexp_extract"))
    group = whole_of(arguments, 2, "the group of regexp_extract") if arguments[2:] else 1
    check_pattern(read_finder, pattern, group)
    parts = text, Literal(pa.string(), pattern), Literal(pa.int32(), group)
    return Call(pa.string(), "regexp_extract", parts)


def _finder_arguments(call: Call) -> tuple[str, int]:
    pattern, group = (a.value for a in call.arguments[1:] if isinstance(a, Literal))
    return str(pattern), int(str(group))


def _regexp_extract(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    found = accepted_pattern(read_finder, *_finder_arguments(call))
    return found.extract(as_array(arguments[0], row_count))


def _build_regexp_replace(arguments: tuple[Expression, ...], zone: str) -> Expression:
    text = cast_to(arguments[0], pa.string(), zone)
    if any(isinstance(a, Literal) and a.value is None for a in arguments[1:]):
        return Literal(pa.string(), None)
    pattern = str(literal_of(arguments, 1, "the pattern of regexp_replace"))
    replacement = str(literal_of(arguments, 2, "the replacement of regexp_replace"))
    if arguments[3:] and literal_of(arguments, 3, "the position of regexp_replace") != 1:
        raise bad_expression("regexp_replace begins at position 1; replace in a substring instead")
    check_pattern(read_replacer, pattern, replacement)
    parts = text, Literal(pa.string(), pattern), Literal(pa.string(), replacement)
    return Call(pa.string(), "regexp_replace", parts)


def _replacer_arguments(call: Call) -> tuple[str, str]:
    pattern, replacement = (str(a.value) for a in call.arguments[1:] if isinstance(a, Literal))
    return pattern, replacement


def _regexp_replace(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    found = accepted_pattern(read_replacer, *_replacer_arguments(call))
    texts, instead = as_array(arguments[0], row_count), found.text_instead
    if found.one_or_more is None or instead is None:
        return found.replaced(texts)
    with late_import:
        from projseg.kernels.texts.text_sets import character_set, replaced_runs
    bounds, is_run = found.one_or_more
    members, content = character_set(bounds), np.frombuffer(instead.encode(), np.uint8)
    return written_texts(
        lambda valid, most: replaced_runs(
            texts_of(texts), members, content, valid, is_run=is_run, most=most
        ),
        [texts],
        row_count,
        call.type,
    )


def _like_may_fail(call: Call) -> bool:
    """Whether the pattern is not constant; a constant one was checked when it was bound."""
    return not isinstance(call.arguments[1], Literal)


def _rlike_may_fail(call: Call) -> bool:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal):
        return True
    return isinstance(pattern.value, str) and pattern_may_fail(read_pattern, pattern.value)


def _matching(
    evaluate: Evaluator, may_fail: Callable[[Call], bool], *spellings: Spelling
) -> ScalarFunction:
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=may_fail,
        order=unordered,
        canonical_folds_null=True,
        text=written_infix,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "like": _matching(
        _like,
        _like_may_fail,
        Spelling("like", _build_like, 2, 3),
        Spelling("ilike", _build_ilike, 2, 3),
    ),
    "rlike": _matching(
        _rlike,
        _rlike_may_fail,
        Spelling(
            "rlike",
            _build_rlike,
            2,
            2,
            aliases=("regexp", "regexp_like"),
            catalyst=failing_call("RLike", TEXT, CONSTANT),
        ),
    ),
    "regexp_extract": ScalarFunction(
        spellings=(
            Spelling(
                "regexp_extract",
                _build_regexp_extract,
                2,
                3,
                catalyst=failing_call("RegExpExtract", TEXT, CONSTANT, CONSTANT),
            ),
        ),
        evaluate=_regexp_extract,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=lambda call: pattern_may_fail(read_finder, *_finder_arguments(call)),
        order=unordered,
        canonical_folds_null=True,
    ),
    "regexp_replace": ScalarFunction(
        spellings=(Spelling("regexp_replace", _build_regexp_replace, 3, 4),),
        evaluate=_regexp_replace,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=lambda call: pattern_may_fail(read_replacer, *_replacer_arguments(call)),
        order=unordered,
        canonical_folds_null=True,
    ),
}
