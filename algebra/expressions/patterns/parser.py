"""Parse the text of a pattern into its tree, as `java.util.regex.Pattern.compile` does."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from projseg.algebra.expressions.patterns.class_parser import (
    character_in_run,
    escaped_set,
    one_character,
    read_class,
)
from projseg.algebra.expressions.patterns.code_points import (
    ANY_CHARACTER,
    SURROGATES,
    complement,
    intersection,
    span,
)
from projseg.algebra.expressions.patterns.flags import Flags, read_flags
from projseg.algebra.expressions.patterns.named_sets import LINE_ENDS, NEWLINE, VERTICAL_SPACE
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
from projseg.algebra.expressions.patterns.reader import Reader
from projseg.errors import LimitExceededError

_DEPTH_MAX: Final = 100
_COUNT_MAX: Final = 2**31 - 1
_EMPTY: Final = Sequence(())
_META: Final = frozenset(("", "\\", "[", "(", ")", "|", "^", "$", ".", "*", "+", "?", "{"))
_QUANTIFIERS: Final = frozenset("*+?{")
_LINE_BREAK: Final = Choice(
    (Sequence((Chars(span(13, 13)), Chars(span(10, 10)))), Chars(VERTICAL_SPACE))
)


@lru_cache(maxsize=1024)
def parse_pattern(text: str) -> Pattern:
    """Return the tree of a pattern.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if Java refuses it too.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION if it has a construct whose meaning is not known here.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG if groups are nested too deeply.
    """
    reader = Reader(text)
    root = _Parser(reader).choice()
    if reader.peek():
        raise reader.invalid("a closing bracket without its group")
    beyond = (SURROGATES[0], SURROGATES[1], 0x10000, 0x110000)
    sets = [node.members for node in root.walk() if isinstance(node, Chars)]
    return Pattern(text, root, any(intersection(members, beyond) for members in sets))


class _Parser:
    """Parses one pattern; each method consumes the characters of the part it returns."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.flags = Flags()
        self.group_count = 0
        self.numbers: dict[str, int] = {}
        self.depth = 0

    def choice(self) -> Node:
        """Return the options up to the end of the group or pattern."""
        options = [self.sequence()]
        while self.reader.takes("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        """Return the parts up to the end of the option."""
        parts: list[Node] = []
        while (sign := self.reader.peek()) not in ("", "|", ")"):
            if sign in ("*", "+", "?"):
                raise self.reader.invalid(f"{sign} without anything to repeat")
            if self.is_at_literal():
                parts += self.literals()
                continue
            part = _EMPTY if sign == "{" else self.part(self.reader.take())
            if part is not None:
                parts.append(self.repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def part(self, sign: str) -> Node | None:
        """Return the part that a metacharacter, already taken, begins; None for flags alone."""
        if sign == "(":
            return self.group()
        if sign == "[":
            return Chars(read_class(self.reader, self.flags))
        if sign == "^":
            return Anchor(self.line_start())
        if sign == "$":
            return Anchor(self.line_end())
        if sign == ".":
            excluded = NEWLINE if self.flags.unix_lines else LINE_ENDS
            return Chars(ANY_CHARACTER if self.flags.dot_all else complement(excluded))
        return self.escape(self.reader.take())

    def line_start(self) -> Place:
        """Return what ^ means."""
        if not self.flags.multiline:
            return Place.START
        return Place.UNIX_LINE_START if self.flags.unix_lines else Place.LINE_START

    def line_end(self) -> Place:
        """Return what $ means."""
        if self.flags.multiline:
            return Place.UNIX_LINE_END if self.flags.unix_lines else Place.LINE_END
        return Place.LAST_NEWLINE if self.flags.unix_lines else Place.LAST_LINE_END

    def literals(self) -> list[Node]:
        """Return the characters that stand for themselves, the last one perhaps repeated."""
        found: list[int] = []
        while self.is_at_literal():
            start = self.reader.position
            code_point = self.literal()
            if found and self.reader.peek() in _QUANTIFIERS:
                self.reader.position = start
                break
            found.append(code_point)
        if len(found) == 1:
            return [self.repeated(Chars(one_character(found[0], self.flags)))]
        return [Chars(character_in_run(code_point, self.flags)) for code_point in found]

    def is_at_literal(self) -> bool:
        """Whether a character that stands for itself is next."""
        if self.reader.peek() == "\\":
            return self.reader.peek(1) not in _OTHER_ESCAPES
        return self.reader.peek() not in _META

    def literal(self) -> int:
        """Return the next character, which stands for itself."""
        if self.reader.peek() != "\\":
            return self.reader.literal()
        self.reader.take()
        letter = self.reader.take()
        code_point = self.reader.escaped(letter)
        if code_point is None:
            raise self.reader.invalid(f"the escape \\{letter}")
        return code_point

    def escape(self, letter: str) -> Node:
        """Return what a backslash and a letter, both taken, mean."""
        if letter in _ANCHORS:
            return self.anchor(letter)
        if letter == "R":
            return _LINE_BREAK
        if letter == "X":
            raise self.reader.unsupported("a grapheme cluster, \\X")
        if letter == "k":
            return self.named_reference()
        if letter in "123456789":
            return self.numbered_reference(int(letter))
        members = escaped_set(self.reader, letter, self.flags)
        assert members is not None, letter
        return Chars(members)

    def anchor(self, letter: str) -> Node:
        """Return the condition of an escape."""
        if letter in "bB":
            if self.flags.unicode_classes:
                raise self.reader.unsupported(f"\\{letter} under the flag U")
            if letter == "b" and self.reader.peek() == "{":
                raise self.reader.unsupported("a grapheme boundary, \\b{g}")
        place = _ANCHORS[letter]
        return Anchor(Place.LAST_NEWLINE if letter == "Z" and self.flags.unix_lines else place)

    def numbered_reference(self, number: int) -> Node:
        """Return a reference; a further digit belongs to it only if there are so many groups."""
        while (digit := self.reader.peek()) and digit in "0123456789":
            if self.group_count < number * 10 + int(digit):
                break
            number = number * 10 + int(self.reader.take())
        return self.reference(number)

    def named_reference(self) -> Node:
        r"""Return the reference of `\k<name>`."""
        self.reader.expect("<", "\\k without <name>")
        name = self.name()
        if name not in self.numbers:
            raise self.reader.invalid(f"no group is named '{name}'")
        return self.reference(self.numbers[name])

    def reference(self, number: int) -> Node:
        """Return a reference under the flags that hold."""
        if not self.flags.case_insensitive:
            return BackReference(number, Folding.NONE)
        is_unicode = self.flags.unicode_case
        return BackReference(number, Folding.UNICODE if is_unicode else Folding.ASCII)

    def name(self) -> str:
        """Return a group's name, up to the `>`."""
        name = ""
        while self.reader.peek().isascii() and self.reader.peek().isalnum():
            name += self.reader.take()
        if not name or name[0].isdigit():
            raise self.reader.invalid("a group's name is not letters and digits")
        self.reader.expect(">", "a group's name without >")
        return name

    def group(self) -> Node | None:
        """Return a group whose opening bracket was taken; None for flags alone."""
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise LimitExceededError(
                "PROJSEG_EXPRESSION_TOO_LONG",
                f"a regular expression nests groups deeper than {_DEPTH_MAX}",
            )
        outer = self.flags
        found = self.special_group() if self.reader.takes("?") else self.capture()
        self.depth -= 1
        if found is not None:
            self.reader.expect(")", "a group without its end")
            self.flags = outer
        return found

    def capture(self) -> Node:
        """Return a numbered group."""
        self.group_count += 1
        number = self.group_count
        return Capture(self.choice(), number)

    def special_group(self) -> Node | None:
        """Return what `(?` begins."""
        reader = self.reader
        for sign, make in _GROUPS.items():
            if reader.takes(sign):
                return make(self.choice())
        if reader.takes("<"):
            return self.named_or_behind()
        self.flags = read_flags(reader, self.flags)
        if reader.takes(")"):
            return None
        reader.expect(":", "an unknown letter after (?")
        return self.choice()

    def named_or_behind(self) -> Node:
        """Return what `(?<` begins."""
        for sign in "=!":
            if self.reader.takes(sign):
                rest = self.reader.tokens[self.reader.position :]
                steps_by_pairs = any(ord(token[-1]) > 0xFFFF for token in rest)
                return Look(self.choice(), True, sign == "!", steps_by_pairs)
        name = self.name()
        if name in self.numbers:
            raise self.reader.invalid(f"two groups are named '{name}'")
        self.numbers[name] = self.group_count + 1
        return self.capture()

    def repeated(self, body: Node) -> Node:
        """Return a part with the quantifier that follows it, if any."""
        counts = self.counts()
        if counts is None:
            return body
        taking = Taking.MOST
        for sign, other in (("?", Taking.LEAST), ("+", Taking.ALL)):
            if self.reader.takes(sign):
                taking = other
                break
        return Repeat(body, *counts, taking)

    def counts(self) -> tuple[int, int | None] | None:
        """Take `*`, `+`, `?` or `{least,most}`."""
        reader = self.reader
        for sign, counts in _SIGNS:
            if reader.takes(sign):
                return counts
        if not reader.takes("{"):
            return None
        first = reader.digits()
        if not first:
            raise reader.invalid("{ without a count")
        least, most = int(first), int(first)
        if reader.takes(","):
            if reader.takes("}"):
                return self.in_range(least), None
            most = int(reader.digits() or "0")
        reader.expect("}", "a count without }")
        if most < least:
            raise reader.invalid("counts that descend")
        return self.in_range(least), self.in_range(most)

    def in_range(self, count: int) -> int:
        """Return a count, unless Java refuses it as too large."""
        if count > _COUNT_MAX:
            raise self.reader.invalid("a count beyond 2147483647")
        return count


_SIGNS: Final[tuple[tuple[str, tuple[int, int | None]], ...]] = (
    ("?", (0, 1)),
    ("*", (0, None)),
    ("+", (1, None)),
)
_GROUPS: Final[dict[str, Callable[[Node], Node]]] = {
    ":": lambda body: body,
    ">": Atomic,
    "=": lambda body: Look(body, is_behind=False, is_negated=False, steps_by_pairs=False),
    "!": lambda body: Look(body, is_behind=False, is_negated=True, steps_by_pairs=False),
}
_ANCHORS: Final[dict[str, Place]] = {
    "A": Place.START,
    "G": Place.START,
    "B": Place.NO_WORD_EDGE,
    "b": Place.WORD_EDGE,
    "Z": Place.LAST_LINE_END,
    "z": Place.END,
}
_OTHER_ESCAPES: Final = frozenset((*"ABGZbzRXkpPdDhHsSvVwW", *"123456789"))
