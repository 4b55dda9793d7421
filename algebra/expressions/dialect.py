"""Spark SQL text as sqlglot's tree, a tree as text, and `SparkExpression`, the dialect of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.hive import Hive
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.expression_limits import (
    TYPE_DEPTH_MAX,
    check_places,
    check_text,
    check_written_depth,
    parameter_places,
    room_to_recurse,
    too_deep,
)
from projseg.algebra.expressions.patterns.text_query import (
    Every,
    OfColumn,
    Some,
    TextQuery,
    Without,
    read_query_of_columns,
)
from projseg.algebra.expressions.stopped_parser import OPEN_QUOTE, refusal_of
from projseg.algebra.expressions.strict_parser import StrictParser, closed
from projseg.errors import InvalidInputError, UnsupportedFeatureError

_TREES_KEPT: Final = 1024
_KEPT_CHARACTERS_MAX: Final = 1_000  # longer texts are kept only if they have parameters
_TEXT_MATCH: Final = "text_match"
_BEFORE: Final = "SELECT "  # an expression, which makes it a statement


_OPERATORS: Final = frozenset(
    ("==", "<=>", "<>", "!=", "<=", ">=", "!>", "!<", "||", "::", "->", "=>", "/*+")
)
"""Those of Spark's with several signs; sqlglot knows others, such as ~~ for LIKE."""


class UnsignedRightShift(exp.BitwiseRightShift, exp.Func):
    """`left >>> right`, for which sqlglot has no node; other dialects write it as a call."""

    _sql_names: ClassVar = ["SHIFTRIGHTUNSIGNED"]


_BITWISE: Final[dict[str, tuple[int, type[exp.Expression]]]] = {
    "|": (0, exp.BitwiseOr),
    "^": (1, exp.BitwiseXor),
    "&": (2, exp.BitwiseAnd),
    "<<": (3, exp.BitwiseLeftShift),
    ">>": (3, exp.BitwiseRightShift),
    ">>>": (3, UnsignedRightShift),
}
"""Operators that bind looser than + and -, and how tight; to sqlglot they are alike."""
# Spark has functions of these names.
_NO_WORDS: Final = frozenset[TokenType]((TokenType.ISNULL, TokenType.NOTNULL))
_SIGNS: Final = frozenset(
    (TokenType.PIPE, TokenType.CARET, TokenType.AMP, TokenType.LT, TokenType.GT)
)


_TEXT_TYPES: Final = (exp.DataType.Type.CHAR, exp.DataType.Type.VARCHAR)


def _of_a_value(node: type[exp.Expression]) -> Callable[[Any], exp.Expression]:
    """Return a parser of `name(value[, digits])` that refuses a call without a value."""

    @closed
    def parse(parser: Any) -> exp.Expression:
        # sqlglot's parsers of functions are made of these.
        arguments = parser._parse_csv(parser._parse_disjunction)  # noqa: SLF001
        if not 1 <= len(arguments) <= 2:
            parser.refuse(f"{node.key.upper()} has not one or two arguments")
        return node(**dict(zip(("this", "decimals"), arguments, strict=False)))

    return parse


_KEYWORDS: Final = frozenset(
    kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word[0].isalpha()
) - {TokenType.VAR}


def _is_name_after(
    before: TokenType | None, kind: TokenType | None, after: TokenType | None
) -> bool:
    """Whether a keyword is a name for what stands before and after it."""
    if kind in (TokenType.ALL, TokenType.DISTINCT) and before != TokenType.DOT:
        is_first = before in (TokenType.SELECT, TokenType.L_PAREN)
        return is_first and after in (TokenType.PLUS, TokenType.L_BRACKET)
    if kind == TokenType.ALIAS and before in (TokenType.SELECT, TokenType.DISTINCT):
        return True
    return before == TokenType.DOT and kind in _KEYWORDS


