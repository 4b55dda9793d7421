"""What kind of statement an SQL text is: its first words, after any spaces and comments."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeGuard

from projseg.algebra.expressions.dialect import blank_comments, sql_tokens

_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[A-Za-z]+")
_BRACKET: Final = re.compile(r"/\*|\*/")
_AFTER_SELECT: Final = re.compile(r"[\s*'\"`(]|--|/\*")
_SELECTS: Final = frozenset({"SELECT", "WITH", "FROM"})
_DESCRIBED: Final = frozenset({"EXPLAIN", "DESCRIBE", "DESC", "SHOW"})


class ExplainedSelect(NamedTuple):
    """What follows EXPLAIN, and whether it is to be run."""

    select: str
    is_analyzed: bool


def is_select(text: object) -> TypeGuard[str]:
    """Whether it is the text of a statement, which begins as no expression does."""
    if not isinstance(text, str):
        return False
    word, rest = first_word(text)
    return word in _SELECTS and _AFTER_SELECT.match(rest) is not None


def is_described(text: str) -> bool:
    """Whether it begins a statement that tells of tables and plans instead of rows."""
    word, rest = first_word(text)
    return word in _DESCRIBED and _AFTER_SELECT.match(rest) is not None


def explained_select(text: str) -> ExplainedSelect | None:
    """Return what EXPLAIN is to explain; None for another statement."""
    word, rest = first_word(text)
    if word != "EXPLAIN":
        return None
    mode, select = first_word(rest)
    return ExplainedSelect(select, True) if mode == "ANALYZE" else ExplainedSelect(rest, False)


def first_word(text: str) -> tuple[str, str]:
    """Return the first word in capitals, "" where there is none, and the text after it."""
    at = _start(text)
    word = _WORD.match(text, at)
    return ("", text[at:]) if word is None else (word[0].upper(), text[word.end() :])


def without_comments(text: str) -> str:
    """Return DESCRIBE or SHOW, and what follows it with spaces for comments.

    Raises PROJSEG_BAD_EXPRESSION if a quote or a comment is left open.
    """
    if "--" not in text and "/*" not in text:
        return text
    word, rest = first_word(text)
    return word + blank_comments(rest, sql_tokens(rest))  # after SHOW a whole text is one token


def _start(text: str) -> int:
    """Return where the first character stands that is neither a space nor in a comment."""
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = at if space is None else space.end()
        if text.startswith("--", at):
            line = text.find("\n", at)
            at = len(text) if line < 0 else line
        elif text.startswith("/*", at):
            at = _end_of_comment(text, at)
        else:
            return at


def _end_of_comment(text: str, start: int) -> int:
    """Return the place after a comment in brackets, which may have others within."""
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "/*" else -1
        if depth == 0:
            return bracket.end()
    return len(text)
