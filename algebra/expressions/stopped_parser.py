"""Where sqlglot's parser stops in a text that is no SQL, in words of SQL.

What sqlglot says names its own classes and tokens, so only what it says is missing is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.errors import did_you_mean

OPEN_QUOTE: Final = "a quote, a backtick or a comment has no end"
_CLAUSES: Final = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "JOIN")
_QUOTES: Final = ("'", '"', "`")
_SHOWN: Final = 40  # characters of a word in a message
_MISSING: Final = re.compile(r"Expect(?:ing|ed) ([A-Z]+|[^\w\s]+)(?: after [A-Z]+)?\.?")
_NAMED: Final = {"table name": "a table", "type": "a type", "TYPE": "a type"}


class StoppedError(ParseError):
    """A parser met a token, None at the end, that does not fit; it may know what is wrong."""

    def __init__(self, problem: str, token: Token | None) -> None:
        super().__init__(problem, [{}])  # into which sqlglot writes
        self.problem, self.token = problem, token


def problem_of(message: str) -> str:
    """Return what a message of sqlglot says is missing; empty if it says something else."""
    for key, name in _NAMED.items():
        if message.startswith(f"Expected {key}"):
            return f"{name} is missing"
    found = _MISSING.fullmatch(message)
    return f"{found[1]} is missing" if found else ""


def refusal_of(error: Exception, tokens: Sequence[Token], sql: str, added: int = 0) -> str:
    """Return what is wrong in a text and where, to be put behind `is not SQL`.

    The first `added` characters of it, which are a token, are none of the caller's.
    """
    own = [token for token in tokens if token.start >= added]
    if not isinstance(error, StoppedError):  # hints are parsed by themselves
        hint = next((token for token in own if token.token_type == TokenType.HINT), None)
        return "" if hint is None else f": a hint cannot be read, at character {hint.start + 1}"
    if not own:
        return ""
    at = error.token
    before = [token for token in own if at is None or token.start < at.start]
    last = _word(sql, before[-1]) if before else ""
    if at is None:
        where = f"after {last}"
        problem = f"{error.problem} {where}" if error.problem else f"nothing follows {last}"
    elif error.problem:
        problem = f"{error.problem} before {_word(sql, at)}"
    else:
        after = f"stand after {last}" if last else "begin it"
        problem = f"{_word(sql, at)} cannot {after}"
    start = (before[-1] if at is None else at).start - added
    word, near = _nearest_clause([*before, *([] if at is None else [at])])
    named = f", after '{word}'" if near and f"'{word}'" not in problem else ""
    return f": {problem}, at character {start + 1}{named}{near}"


def _word(sql: str, token: Token) -> str:
    text = " ".join(sql[token.start : token.end + 1].split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return shown if text[:1] in _QUOTES else f"'{shown}'"


def _nearest_clause(tokens: Sequence[Token]) -> tuple[str, str]:
    """Return the last word, of two, that is nearly a clause's name, and a proposal of that."""
    for token in reversed(tokens[-2:]):
        near = did_you_mean(token.text, _CLAUSES, 0.7)
        if near and token.text.upper() not in _CLAUSES:
            return token.text, near
    return "", ""
