"""The typed expression tree: three kinds of node, compared by value.

A tree is made by `bind` (text and schema in, canonical tree out), so two expressions that mean the
same in the ways `canonical.py` knows are equal as Python values and have equal `text`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from projseg.memory.forks import cached_property


@dataclass(frozen=True)
class Expression:
    """A node; `type` is the Arrow type of its value (see `segment_format.types`)."""

    type: pa.DataType

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operands, in order."""
        return ()

    def walk(self) -> Iterator[Expression]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __getstate__(self) -> dict[str, object]:
        # Python hashes texts differently in each process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of the columns that the value depends on."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Column))


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column, in each row."""

    name: str

    @cached_property
    def _hash(self) -> int:
        return hash((self.type, self.name))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, eq=False)
class Literal(Expression):
    """A constant: bool, int, float, Decimal, str, bytes, date, datetime or None.

    Timestamps are aware datetimes in UTC, timestamp_ntz naive ones.

    Constants are equal if they are the same value, which differs from Python's `==`: 0.0 and -0.0
    are different, since they make different products, and NaN equals itself.
    """

    value: object

    @cached_property
    def _identity(self) -> object:
        value = self.value
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else value.hex()
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self.type == other.type and self._identity == other._identity

    @cached_property
    def _hash(self) -> int:
        return hash((self.type, self._identity))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Call(Expression):
    """A function of its arguments.

    Parameters
    ----------
    function : str
        A key of the function table, lower case: "and", "=", "time_floor", "cast", ...
    arguments : tuple of Expression
        The operands.
    parameters : tuple
        Hashable constants that are not values of the row: a Granularity, a time zone's name.
    """

    function: str
    arguments: tuple[Expression, ...]
    parameters: tuple[object, ...] = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        """The operands, in order."""
        return self.arguments

    @cached_property
    def _hash(self) -> int:
        # Kept, because trees are looked up often and a hash needs those of all nodes below.
        return hash((self.type, self.function, self.arguments, self.parameters))

    def __hash__(self) -> int:
        return self._hash
