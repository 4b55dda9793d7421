"""Spellings that a parser of another dialect may read otherwise: operators side by side, and words
of SQL as names of columns.
"""

from __future__ import annotations

import random

from projseg.algebra.expressions.dialect import SparkExpression
from projseg.algebra.expressions.functions.function_table import SPELLINGS

LEVELS = (("|",), ("^",), ("&",), ("<<", ">>", ">>>"), ("+", "-", "||"), ("*", "/", "%", "div"))
"""Spark's operators between values, from the loosest; those of a level go from left to right."""
NUMBERS = ("1", "2", "3", "4", "5", "7", "12", "-1", "~2", "i", "j", "-i", "2L", "i::bigint",
           "array(i, 9)[0]")  # fmt: skip
_BITS = ("|", "^", "&", "<<", ">>", ">>>", "+", "-", "%")
_TEXTS = ("'1'", "'2'", "'12'", "1", "2", "i", "j")
_COMPARISONS = ("=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "==", "!>", "!<")
ROW = {"i": 7, "j": -3, "s": "ab"}
TYPES = {"i": "int", "j": "int", "s": "string"}


def chain(draw: random.Random, length: int, operators=_BITS, operands=NUMBERS) -> list[str]:
    """Return operands and operators in turn."""
    parts = [draw.choice(operands)]
    for _ in range(length):
        parts += [draw.choice(operators), draw.choice(operands)]
    return parts


def joined_chain(draw: random.Random) -> list[str]:
    """Return a chain of texts and numbers that are joined, added and taken away."""
    return chain(draw, draw.randint(2, 4), ("||", "+", "-", "*", "|", "&"), _TEXTS)


def bracketed(parts: list[str]) -> str:
    """Return a chain with brackets where Spark's grammar puts them."""
    for level in LEVELS:
        places = [n for n in range(1, len(parts), 2) if parts[n] in level]
        if places:
            cut = places[-1]
            return f"({bracketed(parts[:cut])} {parts[cut]} {bracketed(parts[cut + 1 :])})"
    return parts[0]


def _value(draw: random.Random) -> str:
    return " ".join(chain(draw, draw.randint(0, 2), (*_BITS, "*")))


def predicate(draw: random.Random) -> str:
    """Return a condition over values without brackets."""
    forms = ("{0} {op} {1}", "{0} BETWEEN {1} AND {2}", "{0} NOT BETWEEN {1} AND {2}",
             "{0} IN ({1}, {2})", "{0} NOT IN ({1})", "{0} IS NULL", "{0} IS NOT NULL",
             "{0} IS DISTINCT FROM {1}", "s || 'x' LIKE 'a' || '%'", "'b' || s RLIKE 'b'",
             )  # fmt: skip
    values = [_value(draw) for _ in range(3)]
    return draw.choice(forms).format(*values, op=draw.choice(_COMPARISONS))


def condition(draw: random.Random) -> str:
    """Return conditions beside each other without brackets."""
    parts = [
        draw.choice(("", "", "NOT ", "! ")) + predicate(draw) for _ in range(draw.randint(1, 4))
    ]
    found = parts[0]
    for part in parts[1:]:
        found += draw.choice((" AND ", " OR ")) + part
    return found


def words() -> list[str]:
    """Return every word that the parser knows as a keyword, a type or a function."""
    parser, tokenizer = SparkExpression.Parser, SparkExpression.Tokenizer
    known = {*tokenizer.KEYWORDS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS}
    known |= {*parser.__mro__[1].FUNCTIONS, *SPELLINGS, "LIST", "CONNECT_BY_ROOT"}
    return sorted({word.lower() for word in known if word.replace("_", "a").isalnum()})


VALUES = {"int": 7, "array<int>": [5, 6], "struct<f:int,g:array<int>>": {"f": 4, "g": [8, 9]}}
"""A value of each type of column; every row of a column has it."""
FORMS = {
    "int": (("{n}", 7), ("{n}::string", "7"), ("{n} IN (1, 7)", True), ("{n} NOT IN (1)", True),
            ("{n} BETWEEN 1 AND 9", True), ("{n} IS NULL", False), ("{n} IS NOT NULL", True),
            ("-{n}", -7), ("{n} + 1", 8), ("1 + {n}", 8), ("NOT {n} = 7", False),
            ("CASE WHEN {n} = 7 THEN {n} ELSE 1 END", 7), ("abs({n})", 7), ("({n})", 7),
            ("1 IN ({n})", False), ("CAST({n} AS string)", "7"), ("~{n}", -8)),
    "array<int>": (("{n}[1]", 6), ("{n}[0] + 1", 6), ("size({n})", 2), ("{n} IS NULL", False),
                   ("{n}[0]::string", "5"), ("array({n}[1])[0]", 6), ("({n})[1]", 6)),
    "struct<f:int,g:array<int>>": (("{n}.f", 4), ("{n}.f + 1", 5), ("{n}.f::string", "4"),
                                   ("{n}.g[1]", 9), ("({n}).f", 4), ("{n}.f IN (4)", True)),
}  # fmt: skip
"""Forms of each type's columns, and the values that they have whatever the column's name is."""
SPELLED = ("{w}", "`{w}`", "t.{w}", "t.`{w}`", "`t`.{w}", "{u}")


def spelled(word: str) -> list[str]:
    """Return a name bare, quoted and qualified."""
    return [form.format(w=word, u=word.upper()) for form in SPELLED]
