"""Words of SQL text: names, strings, types; references to columns replaced, literals hidden.

Types are read as people write them: `BIGINT`, `long`, `decimal(10, 2)`, `array<struct<a: int>>`.
Literals are hidden in metadata that outlive the rows which a condition named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Final

import msgspec
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.dialect import (
    ParsedText,
    SparkExpression,
    checked_again,
    parse_sql,
    parse_tokens,
    sql_tokens,
)
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, is_nested, type_name

# What sqlglot's parser takes for more than a name, though its tokenizer does not.
_WORDS_OF_THE_PARSER: Final = frozenset({"if"})

_T: Final = exp.DataType.Type
_BY_KIND: Final = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.BINARY: pa.binary(),
    _T.VARBINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIMESTAMPTZ: TIMESTAMP,
    _T.TIMESTAMPLTZ: TIMESTAMP,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}

_LIMIT: Final = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?:decimal|dec|numeric)\s*\("
    r"|(?P<limit>\w+\s*\([^()]*\)|\bcollate\s+\w+|\bnot\s+null\b|\bdefault\s+[\w'\".(+-]+)",
    re.IGNORECASE,
)
"""Names, texts and sizes of decimals; and what a type may be written with that is not stored."""

_NAME_PART: Final = r"`((?:[^`]|``)+)`|\w+"
NAME: Final = r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*"
"""Matches the name of a table as SQL has it, in backticks or without."""

DIFFERENCES: Final = frozenset(("timestampdiff", "datediff", "date_diff"))
"""Functions of a unit of time and two times."""
_WITH_UNITS: Final = DIFFERENCES | {"timestampadd", "dateadd", "date_add"}

_BOUND_ALIKE: Final = frozenset((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.DPipe))
_PLACEHOLDER: Final = "?"
_LITERALS: Final = frozenset(
    {
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.BIT_STRING,
        TokenType.HEX_STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.RAW_STRING,
        TokenType.UNICODE_STRING,
        TokenType.HEREDOC_STRING,
    }
)
_TEXTS: Final = frozenset({TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING})


def quoted_name(name: str) -> str:
    """Return a column's name as SQL, in backticks if it would be read as something else."""
    return name if _is_plain(name) else backquoted(name)


def backquoted(name: str) -> str:
    """Return a name as SQL in backticks, whatever it is."""
    return "`" + name.replace("`", "``") + "`"


def name_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted name that is written as `NAME` has it."""
    found = re.finditer(_NAME_PART, text)
    return tuple(one[0] if one[1] is None else one[1].replace("``", "`") for one in found)


def quoted_text(text: str) -> str:
    """Return a string as an SQL constant."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_type(arrow_type: pa.DataType) -> str:
    """Return a type as CAST writes it; fields of structs keep their case."""
    name = type_name(arrow_type)
    return name if is_nested(arrow_type) else name.upper()


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    if not (name.isascii() and name.isidentifier()) or name.lower() in _WORDS_OF_THE_PARSER:
        return False
    return name.upper() not in SparkExpression.Tokenizer.KEYWORDS or _reads_as_a_name(name)


def _reads_as_a_name(word: str) -> bool:
    """Return whether a word of SQL is a column's name wherever an expression may stand."""
    try:
        tree = parse_sql(f"{word} = 1 AND {word} IS NULL AND {word} IN (1) AND f({word})")
    except InvalidInputError:
        return False
    names = [column.sql() for column in tree.find_all(exp.Column)]
    return names == [word] * 4 and tree.find(exp.Alias, exp.Cast) is None


def written_type(tree: exp.DataType) -> pa.DataType:
    """Return the Arrow type of a type as sqlglot read it.

    Raises PROJSEG_BAD_EXPRESSION if projseg has no cast to the type.
    """
    if tree.this == _T.DECIMAL:
        sizes = [Decimal(parameter.name) for parameter in tree.expressions]
        precision, scale = (*sizes, Decimal(0))[:2] if sizes else (Decimal(10), Decimal(0))
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise bad_expression(f"decimal({precision},{scale}) is not a type of up to 38 digits")
        return pa.decimal128(int(precision), int(scale))
    if tree.this in (_T.ARRAY, _T.MAP, _T.STRUCT) and tree.expressions:
        return _nested_type(tree)
    found = _BY_KIND.get(tree.this)
    has_collation = tree.args.get("collate") is not None
    if found is None or has_collation or (found == pa.string() and tree.expressions):
        raise bad_expression(f"cannot cast to {tree.sql(dialect='spark')}")
    return found


