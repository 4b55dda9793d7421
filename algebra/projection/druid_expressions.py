"""Translate Druid's native expression language into Spark SQL text, one token at a time.

Operators have the same precedence in both, so only names, quotes and calls change. Functions whose
arguments differ from those of the Spark function are in `_REWRITERS`. Druid's own grammar is for
Java, and sqlglot has no dialect for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from projseg.algebra.expressions.expression_limits import check_text, room_to_recurse, too_deep
from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.algebra.expressions.sql_words import backquoted, quoted_text
from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<text>'(?:[^'\\]|\\.)*')
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<word>[A-Za-z_$][A-Za-z0-9_$.]*)
    | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%<>=!])
    | (?P<bracket>[(),])
    )""",
    re.VERBOSE,
)
_OPERATORS: Final = {"&&": "AND", "||": "OR", "==": "="}
_CAST_TYPES: Final = {"LONG": "BIGINT", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT", "STRING": "STRING"}
_EXTRACT_UNITS: Final = [
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "DOW",
    "DOY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
]  # as Druid names them

_SAME: Final = {
    druid_name: spelling.name.upper()
    for spelling in SPELLINGS.values()
    for druid_name in spelling.druid_names
}
"""Druid's function -> the Spark function that takes the same arguments and means the same."""


def translate_expression(text: str, names: Mapping[str, str]) -> str:
    """Return Spark SQL text that means what `timestamp_floor(__time, 'PT1H')` means in Druid.

    `names` has the SQL text for `__time` and virtual columns, which are not plain columns.
    """
    check_text(text)
    translator = _Translator(text, names)
    try:
        with room_to_recurse():
            translated = translator.run(closing="")
    except RecursionError as error:
        raise too_deep() from error
    translator.require(not translator.tokens, "it goes on after its end")
    return translated


def quote_column(name: str, names: Mapping[str, str]) -> str:
    """Return SQL text for a column, virtual column or `__time`."""
    return names[name] if name in names else backquoted(name)


class _Translator:
    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self.text = text
        self.names = names
        self.tokens = list(reversed(self._tokenize()))

    def require(self, condition: bool, problem: str) -> None:
        """Raise PROJSEG_BAD_EXPRESSION unless a condition holds."""
        if not condition:
            raise InvalidInputError(
                "PROJSEG_BAD_EXPRESSION", f"Druid expression '{self.text}' is not valid: {problem}"
            )

    def _tokenize(self) -> list[tuple[str, str]]:
        found, position, text = [], 0, self.text.rstrip()
        while position < len(text):
            token = _TOKEN.match(text, position)
            self.require(token is not None, f"character {position} is not expected")
            assert token is not None
            assert token.lastgroup is not None
            found.append((token.lastgroup, token[token.lastgroup]))
            position = token.end()
        return found

    def run(self, closing: str) -> str:
        """Translate up to a token among `closing` at this depth; that token is not read."""
        translated = ""
        while self.tokens and not (self.tokens[-1][1] in closing and self.tokens[-1][1] in "(),"):
            translated += f" {self.next_part()}"
            check_text(translated)  # virtual columns insert their text, so it can grow fast
        self.require(bool(translated), "an operand is missing")
        return translated[1:]

    def next_part(self) -> str:
        """Translate one operand or operator."""
        self.require(bool(self.tokens), "an operand is missing")
        kind, found = self.tokens.pop()
        if kind == "bracket":
            self.require(found == "(", f"'{found}' is not expected")
            inner = self.run(closing=")")
            self.take(")")
            return f"({inner})"
        if kind == "operator":
            return f"(NOT {self.next_part()})" if found == "!" else _OPERATORS.get(found, found)
        if kind == "quoted":
            return quote_column(_unescape(found), self.names)
        if kind == "text":
            return quoted_text(_unescape(found))
        return self.word(found) if kind == "word" else found

    def take(self, wanted: str) -> None:
        """Read the next token, which must be `wanted`."""
        self.require(bool(self.tokens) and self.tokens[-1][1] == wanted, f"'{wanted}' is missing")
        self.tokens.pop()

    def word(self, word: str) -> str:
        """Translate a constant, a name or a call."""
        if not self.tokens or self.tokens[-1] != ("bracket", "("):
            constant = word.upper() if word.lower() in ("null", "true", "false") else None
            return constant or quote_column(word, self.names)
        self.tokens.pop()
        arguments: list[str] = []
        if self.tokens and self.tokens[-1][1] != ")":
            arguments.append(self.run(closing="),"))
            while self.tokens and self.tokens[-1][1] == ",":
                self.tokens.pop()
                arguments.append(self.run(closing="),"))
        self.take(")")
        return _call(word, arguments)


def _unescape(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1])


