"""The door by which a question came: what a user called to ask it.

A door may ask by way of another: the shell calls `Table.sql`. The outermost is the door of the
question. A thread that nobody entered a door in has the door `python`.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Final, Literal, TypeAlias

Door: TypeAlias = Literal[
    "python", "sql", "shell", "spark", "page", "dataset", "duckdb", "dbapi"
]  # fmt: skip

_entered: ContextVar[Door | None] = ContextVar("door", default=None)


def door_of_question(otherwise: Door = "python") -> Door:
    """Return the door of the question that this thread answers."""
    return _entered.get() or otherwise


class through:
    """Within the block, questions came by a door, unless they came by another before."""

    __slots__ = ("_door", "_token")

    def __init__(self, door: Door) -> None:
        self._door: Final = door
        self._token: Token[Door | None] | None = None

    def __enter__(self) -> None:
        if _entered.get() is None:
            self._token = _entered.set(self._door)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _entered.reset(self._token)
            self._token = None
