"""Names that need no backticks, beside all words that the parser knows."""

from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

import pytest
import sqlglot.parser
from sqlglot import exp

from projseg.algebra.expressions.dialect import SparkExpression, parse_sql
from projseg.algebra.expressions.sql_words import backquoted, quoted_name
from projseg.errors import InvalidInputError

READINGS = (("", " = 1"), ("", " IS NULL"), ("", " IN (1)"), ("f(", ")"))


@pytest.mark.slow
def test_a_name_has_backticks_if_any_reading_of_it_needs_them():
    words = {word.lower() for word in words_of_the_parser()}
    assert len(words) > 1_000

    for word in words | {word.upper() for word in words}:
        wanted = word if is_read_as_a_name(word) else backquoted(word)
        assert quoted_name(word) == wanted


def is_read_as_a_name(word: str) -> bool:
    for before, after in READINGS:
        try:
            tree = parse_sql(before + word + after)
        except InvalidInputError:
            return False
        names = [column.sql() for column in tree.find_all(exp.Column)]
        if names != [word] or tree.find(exp.Alias, exp.Cast) is not None:
            return False
    return True


def words_of_the_parser() -> set[str]:
    """Return the words in sqlglot's tables and in the code of its parser and tokenizer."""
    found = set(words_in(vars(sqlglot.parser).values()))
    for part in (SparkExpression.Parser, SparkExpression.Tokenizer, SparkExpression):
        for owner in part.__mro__:
            found.update(words_in(vars(owner).values()))
    return found


def words_in(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        code = getattr(getattr(value, "__func__", value), "__code__", value)
        if isinstance(code, str):
            yield from (word for word in code.split() if word.isascii() and word.isidentifier())
        elif isinstance(code, dict):
            yield from words_in([*code, *code.values()])
        elif isinstance(code, tuple | list | set | frozenset):
            yield from words_in(code)
        elif isinstance(code, CodeType):
            yield from words_in(code.co_consts)
