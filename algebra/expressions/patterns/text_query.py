"""The queries of text_match: which words a text must hold, read from their text.

The language is projseg's own, with forms of CarbonData's, so no library reads it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import msgspec

from projseg.errors import InvalidInputError
from projseg.segment_format.indexes.text_keys import WORD, class_of, words_of

_BYTES_MAX: Final = 4_096
_WORDS_MAX: Final = 64
_DEPTH_MAX: Final = 64
_REFUSED: Final = "~^?[]{}+:"
_STARS: Final = re.compile(r"\*+")
_TOKEN: Final = re.compile(
    r'\s*(?:(?P<sign>[()])|(?P<not>-)|"(?P<quoted>[^"]*)"|(?P<word>[^\s()"]+))'
)
_COLUMN: Final = re.compile(r'(?!-)[^\s()":]+:(?=[^\s()])')


class Phrase(msgspec.Struct, frozen=True):
    """Words in a row, often one, folded; in a pattern a * stands for any characters of the word."""

    words: tuple[str, ...]


class Every(msgspec.Struct, frozen=True):
    """All parts are fulfilled."""

    parts: tuple[TextQuery, ...]


class Some(msgspec.Struct, frozen=True):
    """At least one part is fulfilled."""

    parts: tuple[TextQuery, ...]


class Without(msgspec.Struct, frozen=True):
    """A part is not fulfilled."""

    part: TextQuery


class OfColumn(msgspec.Struct, frozen=True):
    """A column fulfils a query of its own, in a query that names its columns."""

    column: str
    query: str


TextQuery: TypeAlias = Phrase | Every | Some | Without | OfColumn


class _Token(NamedTuple):
    """What it is: `(`, `)`, `-`, `AND`, `OR`, `NOT`, `part` or `end`; and where it begins."""

    kind: str
    position: int
    part: Phrase | OfColumn | None = None


@lru_cache(maxsize=1024)
def read_text_query(text: str) -> TextQuery:
    """Return the tree of a query; PROJSEG_BAD_TEXT_QUERY has the position of a fault, from 1."""
    return _read(text, names_columns=False)


@lru_cache(maxsize=1024)
def read_query_of_columns(text: str) -> TextQuery:
    """Return the tree of a query that names its columns, whose leaves are `OfColumn`.

    `name:n10 -name:*n*`, as CarbonData writes them. There two parts side by side mean either, here
    they would mean both, so AND or OR must stand between them unless one is a negation. Raises the
    errors of `read_text_query`.
    """
    return _read(text, names_columns=True)


def _read(text: str, *, names_columns: bool) -> TextQuery:
    if len(text.encode()) > _BYTES_MAX:
        raise _bad(text, 0, f"is longer than {_BYTES_MAX} bytes")
    reader = _Reader(text, _tokens(text, names_columns), names_columns)
    found = reader.some(0)
    if reader.next.kind != "end":
        raise _bad(text, reader.next.position, "has a bracket that was not opened")
    return found


def _bad(text: str, position: int, problem: str) -> InvalidInputError:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return InvalidInputError(
        "PROJSEG_BAD_TEXT_QUERY",
        f"the text query '{shown}' {problem}, at position {position + 1}; it may have words, "
        '"words in a row", OR, NOT or -, brackets, and words with *',
    )


def _tokens(text: str, names_columns: bool) -> list[_Token]:
    found: list[_Token] = []
    position = word_count = 0
    while match := _TOKEN.match(text, position):
        start = match.end() - len(match[0].lstrip())
        column = _COLUMN.match(text, start) if names_columns else None
        if column is not None and (match := _TOKEN.match(text, column.end())) is None:
            break  # an open quote
        position = match.end()
        token = _token(text, match, start if column is None else column.end())
        word_count += len(token.part.words) if isinstance(token.part, Phrase) else 0
        if names_columns:
            token = _of_column(text, token, column, position)
        if word_count > _WORDS_MAX:
            raise _bad(text, start, f"has more than {_WORDS_MAX} words")
        found.append(token)
    if text[position:].strip():
        raise _bad(text, text.index('"', position), "has a quote that is not closed")
    return [*found, _Token("end", len(text))]


def _of_column(text: str, token: _Token, column: re.Match[str] | None, end: int) -> _Token:
    if column is None:
        if token.part is not None:
            raise _bad(text, token.position, "does not say of which column, as in name:word")
        return token
    if token.part is None:
        raise _bad(text, token.position, "has nothing to search for")
    return _Token("part", column.start(), OfColumn(column[0][:-1], text[column.end() : end]))


def _token(text: str, match: re.Match[str], start: int) -> _Token:
    word, quoted = match["word"], match["quoted"]
    if quoted is not None:
        words = words_of(quoted)
    elif word is None:
        return _Token(match["sign"] or match["not"], start)
    elif word in ("AND", "OR", "NOT"):
        return _Token(word, start)
    else:
        refused = next((at for at, letter in enumerate(word) if letter in _REFUSED), None)
        if refused is not None:
            problem = f"has {word[refused]}, which means nothing here (quote it to search for it)"
            raise _bad(text, start + refused, problem)
        words = _pattern_words(word)
    if not words or "*" in words:
        raise _bad(text, start, "has nothing to search for")
    return _Token("part", start, Phrase(words))


def _pattern_words(word: str) -> tuple[str, ...]:
    """Return the words of a query's word, in which each * belongs to the letters beside it."""
    first, *others = _STARS.split(word)
    found, before = list(words_of(first)), first
    for piece in others:
        if found and before and class_of(before[-1]) == WORD:
            found[-1] += "*"
        else:
            found.append("*")
        after = list(words_of(piece))
        if after and class_of(piece[0]) == WORD:
            found[-1] += after.pop(0)
        found += after
        before = piece
    return tuple(found)


