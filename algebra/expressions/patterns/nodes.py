"""The tree of a pattern, in which flags and names of sets are resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from projseg.algebra.expressions.patterns.code_points import CodePoints


class Node:
    """A part of a pattern."""

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts of this part, in order."""
        return ()

    def walk(self) -> Iterator[Node]:
        """Yield this part and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Chars(Node):
    """One character of a set."""

    members: CodePoints


@dataclass(frozen=True)
class Sequence(Node):
    """Parts one after the other; without parts it matches the empty text."""

    parts: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts."""
        return self.parts


@dataclass(frozen=True)
class Choice(Node):
    """The first of several parts that leads to a match."""

    options: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        """The options, first choice first."""
        return self.options


class Taking(Enum):
    """How many repetitions are tried first, and whether others are tried after a failure."""

    MOST = auto()
    LEAST = auto()
    ALL = auto()
    """Possessive: as many as possible, and no other number is tried."""


@dataclass(frozen=True)
class Repeat(Node):
    """A part from `least` to `most` times; `most` is None where there is no limit."""

    body: Node
    least: int
    most: int | None
    taking: Taking

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


@dataclass(frozen=True)
class Capture(Node):
    """A numbered group."""

    body: Node
    number: int

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


@dataclass(frozen=True)
class Atomic(Node):
    """A part of which only the first match counts."""

    body: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


@dataclass(frozen=True)
class Look(Node):
    """Whether a part matches from here, or up to here, without taking what it matches.

    Parameters
    ----------
    is_behind : bool
        Whether the part ends here rather than begins here.
    is_negated : bool
        Whether it must not match.
    steps_by_pairs : bool
        Whether Java steps back by characters in a look-behind. It does so only if the pattern has a
        character beyond U+FFFF after it; else by UTF-16 units, and may begin inside a pair.
    """

    body: Node
    is_behind: bool
    is_negated: bool
    steps_by_pairs: bool

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class Folding(Enum):
    """Which letters a back reference treats as equal."""

    NONE = auto()
    ASCII = auto()
    UNICODE = auto()


@dataclass(frozen=True)
class BackReference(Node):
    """The text that a group matched."""

    number: int
    folding: Folding


class Place(Enum):
    """Conditions on a position in the text."""

    START = auto()
    END = auto()
    LAST_LINE_END = auto()
    """The end, or before a line end that ends the text."""
    LAST_NEWLINE = auto()
    """The end, or before a newline that ends the text."""
    LINE_START = auto()
    LINE_END = auto()
    UNIX_LINE_START = auto()
    UNIX_LINE_END = auto()
    WORD_EDGE = auto()
    NO_WORD_EDGE = auto()


@dataclass(frozen=True)
class Anchor(Node):
    """A condition that takes no character."""

    place: Place


@dataclass(frozen=True)
class Pattern:
    """A whole pattern.

    Parameters
    ----------
    text : str
        As it was written.
    root : Node
        Its tree.
    skips_pairs : bool
        Whether Java's search steps over a surrogate pair as a whole; it does where a part may match
        a character beyond U+FFFF.
    """

    text: str
    root: Node
    skips_pairs: bool
