"""Spark SQL text as sqlglot's tree, and a tree as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from typing import Final

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.expression_limits import (
    check_text,
    check_written_depth,
    room_to_recurse,
    too_deep,
)
from projseg.algebra.expressions.parameters.parameter_places import check_places
from projseg.algebra.expressions.patterns.text_query import (
    Every,
    OfColumn,
    Some,
    TextQuery,
    Without,
    read_query_of_columns,
)
from projseg.algebra.expressions.text.spark_dialect import SparkExpression
from projseg.errors import InvalidInputError, UnsupportedFeatureError

_TREES_KEPT: Final = 1024
_KEPT_CHARACTERS_MAX: Final = 1_000
"""Longer texts are kept only if they have parameters."""
_TEXT_MATCH: Final = "text_match"


_GENERATOR: Final = SparkExpression.Generator(
    dialect=SparkExpression, comments=False, normalize_functions=False,
    unsupported_level=ErrorLevel.IGNORE,
)  # fmt: skip


def parse_sql(text: str) -> exp.Expression:
    """Return sqlglot's tree of one expression, with or without an alias.

    Raises
    ------
    InvalidInputError
        If the text is not one expression.
    LimitExceededError
        If it exceeds a limit of `expressions.limits`.
    """
    check_text(text)
    # Values of parameters are put in when a tree is bound, so one tree serves all of them. A SELECT
    # asks for the trees of its parts several times, and no caller changes one.
    return _kept(text) if ":" in text or len(text) <= _KEPT_CHARACTERS_MAX else _parsed(text)


def _parsed(text: str) -> exp.Expression:
    try:
        with room_to_recurse():
            trees = SparkExpression().parse(f"SELECT {text}\n")
    except (SqlglotError, ValueError) as error:
        raise bad_expression(f"'{text}' is not a Spark SQL expression{_reason(error)}") from error
    except RecursionError as error:
        raise too_deep() from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or len(_parts(tree)) != 1:
        raise bad_expression(f"'{text}' is not one Spark SQL expression")
    return _checked(tree.expressions[0], text)


def _checked(tree: exp.Expression, text: str) -> exp.Expression:
    if _TEXT_MATCH in text.casefold():
        tree = tree.transform(_of_columns)
    check_written_depth(tree)
    if "?" in text or ":" in text:
        check_places(tree)
    return tree


def parse_tokens(sql: str, tokens: Sequence[Token]) -> exp.Expression:
    """Return sqlglot's tree of one statement.

    Parameters
    ----------
    sql : str
        The statement.
    tokens : sequence of Token
        Its tokens, as of `sql_tokens`.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SQL, PROJSEG_BAD_ARGUMENT, PROJSEG_BAD_TEXT_QUERY.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG.
    """
    try:
        with room_to_recurse():
            trees = SparkExpression().parser().parse(list(tokens), sql)
    except (SqlglotError, ValueError) as error:
        problem = f"a statement is not Spark SQL{_reason(error)}{_place(error, sql)}"
        raise InvalidInputError("PROJSEG_BAD_SQL", problem) from error
    except RecursionError as error:
        raise too_deep() from error
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInputError("PROJSEG_BAD_SQL", "there is no statement, or a second statement")
    return _checked(trees[0], sql)  # type: ignore[arg-type]  # statements are expressions


def sql_of(tree: exp.Expression) -> str:
    """Return the text of a tree, which is read as the same tree."""
    with room_to_recurse():
        return str(_GENERATOR.generate(tree))


def _of_columns(node: exp.Expression) -> exp.Expression:
    """Return calls of text_match with two arguments for CarbonData's of one, and other nodes.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_TEXT_QUERY.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION for TEXT_MATCH_WITH_LIMIT.
    """
    name = str(node.this).casefold() if isinstance(node, exp.Anonymous) else ""
    if name == f"{_TEXT_MATCH}_with_limit":
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"{name} is not supported; write {_TEXT_MATCH} in WHERE, and LIMIT at the query's end",
        )
    arguments = node.expressions if name == _TEXT_MATCH else []
    if len(arguments) != 1 or not arguments[0].is_string:
        return node
    return exp.Paren(this=_condition_of(read_query_of_columns(arguments[0].this)))


def _condition_of(query: TextQuery) -> exp.Expression:
    if isinstance(query, OfColumn):
        column = exp.column(exp.to_identifier(query.column, quoted=True))
        return exp.Anonymous(
            this=_TEXT_MATCH, expressions=[column, exp.Literal.string(query.query)]
        )
    if isinstance(query, Without):
        return exp.Not(this=exp.Paren(this=_condition_of(query.part)))
    assert isinstance(query, Every | Some)  # no phrase is outside of a column
    join = exp.And if isinstance(query, Every) else exp.Or
    parts: list[exp.Expression] = [exp.Paren(this=_condition_of(part)) for part in query.parts]
    return reduce(lambda left, right: join(this=left, expression=right), parts)


_kept: Final = lru_cache(maxsize=_TREES_KEPT)(_parsed)


def _reason(error: Exception) -> str:
    """Return what sqlglot says, without the names of its classes and its line numbers."""
    first = (str(error).splitlines() or [""])[0]
    plain = re.sub(r"\s*(for <class '[^']*'>|Line \d+, Col: \d+)\.?", "", first).strip(" .")
    if "tokenizing" in plain:
        return ": a quote, a backtick or a comment has no end"
    return f": {plain}" if plain else ""


def _place(error: Exception, sql: str) -> str:
    """Return which character sqlglot met, if it says so."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if not found.get("line") or not found.get("highlight"):
        return ""
    lines = sql.split("\n")[: found["line"] - 1]
    end = sum(len(line) + 1 for line in lines) + found["col"]
    return f", at character {end - len(found['highlight']) + 1}"


def split_list(text: str) -> list[str]:
    """Return the parts of comma-separated SQL, at commas outside brackets, quotes and comments.

    Raises
    ------
    InvalidInputError
        If a bracket or quote is left open, or a part is empty.
    """
    if not text.strip():
        return []
    return list(_split(text))


@lru_cache(maxsize=_TREES_KEPT)
def _split(text: str) -> tuple[str, ...]:
    return tuple(_parts_of(text))


def _parts_of(text: str) -> Iterator[str]:
    try:
        tokens = SparkExpression().tokenize(text)
    except SqlglotError as error:
        raise bad_expression(f"'{text}' is not a list of SQL{_reason(error)}") from error
    opening = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
    closing = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
    depth, start, ends = 0, 0, []
    for token in tokens:
        depth += (token.token_type in opening) - (token.token_type in closing)
        if token.token_type == TokenType.COMMA and depth == 0:
            ends.append(token.start)
    for end in [*ends, len(text)]:
        part = text[start:end].strip()
        if not part or depth != 0:
            raise bad_expression(f"'{text}' has an empty part or an open bracket; write a, b, c")
        yield part
        start = end + 1


def _parts(select: exp.Select) -> list[str]:
    return [key for key, value in select.args.items() if value and key != "kind"]


def sql_tokens(sql: str) -> list[Token]:
    """Return the tokens of an SQL text; `start` and `end`, the last character, are places in it.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if a quote or a comment is left open.
    """
    try:
        return SparkExpression().tokenize(sql)
    except SqlglotError as error:
        raise bad_expression(
            f"a quote, a backtick or a comment that begins in {sql[:200]!r} has no end; close it, "
            "and write a quote within a text as \\'"
        ) from error
