"""Parse Spark SQL text into sqlglot's tree, or take it apart at the keywords of its clauses."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, ClassVar, Final

import msgspec
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.expression_limits import (
    check_text,
    check_written_depth,
    room_to_recurse,
    too_deep,
)
from projseg.algebra.expressions.parameters.parameter_places import check_places, parameter_places
from projseg.algebra.expressions.patterns.text_query import (
    Every,
    OfColumn,
    Some,
    TextQuery,
    Without,
    read_query_of_columns,
)
from projseg.errors import UnsupportedFeatureError

_TREES_KEPT: Final = 1024
_TEXT_MATCH: Final = "text_match"
PREFIX: Final = "SELECT "
"""What `parse_sql` puts before a text, so places in its trees are later by so much."""


class SparkExpression(Spark):
    """Spark's dialect without sqlglot's own reading of functions, which loses their spelling."""

    class Tokenizer(Spark.Tokenizer):
        """Reads a doubled quote as one quote."""

        STRING_ESCAPES: ClassVar = ["\\", "'", '"']
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if not word.startswith("?")  # ? is a parameter, whatever follows it
        }

    class Parser(Spark.Parser):  # type: ignore[valid-type, misc]  # it is a variable there
        """Leaves each `name(...)` as a call by that name."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            # They would drop or rename arguments.
            if name not in ("MIN_BY", "MAX_BY", "INITCAP", "LISTAGG", "STRING_AGG")
            and "PERCENTILE" not in name
        }
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **Spark.Parser.PLACEHOLDER_PARSERS,
            TokenType.COLON: lambda self: self._parse_parameter(),
        }

        def _parse_parameter(self) -> exp.Placeholder | None:
            """Return the parameter of `:name`; `parameter_places` has made its name one."""
            colon, name = self._prev, self._curr
            if name is None or name.start != colon.end + 1 or not self._match(TokenType.VAR):
                return None
            return exp.Placeholder(this=name.text)

        def _parse_csv(
            self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
        ) -> list[Any]:
            """Refuse empty parts of a list, which sqlglot would drop."""
            is_first = True

            def parse_part() -> Any:
                nonlocal is_first
                part = parse_method()
                if part is None and not (is_first and self._is_end_of_list(sep)):
                    self.raise_error("a part of a list is empty")
                is_first = False
                return part

            parts: list[Any] = super()._parse_csv(parse_part, sep)
            return parts

        def _parse_where(self, skip_where_token: bool = False) -> exp.Where | None:
            """Refuse FILTER (condition), which sqlglot reads as FILTER (WHERE condition)."""
            if skip_where_token and self._prev.token_type != TokenType.WHERE:
                self.raise_error("Expecting WHERE")
            found: exp.Where | None = super()._parse_where(skip_where_token)
            return found

        def _is_end_of_list(self, sep: TokenType) -> bool:
            return self._curr is None or self._curr.token_type != sep

    def tokenize(self, sql: str, *dialect: Any) -> list[Token]:
        """Return the tokens of a text, in which names of parameters are no keywords.

        Older releases of sqlglot have no second parameter.
        """
        tokens: list[Token] = super().tokenize(sql, *dialect)
        if ":" in sql:
            for place in parameter_places(tokens):
                tokens[place].token_type = TokenType.VAR
        return tokens


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
    # Values of parameters are put in when a tree is bound, so one tree serves all of them.
    return _kept(text) if ":" in text else _parsed(text)


def _parsed(text: str) -> exp.Expression:
    try:
        with room_to_recurse():
            trees = SparkExpression().parse(f"{PREFIX}{text}\n")
    except (SqlglotError, ValueError) as error:
        raise bad_expression(f"'{text}' is not a Spark SQL expression{_reason(error)}") from error
    except RecursionError as error:
        raise too_deep() from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or len(_parts(tree)) != 1:
        raise bad_expression(f"'{text}' is not one Spark SQL expression")
    found: exp.Expression = tree.expressions[0]
    if _TEXT_MATCH in text.casefold():
        found = found.transform(_of_columns)
    check_written_depth(found)
    if "?" in text or ":" in text:
        check_places(found)
    return found


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
    return f": {plain}" if plain and "tokenizing" not in plain else ""


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


_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


class Clause(msgspec.Struct, frozen=True):
    """A keyword, and what follows it up to the next clause.

    Parameters
    ----------
    keyword : Token
        What opens it.
    tokens : tuple of Token
        What stands after the keyword.
    text : str
        The same as it is written.
    """

    keyword: Token
    tokens: tuple[Token, ...]
    text: str


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
        reason = " ".join(str(error).split())
        raise bad_expression(f"SQL that cannot be read: {reason}") from error


def outside_brackets(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens that stand in no brackets; brackets themselves are left out."""
    depth = 0
    for token in tokens:
        is_bracket = token.token_type in _OPENING or token.token_type in _CLOSING
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and not is_bracket:
            yield token


def clauses(sql: str, tokens: Sequence[Token], keywords: Container[TokenType]) -> list[Clause]:
    """Return the clauses of a text in their order; what stands before the first is left out.

    Parameters
    ----------
    sql : str
        The text.
    tokens : sequence of Token
        Its tokens.
    keywords : container of TokenType
        What opens a clause; FROM after DISTINCT, as in `a IS DISTINCT FROM b`, does not.
    """
    openings, before = [], None
    for token in outside_brackets(tokens):
        if token.token_type in keywords and before != TokenType.DISTINCT:
            openings.append(token)
        before = token.token_type
    bounds = pairwise([*(token.start for token in openings), len(sql)])
    return [
        Clause(
            keyword,
            tuple(token for token in tokens if keyword.end < token.start < end),
            sql[keyword.end + 1 : end].strip(),
        )
        for keyword, (_, end) in zip(openings, bounds, strict=True)
    ]


def list_parts(tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    """Return the parts of a list, which commas outside brackets separate."""
    commas = {id(t) for t in outside_brackets(tokens) if t.token_type == TokenType.COMMA}
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if id(token) in commas:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts]
