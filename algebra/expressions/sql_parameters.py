"""Parameters in SQL texts, `:name` and `?`, and `Arguments`, the values given for them.

Arguments are in force while the texts are bound, as the instant of `now()` is, and become constants
of the trees; no text ever holds a value. A text that is bound outside a query, such as a
projection's, has no arguments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.argument_values import ArgumentValue, argument_value
from projseg.algebra.expressions.dialect import ParsedText, sql_tokens
from projseg.algebra.expressions.expression_limits import misplaced, parameter_places
from projseg.algebra.expressions.tree import Literal
from projseg.algebra.time.duration import Span
from projseg.errors import InvalidInputError, did_you_mean
from projseg.memory.forks import cached_property

_TEXTS_KEPT: Final = 8192
_ALONE: Final = re.compile(r"\s*(?:\?|:\s*\w+)\s*")
_VALUE_BYTES: Final = 200  # of a constant, beside its text
_current: ContextVar[Arguments | None] = ContextVar("arguments", default=None)

ArgumentsLike: TypeAlias = "Mapping[str, Any] | Sequence[Any] | Arguments"
"""Values by name for `:name`, in a sequence for `?`."""


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of texts, whose first `?` of all has become `:1`; numbered ones are digits."""

    texts: tuple[str | None, ...]
    names: frozenset[str]
    positions: int


def parameter_names(text: str | None) -> frozenset[str]:
    """Return the names of the parameters in a text whose `?` are numbered.

    Raises PROJSEG_BAD_EXPRESSION if a quote or a comment is left open.
    """
    return frozenset() if text is None else _parameters(text).names


def has_parameters(text: str) -> bool:
    """Whether a text may have a parameter, and so mean something else with other values."""
    try:
        found = _parameters(text)
    except InvalidInputError:
        return True
    return bool(found.names) or len(found.pieces) > 1


def refuse_alone(text: str, clause: str) -> None:
    """Raise PROJSEG_BAD_ARGUMENT for a parameter that is a whole term of a clause of names."""
    if _ALONE.fullmatch(text) is not None:
        raise misplaced(text.strip(), f"is a whole term of {clause}, where a name belongs")


def parameters(texts: Iterable[str | None]) -> Parameters:
    """Return the parameters of texts, whose `?` are counted through all of them in their order.

    Raises PROJSEG_BAD_ARGUMENT if they have both `?` and names, PROJSEG_BAD_EXPRESSION if a quote
    or a comment is left open.
    """
    names: set[str] = set()
    numbered: list[str | None] = []
    position = 0
    for text in texts:
        if text is None:
            numbered.append(None)
            continue
        found = _parameters(text)
        names |= found.names
        numbers = range(position + 1, position + len(found.pieces))
        position += len(numbers)
        more = (
            f":{number}{piece}" for number, piece in zip(numbers, found.pieces[1:], strict=True)
        )
        numbered.append("".join([found.pieces[0], *more]) if numbers else text)
    return _one_way(tuple(numbered), frozenset(names), position)


def _one_way(texts: tuple[str | None, ...], names: frozenset[str], positions: int) -> Parameters:
    """Return the parameters of texts, which have either names or positions."""
    if positions and names:
        raise bad_arguments(
            f"parameters are written ? and by name, :{', :'.join(sorted(names))}; write all of "
            "them one way"
        )
    return Parameters(texts, names or frozenset(map(str, range(1, positions + 1))), positions)


class _TextParameters(msgspec.Struct, frozen=True):
    """The names of a text's parameters, and the pieces between its `?`."""

    names: frozenset[str]
    pieces: tuple[str, ...]


def _parameters(text: str) -> _TextParameters:
    if ":" not in text and "?" not in text:
        return _TextParameters(frozenset(), (text,))
    if isinstance(text, ParsedText):
        names = frozenset(str(one.this) for one in text.tree.find_all(exp.Placeholder))
        return _TextParameters(names, (text,))
    return _parameters_of_text(text)


@lru_cache(maxsize=_TEXTS_KEPT)
def _parameters_of_text(text: str) -> _TextParameters:
    pieces, done = [], 0
    tokens = sql_tokens(text)
    for token in tokens:
        if token.token_type == TokenType.PLACEHOLDER:
            pieces.append(text[done : token.start])
            done = token.end + 1
    names = frozenset(tokens[place].text for place in parameter_places(tokens))
    return _TextParameters(names, (*pieces, text[done:]))


@dataclass(frozen=True, eq=False)
class Argument(Literal):
    """A constant that a parameter stands for, equal to the same constant written in the text."""

    parameter: str = ""


