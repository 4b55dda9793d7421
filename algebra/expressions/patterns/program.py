"""Compile a pattern's tree into the steps of the exact matcher.

Java tries alternatives in a fixed order. Whether a text matches depends on that order only with
atomic groups, possessive quantifiers and back references. Patterns are refused where Java's order,
or what its groups hold after a step back, depends on details of its implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projseg.algebra.expressions.patterns.code_points import CodePoints
from projseg.algebra.expressions.patterns.nodes import (
    Anchor,
    Atomic,
    BackReference,
    Capture,
    Chars,
    Choice,
    Folding,
    Look,
    Node,
    Pattern,
    Place,
    Repeat,
    Sequence,
    Taking,
)
from projseg.algebra.expressions.patterns.pattern_errors import unsupported

_PARTS_MAX: Final = 20_000


@dataclass(frozen=True)
class TakeOne:
    """Take a character of a set."""

    members: CodePoints
    next: int


@dataclass(frozen=True)
class Fork:
    """Go on at `first`; if that fails, at `second`."""

    first: int
    second: int


@dataclass(frozen=True)
class Note:
    """Note the position as the start (even slot) or end (odd slot) of a group."""

    slot: int
    next: int


@dataclass(frozen=True)
class Test:
    """Go on only if the position is such a place."""

    place: Place
    next: int


@dataclass(frozen=True)
class TakeAgain:
    """Take a copy of the text that the group of this slot matched."""

    slot: int
    folding: Folding
    next: int


@dataclass(frozen=True)
class TakeOnce:
    """Take the first match of the steps at `body`, and try no other."""

    body: int
    next: int


@dataclass(frozen=True)
class TestAround:
    """Go on only if the steps at `body` match from here, or up to here; or, negated, do not."""

    body: int
    is_behind: bool
    is_negated: bool
    steps_by_pairs: bool
    fewest: int
    most: int
    next: int


@dataclass(frozen=True)
class Found:
    """A match ends here."""


Step: TypeAlias = TakeOne | Fork | Note | Test | TakeAgain | TakeOnce | TestAround | Found


@dataclass(frozen=True)
class Program:
    """Steps, their start, and what the matcher must know of the pattern.

    Parameters
    ----------
    steps : tuple of Step
        The steps, which refer to each other by index.
    start : int
        Where a match begins.
    slots : mapping of int to int
        From the number of each group that is noted to where its start and end are noted.
    skips_pairs : bool
        See `Pattern`.
    is_linear : bool
        Whether the number of steps grows no faster than the text.
    has_references : bool
        Whether a step may depend on what groups hold.
    """

    steps: tuple[Step, ...]
    start: int
    slots: Mapping[int, int]
    skips_pairs: bool
    is_linear: bool
    has_references: bool


def is_ordered(pattern: Pattern) -> bool:
    """Whether it may depend on the order of search whether a text matches."""
    return any(
        isinstance(node, BackReference) or _takes_first_only(node) for node in pattern.root.walk()
    )


def compile_program(pattern: Pattern, noted: Collection[int] = ()) -> Program:
    """Return the steps of a pattern.

    Parameters
    ----------
    pattern : Pattern
        The parsed pattern.
    noted : collection of int
        Numbers of groups to note although no back reference refers to them.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION for patterns that are refused; see the module's docstring.
    """
    _refuse_unlimited_looks(pattern)
    _refuse_unknown_order(pattern)
    compiler = _Compiler(pattern, noted)
    start = compiler.add(pattern.root, compiler.append(Found()))
    looks = any(isinstance(node, Look) for node in pattern.root.walk())
    return Program(
        tuple(compiler.steps),
        start,
        compiler.slots,
        pattern.skips_pairs,
        not looks and not is_ordered(pattern),
        any(isinstance(node, BackReference) for node in pattern.root.walk()),
    )


def _refuse_unlimited_looks(pattern: Pattern) -> None:
    for node in pattern.root.walk():
        if isinstance(node, Look) and node.is_behind:
            _, most = length(node.body)
            if most is None or _has_loop_of_groups(node.body):
                raise unsupported(
                    pattern.text, "a look-behind without a limit, or with a repeated group"
                )


def _refuse_unknown_order(pattern: Pattern) -> None:
    for node in pattern.root.walk():
        if _takes_first_only(node) and any(may_repeat_nothing(n) for n in node.children[0].walk()):
            raise unsupported(
                pattern.text,
                "a repetition of what may be empty in an atomic group or possessive repetition",
            )
    loose = numbers_in_loops(pattern.root)
    for node in pattern.root.walk():
        if isinstance(node, BackReference) and node.number in loose:
            raise unsupported(
                pattern.text, "a back reference to a group in a repetition or look-around"
            )


def _takes_first_only(node: Node) -> bool:
    is_possessive = isinstance(node, Repeat) and node.taking is Taking.ALL
    return is_possessive or isinstance(node, Atomic)


def may_repeat_nothing(node: Node) -> bool:
    """Whether a part repeats what may be empty, which Java does in an order of its own."""
    is_backtracking = isinstance(node, Repeat) and node.taking is not Taking.ALL
    return is_backtracking and _is_loop(node) and length(node.children[0])[0] == 0


def numbers_in_loops(node: Node, is_inside: bool = False) -> set[int]:
    """Return the numbers of groups that a repetition, look-around or atomic group encloses."""
    found = {node.number} if isinstance(node, Capture) and is_inside else set()
    inside = is_inside or isinstance(node, Look | Atomic) or _is_loop(node)
    return found.union(*(numbers_in_loops(child, inside) for child in node.children))


def _is_loop(node: Node) -> bool:
    return isinstance(node, Repeat) and (node.most != 1 or node.taking is Taking.ALL)


def length(node: Node) -> tuple[int, int | None]:
    """Return the fewest and the most characters that a part matches; None: without a limit."""
    if isinstance(node, Chars):
        return 1, 1
    if isinstance(node, Sequence):
        parts = [length(part) for part in node.parts]
        most = [m for _, m in parts if m is not None]
        return sum(f for f, _ in parts), sum(most) if len(most) == len(parts) else None
    if isinstance(node, Choice):
        parts = [length(option) for option in node.options]
        most = [m for _, m in parts if m is not None]
        return min(f for f, _ in parts), max(most) if len(most) == len(parts) else None
    if isinstance(node, Repeat):
        fewest, longest = length(node.body)
        unlimited = longest is None or node.most is None
        return fewest * node.least, None if unlimited else (longest or 0) * (node.most or 0)
    if isinstance(node, Capture | Atomic):
        return length(node.body)
    return (0, None) if isinstance(node, BackReference) else (0, 0)


class _Compiler:
    def __init__(self, pattern: Pattern, noted: Collection[int]) -> None:
        self.pattern = pattern
        self.steps: list[Step] = []
        self.part_count = 0
        numbers = {n.number for n in pattern.root.walk() if isinstance(n, BackReference)}
        numbers.update(noted)
        self.slots = {number: 2 * index for index, number in enumerate(sorted(numbers))}

    def append(self, step: Step) -> int:
        """Add a step and return its index."""
        self.steps.append(step)
        return len(self.steps) - 1

    def add(self, node: Node, after: int) -> int:
        """Add the steps of a part that go on at `after`; return where they begin."""
        self.part_count += 1
        if self.part_count > _PARTS_MAX:
            raise unsupported(
                self.pattern.text, f"more than {_PARTS_MAX} parts, each as often as it is repeated"
            )
        return _ADDERS[type(node)](self, node, after)

    def add_sequence(self, node: Sequence, after: int) -> int:
        """Add parts, the last one first, since each step holds the index of the next."""
        for part in reversed(node.parts):
            after = self.add(part, after)
        return after

    def add_choice(self, node: Choice, after: int) -> int:
        """Add options, and forks that try them in order."""
        *others, start = (self.add(option, after) for option in node.options)
        for option in reversed(others):
            start = self.append(Fork(option, start))
        return start

    def add_reference(self, node: BackReference, after: int) -> int:
        """Add a back reference."""
        return self.append(TakeAgain(self.slots[node.number], node.folding, after))

    def alone(self, node: Node) -> int:
        """Add a part that is matched by itself, with an end of its own."""
        return self.add(node, self.append(Found()))

    def add_capture(self, node: Capture, after: int) -> int:
        """Add a group, which is noted only where something refers to it."""
        slot = self.slots.get(node.number)
        if slot is None:
            return self.add(node.body, after)
        return self.append(Note(slot, self.add(node.body, self.append(Note(slot + 1, after)))))

    def add_repeat(self, node: Repeat, after: int) -> int:
        """Add a repetition as copies of its body."""
        if node.taking is Taking.ALL:
            once = Atomic(node.body)  # Java never retries a repetition after the next one
            whole = Repeat(once, node.least, node.most, Taking.MOST)
            return self.append(TakeOnce(self.alone(whole), after))
        start = self.add_loop(node, after) if node.most is None else after
        for _ in range((node.most or node.least) - node.least):
            start = self.fork(node, self.add(node.body, start), after)
        for _ in range(node.least):
            start = self.add(node.body, start)
        return start

    def add_loop(self, node: Repeat, after: int) -> int:
        """Add a repetition without a limit; the fork comes before the body it leads to."""
        fork = self.append(Fork(after, after))
        self.steps[fork] = self.choice(node, self.add(node.body, fork), after)
        return fork

    def fork(self, node: Repeat, again: int, after: int) -> int:
        """Add the choice to repeat or to go on."""
        return self.append(self.choice(node, again, after))

    def choice(self, node: Repeat, again: int, after: int) -> Fork:
        """Return the choice to repeat or to go on, in the order of the quantifier."""
        return Fork(again, after) if node.taking is Taking.MOST else Fork(after, again)

    def add_look(self, node: Look, after: int) -> int:
        """Add a look-around; a look-behind also needs the bounds on the length of its body."""
        fewest, most = length(node.body)
        return self.append(
            TestAround(
                self.alone(node.body),
                node.is_behind,
                node.is_negated,
                node.steps_by_pairs,
                fewest,
                most or 0,
                after,
            )
        )


_ADDERS: Final[dict[type[Node], Callable[[_Compiler, Any, int], int]]] = {
    Chars: lambda to, node, after: to.append(TakeOne(node.members, after)),
    Anchor: lambda to, node, after: to.append(Test(node.place, after)),
    Atomic: lambda to, node, after: to.append(TakeOnce(to.alone(node.body), after)),
    Sequence: _Compiler.add_sequence,
    Choice: _Compiler.add_choice,
    Repeat: _Compiler.add_repeat,
    Capture: _Compiler.add_capture,
    Look: _Compiler.add_look,
    BackReference: _Compiler.add_reference,
}


def _has_loop_of_groups(node: Node) -> bool:
    return any(_is_loop(part) and not isinstance(part.children[0], Chars) for part in node.walk())