def _nested_type(tree: exp.DataType) -> pa.DataType:
    """Return an array, map or struct type; only a null can be cast to one."""
    if tree.this == _T.STRUCT:
        fields = [(field.name, written_type(field.args["kind"])) for field in tree.expressions]
        return pa.struct(fields)
    parts = [written_type(part) for part in tree.expressions]
    return pa.list_(*parts) if tree.this == _T.ARRAY else pa.map_(*parts)


def parse_type(text: str) -> pa.DataType:
    """Return the type that a text names in Spark SQL.

    Raises PROJSEG_BAD_TYPE_NAME if the text is not a type, or not one that projseg stores.
    """
    limit = next((found for found in _LIMIT.finditer(text) if found["limit"]), None)
    if limit is not None:
        raise InvalidInputError(
            "PROJSEG_BAD_TYPE_NAME",
            f"'{text}' has {limit[0]}, and projseg stores neither limits of length nor collations, "
            "NOT NULL or defaults; write the type without it, such as string, or declare the "
            "column in a catalog of Spark, which checks the rows that it writes",
        )
    try:
        # The line break keeps a comment in the text from swallowing the bracket.
        tree = parse_sql(f"CAST(NULL AS {text}\n)")
        if isinstance(tree, exp.Cast):
            return written_type(tree.to)
    except ProjsegError:
        pass
    raise InvalidInputError(
        "PROJSEG_BAD_TYPE_NAME",
        f"'{text}' is not a type that projseg stores; write it as in Spark SQL, such as bigint, "
        "string, timestamp, decimal(10,2) or array<int>",
    )