class _Reader:
    """Reads a tree from tokens; OR binds weaker than words side by side."""

    def __init__(self, text: str, tokens: list[_Token], names_columns: bool) -> None:
        self._text, self._tokens, self._place = text, tokens, 0
        self._names_columns = names_columns

    @property
    def next(self) -> _Token:
        """The next token."""
        return self._tokens[self._place]

    def take(self) -> _Token:
        """Return the next token and go beyond it."""
        self._place += 1
        return self._tokens[self._place - 1]

    def some(self, depth: int) -> TextQuery:
        """Read parts with OR between them."""
        parts = [self.every(depth)]
        while self.next.kind == "OR":
            self.take()
            parts.append(self.every(depth))
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def every(self, depth: int) -> TextQuery:
        """Read parts side by side, or with AND between them."""
        parts = [self.part(depth)]
        while self.next.kind not in (")", "OR", "end"):
            if self.next.kind == "AND":
                self.take()
            elif self._is_either(parts):
                problem = "has parts side by side: write AND or OR between them"
                raise _bad(self._text, self.next.position, problem)
            parts.append(self.part(depth))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _is_either(self, parts: list[TextQuery]) -> bool:
        """Whether CarbonData would take the next part and those before it as joined by OR."""
        is_negation = self.next.kind in ("-", "NOT")
        is_one = all(isinstance(part, Without) for part in parts)
        return self._names_columns and not is_negation and not is_one

    def part(self, depth: int) -> TextQuery:
        """Read a phrase, a negation or brackets."""
        token = self.take()
        if depth == _DEPTH_MAX:
            raise _bad(self._text, token.position, f"nests deeper than {_DEPTH_MAX}")
        if token.part is not None:
            return token.part
        if token.kind in ("-", "NOT"):
            return Without(self.part(depth + 1))
        if token.kind != "(":
            raise _bad(self._text, token.position, "has nothing to search for")
        found = self.some(depth + 1)
        if self.take().kind != ")":
            raise _bad(self._text, token.position, "has a bracket that is not closed")
        return found
