"""Patterns in texts: Java's regular expressions that RE2 matches alike, and text_match queries.

A parser makes parts of a pattern, each with its text for RE2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from projseg.errors import EvaluationError, ProjsegError
from projseg.memory.forks import late_import

if TYPE_CHECKING:
    from projseg.algebra.expressions.patterns.java_regex import (
        Finder,
        JavaRegex,
        Replacer,
        Splitter,
    )


Parameters = ParamSpec("Parameters")
Found = TypeVar("Found", bound="JavaRegex")
_accepts_all: ContextVar[bool] = ContextVar("accepts_all", default=False)


@contextmanager
def all_patterns_accepted() -> Iterator[None]:
    """Let the block bind any pattern; evaluating one that is refused is an error.

    Stored tables may declare projections with patterns that an earlier release read.
    """
    token = _accepts_all.set(True)
    try:
        yield
    finally:
        _accepts_all.reset(token)


def accepts_all_patterns() -> bool:
    """Whether the code runs in such a block."""
    return _accepts_all.get()


def check_pattern(
    read: Callable[Parameters, Found], *given: Parameters.args, **named: Parameters.kwargs
) -> None:
    """Raise what reading a pattern raises, unless all patterns are accepted."""
    if not accepts_all_patterns():
        read(*given, **named)


def accepted_pattern(
    read: Callable[Parameters, Found], *given: Parameters.args, **named: Parameters.kwargs
) -> Found:
    """Return what reads a pattern while rows are computed.

    Raises PROJSEG_EVALUATION_BAD_ARGUMENT for a pattern that is refused.
    """
    try:
        return read(*given, **named)
    except ProjsegError as error:
        raise EvaluationError("PROJSEG_EVALUATION_BAD_ARGUMENT", error.message) from error


def pattern_may_fail(
    read: Callable[Parameters, Found], *given: Parameters.args, **named: Parameters.kwargs
) -> bool:
    """Whether a pattern is refused, or may take too long."""
    try:
        return read(*given, **named).may_fail
    except ProjsegError:
        return True


def read_pattern(text: str) -> JavaRegex:
    """Return the parsed pattern, from a cache if it is there; raise the errors of `JavaRegex`."""
    with late_import:
        from projseg.algebra.expressions.patterns.java_regex import java_regex
    return java_regex(text)


def read_finder(text: str, group: int) -> Finder:
    """Return what finds a group of a pattern, cached; raise the errors of `Finder`."""
    with late_import:
        from projseg.algebra.expressions.patterns.java_regex import finder
    return finder(text, group)


def read_splitter(text: str) -> Splitter:
    """Return what splits texts at a pattern, cached; raise the errors of `Splitter`."""
    with late_import:
        from projseg.algebra.expressions.patterns.java_regex import splitter
    return splitter(text)


def read_replacer(text: str, replacement: str) -> Replacer:
    """Return what replaces a pattern, cached; raise the errors of `Replacer`."""
    with late_import:
        from projseg.algebra.expressions.patterns.java_regex import replacer
    return replacer(text, replacement)