class Reference(msgspec.Struct, frozen=True):
    """A name, most often of a column, and its node in a text."""

    node: exp.Column

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a dotted name, without quotes."""
        return tuple(part.name for part in self.node.parts)

    @property
    def within(self) -> tuple[str, ...]:
        """The functions around it, folded; `filter` for the condition of FILTER."""
        return tuple(_functions_around(self.node))

    def renamed(self, *names: str, taken: int) -> exp.Expression:
        """Return other names in place of the first parts, with the fields taken of these."""
        fields = [part.copy() for part in self.node.parts[taken:]]
        return _dotted([*map(_identifier, names), *fields])

    def instead(self, text: str) -> exp.Expression:
        """Return an expression in place of the first part, with the fields taken of it."""
        found: exp.Expression = exp.Paren(this=parse_sql(text).copy())
        for part in self.node.parts[1:]:
            found = exp.Dot(this=found, expression=part.copy())
        return found


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=quoted_name(name) != name)


def column_text(*names: str) -> ParsedText:
    """Return the name of a column, or of a field in one."""
    return ParsedText(".".join(map(quoted_name, names)), _dotted(list(map(_identifier, names))))


def aliased(text: str, name: str) -> ParsedText:
    """Return an expression with another name."""
    tree = exp.Alias(this=parse_sql(text), alias=_identifier(name))
    return ParsedText(f"{text} AS {quoted_name(name)}", tree)


def conjoined(texts: Iterable[str]) -> ParsedText | None:
    """Return conditions with AND between them; None for none."""
    conditions = list(texts)
    if not conditions:
        return None
    parts: list[exp.Expression] = [exp.Paren(this=parse_sql(one)) for one in conditions]
    tree = reduce(lambda left, right: exp.And(this=left, expression=right), parts)
    return ParsedText(" AND ".join(f"({one})" for one in conditions), tree)


def _dotted(parts: Sequence[exp.Expr]) -> exp.Expression:
    names = ("catalog", "db", "table", "this")[-len(parts) :]
    found: exp.Expression = exp.Column(**dict(zip(names, parts, strict=False)))
    for part in parts[len(names) :]:
        found = exp.Dot(this=found, expression=part)
    return found


def references(text: str) -> list[Reference]:
    """Return the names in one SQL expression; raise the errors of `parse_sql`."""
    return [Reference(column) for column in _columns(parse_sql(text))]


def plain_name(text: str) -> Reference | None:
    """Return the name that an SQL expression is as a whole; None if it is something else."""
    tree = parse_sql(text)
    if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
        return None
    return Reference(tree)


def replaced(text: str, by: Callable[[Reference], exp.Expression | None]) -> str:
    """Return a text in which names are replaced; those for which `by` returns None stay.

    Raises the errors of `parse_sql`.
    """
    tree = parse_sql(text)
    found = [by(Reference(column)) for column in _columns(tree)]
    if all(instead is None for instead in found):
        return text
    root = exp.Paren(this=tree.copy())
    for column, instead in zip(list(_columns(root)), found, strict=True):
        if instead is not None:
            column.replace(instead)
    return checked_again(root.this)


def may_have_been_read_otherwise(sql: str) -> bool:
    """Whether releases that bound `&`, `^`, `|` and `||` alike may have read a SELECT otherwise."""
    for node in parse_tokens(sql, sql_tokens(sql)).walk():
        if isinstance(node, exp.Bracket) and node.this.name.casefold() in ("array", "list"):
            return True
        kinds = {type(part) for part in (node, node.this, node.expression) if part is not None}
        kinds &= _BOUND_ALIKE | {exp.Add, exp.Sub}
        if type(node) in kinds and len(kinds) > 1 and kinds & _BOUND_ALIKE:
            return True
    return False


def _columns(tree: exp.Expression) -> Iterator[exp.Column]:
    for column in tree.find_all(exp.Column):
        if not _is_unit(column) and not isinstance(column.this, exp.Star):
            yield column


def _is_unit(column: exp.Column) -> bool:
    """Whether a name is a unit of time, as in `extract(day FROM time)`."""
    parent = column.parent
    if isinstance(parent, exp.Extract):
        return parent.this is column
    if isinstance(parent, exp.Anonymous) and str(parent.this).casefold() in _WITH_UNITS:
        return len(parent.expressions) == 3 and parent.expressions[0] is column
    return False


def _functions_around(tree: exp.Expression) -> Iterator[str]:
    around = tree.parent
    while around is not None:
        if isinstance(around, exp.Anonymous):
            yield str(around.this).casefold()
        elif isinstance(around, exp.Func | exp.Filter) and not isinstance(around, exp.Connector):
            yield str(around.key)
        around = around.parent


def hide_literals(sql: str) -> str:
    """Return an SQL text with `?` for each number and text in it, and without comments.

    Names, functions, operators and `:parameters` stay as they are written; so do `true`, `false`
    and `null`. A text that cannot be read is `?` as a whole.
    """
    try:
        tokens = SparkExpression().tokenize(sql)
    except (SqlglotError, RecursionError):
        return _PLACEHOLDER
    found: list[str] = []
    end = 0
    for token in tokens:
        if token.start < end:  # the type of a number like 5L, which is part of its text
            continue
        is_literal = _is_literal(token)
        is_one_text = is_literal and found[-1:] == [_PLACEHOLDER]
        if token.start > end and found and not is_one_text:
            found.append(" ")
        if not is_one_text:
            found.append(_PLACEHOLDER if is_literal else sql[token.start : token.end + 1])
        end = token.end + 1
    return "".join(found)


def text_literals(sql: str) -> list[str]:
    """Return the texts that stand in an SQL text; none of one that cannot be read."""
    try:
        tokens = SparkExpression().tokenize(sql)
    except (SqlglotError, RecursionError):
        return []
    return [token.text for token in tokens if token.token_type in _TEXTS]


def _is_literal(token: Token) -> bool:
    text = token.text
    starts_as_number = token.token_type == TokenType.VAR and text[:1].isdigit()
    return token.token_type in _LITERALS or starts_as_number