@dataclass(frozen=True, repr=False)
class Arguments:
    """Values of parameters by name; those of a sequence by their numbers, from `1`."""

    values: Mapping[str, ArgumentValue]
    is_sequence: bool = False

    @classmethod
    def of(cls, given: ArgumentsLike | None) -> Arguments | None:
        """Return the values that a caller gives; None if there are none.

        Raises PROJSEG_BAD_ARGUMENT if they are in another form, or one is no value of SQL.
        """
        if given is None or isinstance(given, Arguments):
            return given
        if isinstance(given, Mapping):
            for name in given:
                if not isinstance(name, str) or not name.isidentifier():
                    raise bad_arguments(f"{name!r} is no name of a parameter; write :name")
            return cls({name: argument_value(name, value) for name, value in given.items()})
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise bad_arguments(
                f"args is a {type(given).__name__}; give a mapping for :name, a sequence for ?"
            )
        numbered = ((str(number), value) for number, value in enumerate(given, start=1))
        return cls({name: argument_value(name, value) for name, value in numbered}, True)

    def __repr__(self) -> str:
        # Values of users stay out of logs.
        types = (f"{name}: {_kind(value)}" for name, value in self.values.items())
        return f"Arguments({', '.join(types)})"

    @cached_property
    def _hash(self) -> int:
        named = tuple((name, self.values[name]) for name in sorted(self.values))
        return hash((named, self.is_sequence))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        # Python hashes texts differently in each process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @property
    def byte_count(self) -> int:
        """About how much memory the values take."""
        return sum(map(_byte_count, self.values.values()))

    def only(self, names: Collection[str]) -> Arguments | None:
        """Return the values of some parameters; None if there are none."""
        kept = {name: value for name, value in self.values.items() if name in names}
        return Arguments(kept, self.is_sequence) if kept else None


def bad_arguments(problem: str) -> InvalidInputError:
    """Return the error of arguments that do not fit."""
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", problem)


def check_arguments(found: Parameters, given: Arguments | None) -> None:
    """Refuse arguments that are not those of the parameters in some texts.

    Raises PROJSEG_BAD_ARGUMENT with the names that are missing, or that no text has.
    """
    values = {} if given is None else given.values
    if given is None and not found.names:
        return
    if found.positions and given is not None and not given.is_sequence:
        raise bad_arguments(
            f"parameters are written ?, and args is a mapping of {_listed(values)}; give a sequence"
        )
    named = [name for name in found.names if not name.isdecimal()]
    if named and given is not None and given.is_sequence:
        raise bad_arguments(
            f"parameters are {_listed(named)}, and args is a sequence; give a mapping"
        )
    is_sequence = given is not None and given.is_sequence
    if (found.positions or is_sequence) and len(values) != len(found.names):
        raise bad_arguments(
            f"there are {len(found.names)} parameters ? and args has {len(values)} values"
        )
    missing, unused = found.names - values.keys(), values.keys() - found.names
    if missing:
        near = did_you_mean(min(missing), unused)
        raise bad_arguments(f"parameters without a value: {_listed(missing)}{near}; add to args")
    if unused:
        near = did_you_mean(min(unused), found.names)
        raise bad_arguments(f"args has values that no text uses: {_listed(unused)}{near}")


def refuse_arguments(given: ArgumentsLike | None) -> None:
    """Raise PROJSEG_BAD_ARGUMENT for values beside a statement that has no parameters."""
    check_arguments(parameters(()), Arguments.of(given))


def numbered_parameters(tokens: Sequence[Token]) -> Parameters:
    """Return the parameters of a statement, in whose tokens each `?` is given its number.

    Raises PROJSEG_BAD_ARGUMENT if it has both `?` and names.
    """
    names = frozenset(tokens[place].text for place in parameter_places(tokens))
    marks = [token for token in tokens if token.token_type == TokenType.PLACEHOLDER]
    for number, token in enumerate(marks, start=1):
        token.text = str(number)
    return _one_way((), names, len(marks))


@contextmanager
def bound_to(arguments: Arguments | None) -> Iterator[None]:
    """Let parameters stand for these values within the block, and for no others."""
    token = _current.set(arguments)
    try:
        yield
    finally:
        _current.reset(token)


def argument_of(parameter: str) -> ArgumentValue:
    """Return the value of a parameter, or raise PROJSEG_BAD_ARGUMENT if it has none here."""
    arguments = _current.get()
    value = None if arguments is None else arguments.values.get(parameter)
    if value is None:
        raise bad_arguments(
            f"parameter :{parameter} has no value here; queries and changes take args={{...}}"
        )
    if isinstance(value, Literal):
        return Argument(value.type, value.value, parameter)
    return value


def refuse_word(constant: object, what: str) -> None:
    """Raise PROJSEG_BAD_ARGUMENT for a parameter in place of a word: a unit, a zone."""
    if isinstance(constant, Argument):
        raise misplaced(f":{constant.parameter}", f"stands for {what}")


def _kind(value: ArgumentValue) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} values"
    return "interval" if isinstance(value, Span) else str(value.type)


def _byte_count(value: ArgumentValue) -> int:
    if isinstance(value, tuple):
        return sum(map(_byte_count, value))
    plain = value.value if isinstance(value, Literal) else None
    return _VALUE_BYTES + (len(plain) if isinstance(plain, str | bytes) else 0)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in sorted(names))