def _is_name_of_digits(token: Token, sql: str) -> bool:
    """Whether a token is a name to Spark, and to sqlglot a number or the digits of bytes."""
    if token.token_type == TokenType.HEX_STRING:
        return sql[token.start] == "0"
    return token.token_type == TokenType.NUMBER and token.text[-1] in "eE"


_COMMENTS: Final = re.compile(r"(?:--|/\*).*", re.DOTALL)  # in what lies between two tokens


class SparkExpression(Spark):
    """Spark's dialect: its operators in its order, each name a name, each function as spelled."""

    class Tokenizer(Spark.Tokenizer):
        """Tokenizer that reads a doubled quote as one quote."""

        STRING_ESCAPES: ClassVar = ["\\", "'", '"']
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            # `_parse_version` reads AS OF.
            if (word[0].isalpha() or word in _OPERATORS)
            and kind not in _NO_WORDS
            and "SNAPSHOT" not in kind.name
        } | {"!>": TokenType.LTE, "!<": TokenType.GTE}

    class Parser(StrictParser):
        """Leaves each `name(...)` as a call by that name."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
        TERM: ClassVar[dict[TokenType, Any]] = {
            **Spark.Parser.TERM,
            TokenType.DPIPE: exp.DPipe,
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            word: parse
            for word, parse in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items()
            if word != "CONNECT_BY_ROOT"
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: closed(parse)
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            # They would drop or rename arguments, or are none of Spark's.
            if name not in ("MIN_BY", "MAX_BY", "INITCAP", "LISTAGG", "STRING_AGG")
            and name not in ("CONVERT", "TRY_CONVERT", "SAFE_CAST")
            and "PERCENTILE" not in name
        } | {"CEIL": _of_a_value(exp.Ceil), "FLOOR": _of_a_value(exp.Floor)}
        PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **Spark.Parser.PRIMARY_PARSERS,
            TokenType.STRING: lambda self, token: self._parse_texts(token),
            TokenType.RAW_STRING: lambda self, token: self._parse_texts(token),
        }
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **Spark.Parser.PLACEHOLDER_PARSERS,
            TokenType.COLON: lambda self: self._parse_parameter(),
            TokenType.PLACEHOLDER: lambda self: self._parse_numbered(),
        }

        def _parse_parameter(self) -> exp.Placeholder | None:
            """Return the parameter of `:name`; `parameter_places` has made its name one."""
            colon, name = self._prev, self._curr
            if name is None or name.start != colon.end + 1 or not self._match(TokenType.VAR):
                return None
            return exp.Placeholder(this=name.text)

        def _parse_numbered(self) -> exp.Placeholder:
            """Return the parameter of `?`, to which `numbered_parameters` has given a number."""
            number = self._prev.text
            return exp.Placeholder(this=number) if number.isdecimal() else exp.Placeholder()

        def _parse_bitwise(self, least: int = 0) -> Any:
            """Parse terms between operators of `_BITWISE` that bind as tight or tighter."""
            found = self._parse_term()
            while True:
                start = self._index
                tightness, node = _BITWISE.get(self._step_over_signs(), (-1, exp.Expression))
                if tightness < least:
                    self._retreat(start)
                    return found
                right = self._parse_bitwise(tightness + 1)
                found = self.validate_expression(node(this=found, expression=right))

        def _parse_texts(self, first: Token) -> Any:
            """Join texts that stand side by side, raw ones too."""
            texts = [first.text]
            while self._curr and self._curr.token_type in (TokenType.STRING, TokenType.RAW_STRING):
                texts.append(self._curr.text)
                self._advance()
            return exp.Literal.string("".join(texts))

        def _step_over_signs(self) -> str:
            """Return the signs that stand here without a space between them."""
            signs = ""
            while self._curr and self._curr.token_type in _SIGNS:
                if signs and not self._is_connected():
                    break
                signs += self._curr.text
                self._advance()
            return signs

        def _parse_types(self, *args: Any, **named: Any) -> Any:
            """Refuse types nested so deeply that sqlglot's copies of their parts take long."""
            self._type_depth += 1
            try:
                if self._type_depth > TYPE_DEPTH_MAX:
                    raise too_deep()
                found: Any = super(Hive.Parser, self)._parse_types(  # type: ignore[misc]
                    *args, **named
                )
            finally:
                self._type_depth -= 1
            for one in [] if found is None else found.find_all(exp.DataTypeParam):
                if not isinstance(one.this, exp.Literal) or one.expression:
                    self.refuse("a type has something else than numbers in brackets")
            # As Hive's parser does, which parses the names of both types for each of a text.
            for one in [] if found is None else found.find_all(exp.DataType):
                if one.this in _TEXT_TYPES and not named.get("schema"):
                    one.set("this", exp.DataType.Type.TEXT)
                    one.set("expressions", None)
            return found

        def reset(self) -> None:
            """Reset the parser's state and its depth."""
            super().reset()
            self._type_depth = 0

        def _parse_interval(self, *args: Any, **named: Any) -> Any:
            """Parse `INTERVAL 1 MONTH 2 DAYS` as one literal, so that its text stays the same."""
            found = super()._parse_interval(*args, **named)
            return exp.Paren(this=found) if isinstance(found, exp.Add) else found

        def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
            """Return the terms of GROUP BY in their order, grouping sets as calls."""
            if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
                return None
            if self._match(TokenType.ALL):
                return exp.Group(all=True)
            terms = self._parse_csv(self._parse_group_term)
            if self._match(TokenType.WITH) and self._match_set((TokenType.ROLLUP, TokenType.CUBE)):
                terms = [exp.Anonymous(this=self._prev.text, expressions=terms)]
            return exp.Group(expressions=terms)

        def _parse_group_term(self) -> Any:
            if not self._match_set((TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS)):
                return self._parse_disjunction()
            name = self._prev.text
            parts = self._parse_wrapped_csv(self._parse_group_term)
            return exp.Anonymous(this=name, expressions=parts)

        def _parse_version(self) -> exp.Version | None:
            """Return the version of a table that Spark's AS OF asks for."""
            start = self._index
            self._match_text_seq("FOR")
            if self._match_texts(("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")):
                kind = self._prev.text.upper()
                if self._match_text_seq("AS", "OF"):
                    return exp.Version(this=kind, expression=self._parse_bitwise(), kind="AS OF")
            self._retreat(start)
            return None

    class Generator(Spark.Generator):  # type: ignore[valid-type, misc]  # it is a variable there
        """Writes constants of time as constants instead of casts."""

        # Columns may have these names, which would be read as `SELECT ALL`.
        RESERVED_KEYWORDS: ClassVar[set[str]] = {"all", "distinct"}

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Return `DATE '2024-05-01'` for it, and CAST for other casts."""
            is_constant = type(expression) is exp.Cast and expression.this.is_string
            if is_constant and expression.to.this in exp.DataType.TEMPORAL_TYPES:
                return f"{self.sql(expression.to)} {self.sql(expression.this)}"
            return str(super().cast_sql(expression, safe_prefix))

        def interval_sql(self, expression: exp.Interval) -> str:
            """Return an interval; a parameter in it stands without brackets."""
            if isinstance(expression.this, exp.Placeholder):
                return f"INTERVAL {self.sql(expression.this)} {self.sql(expression, 'unit')}"
            return str(super().interval_sql(expression))

        def _position_sql(self, expression: exp.StrPosition) -> str:
            """Return the call in its original form, not as `LOCATE`."""
            parts = (expression.args.get(name) for name in ("substr", "this", "position"))
            return f"position({', '.join(self.sql(part) for part in parts if part is not None)})"

        TRANSFORMS: ClassVar = {
            **Spark.Generator.TRANSFORMS,
            exp.StrPosition: _position_sql,
            exp.BitwiseLeftShift: lambda self, tree: self.binary(tree, "<<"),
            exp.BitwiseRightShift: lambda self, tree: self.binary(tree, ">>"),
            UnsignedRightShift: lambda self, tree: self.binary(tree, ">>>"),
        }

    def tokenize(self, sql: str, *dialect: Any) -> list[Token]:
        """Return the tokens of a text: what follows a dot is a name, and no parameter is a keyword.

        `0x41` and `1e` are names too, to sqlglot digits. Older releases of it have no second
        parameter.
        """
        tokens: list[Token] = super().tokenize(sql, *dialect)
        if "--" in sql or "/*" in sql:
            tokens = super().tokenize(blank_comments(sql, tokens), *dialect)
        kinds: list[TokenType | None] = [*(token.token_type for token in tokens), None]
        for place, token in enumerate(tokens[1:], start=1):
            if _is_name_after(kinds[place - 1], kinds[place], kinds[place + 1]):
                token.token_type = TokenType.IDENTIFIER
        for token in tokens:
            if _is_name_of_digits(token, sql):
                token.token_type, token.text = TokenType.VAR, sql[token.start : token.end + 1]
        if ":" in sql:
            for place in parameter_places(tokens):
                tokens[place].token_type = TokenType.VAR
        return tokens


def blank_comments(sql: str, tokens: Sequence[Token]) -> str:
    """Return a text with spaces for comments, so that GROUP and BY are one keyword around one."""
    parts, end = [], 0
    for token in tokens:
        if token.start >= end:  # `1L` is three tokens at one place
            gap = _COMMENTS.sub(_blank, sql[end : token.start])
            parts += [gap, sql[token.start : token.end + 1]]
            end = token.end + 1
    return "".join([*parts, _COMMENTS.sub(_blank, sql[end:])])


def _blank(comments: re.Match[str]) -> str:
    return re.sub(r"\S", " ", comments[0])


_GENERATOR: Final = SparkExpression.Generator(
    dialect=SparkExpression, comments=False, normalize_functions=False,
    unsupported_level=ErrorLevel.IGNORE,
)  # fmt: skip


class ParsedText(str):
    """The text of an expression with its tree; other texts equal it by their characters."""

    __slots__ = ("tree",)
    tree: exp.Expression

    def __new__(cls, text: str, tree: exp.Expression) -> ParsedText:
        """Return a text that is not parsed again."""
        found = super().__new__(cls, text)
        found.tree = tree
        return found

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # Another process parses it itself.
        return str, (str(self),)


def written(tree: exp.Expression) -> ParsedText:
    """Return the text of a tree."""
    return ParsedText(sql_of(tree), tree)


def checked_again(tree: exp.Expression) -> ParsedText:
    """Return the text of a tree that was put together, within the limits of a written one."""
    found = written(tree)
    check_text(found)
    _check(tree, found)
    return found


def parse_sql(text: str) -> exp.Expression:
    """Return sqlglot's tree of one expression, with or without an alias.

    Raises InvalidInputError if the text is not one expression, and LimitExceededError if it exceeds
    a limit of `expression_limits`.
    """
    if isinstance(text, ParsedText):
        return text.tree
    check_text(text)
    # Values of parameters are put in when a tree is bound, so one tree serves all of them. A SELECT
    # asks for the trees of its parts several times, and no caller changes one.
    return _kept(text) if ":" in text or len(text) <= _KEPT_CHARACTERS_MAX else _parsed(text)


def _parsed(text: str) -> exp.Expression:
    sql, tokens = f"{_BEFORE}{text}\n", list[Token]()
    try:
        with room_to_recurse():
            tokens = SparkExpression().tokenize(sql)
            trees = SparkExpression().parser().parse(list(tokens), sql)
    except TokenError as error:
        raise bad_expression(f"'{text}' is not a Spark SQL expression: {OPEN_QUOTE}") from error
    except (SqlglotError, ValueError) as error:
        found = refusal_of(error, tokens, sql, len(_BEFORE))
        raise bad_expression(f"'{text}' is not a Spark SQL expression{found}") from error
    except RecursionError as error:
        raise too_deep() from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or len(_parts(tree)) != 1:
        raise bad_expression(f"'{text}' is not one Spark SQL expression")
    return _checked(tree.expressions[0], text)


_kept: Final = lru_cache(maxsize=_TREES_KEPT)(_parsed)


def _parts(select: exp.Select) -> list[str]:
    return [key for key, value in select.args.items() if value and key != "kind"]


def parse_tokens(sql: str, tokens: Sequence[Token]) -> exp.Expression:
    """Return sqlglot's tree of one statement, of which `sql_tokens` returned the tokens."""
    try:
        with room_to_recurse():
            trees = SparkExpression().parser().parse(list(tokens), sql)
    except (SqlglotError, ValueError) as error:
        problem = f"a statement is not Spark SQL{refusal_of(error, tokens, sql)}"
        raise InvalidInputError("PROJSEG_BAD_SQL", problem) from error
    except RecursionError as error:
        raise too_deep() from error
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInputError("PROJSEG_BAD_SQL", "there is no statement, or a second statement")
    return _checked(trees[0], sql)  # type: ignore[arg-type]  # statements are expressions