def _call(word: str, arguments: list[str]) -> str:
    name = word.lower()
    if name in _SAME:
        return f"{_SAME[name]}({', '.join(arguments)})"
    if name not in _REWRITERS:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"Druid function {word} has no translation{did_you_mean(name, [*_SAME, *_REWRITERS])}",
        )
    counts, rewrite = _REWRITERS[name]
    if len(arguments) not in counts:
        raise InvalidInputError(
            "PROJSEG_BAD_EXPRESSION", f"Druid function {word} does not take {len(arguments)} values"
        )
    return rewrite(arguments)


def _cast(arguments: list[str]) -> str:
    wanted = arguments[1].strip("'").upper()
    if wanted not in _CAST_TYPES:
        raise InvalidInputError(
            "PROJSEG_BAD_EXPRESSION",
            f"Druid's cast knows no type {wanted}; known are {', '.join(_CAST_TYPES)}",
        )
    return f"CAST({arguments[0]} AS {_CAST_TYPES[wanted]})"


def _extract(arguments: list[str]) -> str:
    unit = arguments[1].strip("'").upper()
    if unit not in _EXTRACT_UNITS:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"timestamp_extract of {unit} has no translation{did_you_mean(unit, _EXTRACT_UNITS)}",
        )
    if unit == "DOW":
        return f"(WEEKDAY({arguments[0]}) + 1)"
    function = {"DOY": "DAYOFYEAR", "WEEK": "WEEKOFYEAR"}.get(unit, unit)
    return f"{function}({arguments[0]})"


def _substring(arguments: list[str]) -> str:
    start = f"{arguments[1]} + 1"  # Druid counts from 0, SQL from 1
    return f"SUBSTRING({', '.join([arguments[0], start, *arguments[2:]])})"


def _case_searched(arguments: list[str]) -> str:
    pairs = [
        f"WHEN {arguments[i]} THEN {arguments[i + 1]}" for i in range(0, len(arguments) - 1, 2)
    ]
    otherwise = [f"ELSE {arguments[-1]}"] if len(arguments) % 2 else []
    return f"(CASE {' '.join(pairs + otherwise)} END)"


def _case_simple(arguments: list[str]) -> str:
    operand, *rest = arguments
    return _case_searched(
        [f"{operand} = {v}" if i % 2 == 0 and i + 1 < len(rest) else v for i, v in enumerate(rest)]
    )


_REWRITERS: Final[dict[str, tuple[range, Callable[[list[str]], str]]]] = {
    "cast": (range(2, 3), _cast),
    "timestamp_extract": (range(2, 3), _extract),
    "substring": (range(2, 4), _substring),
    "case_searched": (range(2, 100), _case_searched),
    "case_simple": (range(3, 100), _case_simple),
    "like": (range(2, 3), lambda a: f"({a[0]} LIKE {a[1]})"),
    "isnull": (range(1, 2), lambda a: f"({a[0]} IS NULL)"),
    "notnull": (range(1, 2), lambda a: f"({a[0]} IS NOT NULL)"),
}