def _checked(tree: exp.Expression, text: str) -> exp.Expression:
    if _TEXT_MATCH in text.casefold():
        tree = tree.transform(_of_columns)
    _check(tree, text)
    return tree


def _check(tree: exp.Expression, text: str) -> None:
    check_written_depth(tree)
    if "?" in text or ":" in text:
        check_places(tree)


def sql_of(tree: exp.Expression) -> str:
    """Return SQL text for a tree; parsing the text gives the same tree."""
    with room_to_recurse():
        return str(_GENERATOR.generate(tree))


def _of_columns(node: exp.Expression) -> exp.Expression:
    """Return calls of text_match with two arguments for CarbonData's of one, and other nodes.

    Raises PROJSEG_BAD_TEXT_QUERY, and PROJSEG_UNSUPPORTED_FUNCTION for TEXT_MATCH_WITH_LIMIT.
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


def split_list(text: str) -> list[str]:
    """Return the parts of comma-separated SQL, at commas outside brackets, quotes and comments.

    Raises InvalidInputError if a bracket or quote is left open, or a part is empty.
    """
    if not text.strip():
        return []
    return list(_split(text))


@lru_cache(maxsize=_TREES_KEPT)
def _split(text: str) -> tuple[str, ...]:
    try:
        tokens = SparkExpression().tokenize(text)
    except SqlglotError as error:
        raise bad_expression(f"'{text}' is not a list of SQL: {OPEN_QUOTE}") from error
    opening = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
    closing = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
    depth, start, ends, parts = 0, 0, [], []
    for token in tokens:
        depth += (token.token_type in opening) - (token.token_type in closing)
        if token.token_type == TokenType.COMMA and depth == 0:
            ends.append(token.start)
    for end in [*ends, len(text)]:
        part = text[start:end].strip()
        if not part or depth != 0:
            raise bad_expression(f"'{text}' has an empty part or an open bracket; write a, b, c")
        parts.append(part)
        start = end + 1
    return tuple(parts)


def sql_tokens(sql: str) -> list[Token]:
    """Return the tokens of an SQL text; `start` and `end`, the last character, are places in it.

    Raises PROJSEG_BAD_EXPRESSION if a quote or a comment is left open.
    """
    try:
        return SparkExpression().tokenize(sql)
    except SqlglotError as error:
        raise bad_expression(
            f"a quote, a backtick or a comment that begins in {sql[:200]!r} has no end; close it, "
            "and write a quote within a text as \\'"
        ) from error
