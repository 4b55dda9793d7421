"""Read the part of Java's regular expressions that RE2 finds the same with, and refuse the rest.

Libraries read the patterns of Python or of RE2, in which the same signs mean other things.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from projseg.algebra.expressions.patterns.pattern_part import (
    ANY_CHARACTER,
    END,
    END_OF_TEXT,
    ESCAPES,
    LINE_ENDS,
    NAMED,
    NO_MORE_TEXT,
    TEXT_START,
    CodePoints,
    PatternPart,
    Unsupported,
    capture,
    choice,
    complement,
    invalid,
    is_whole_beyond,
    one_of,
    repetition,
    sequence,
    span,
    union,
    unsupported,
    with_cases,
)
from projseg.errors import LimitExceededError

_DEPTH_MAX: Final = 100
_COUNT_MAX: Final = 1000  # RE2 takes a greater count for literal text
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")
_CONTROLS: Final = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_SIGNS: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_CONDITIONS: Final = {
    "^": TEXT_START,
    "$": END_OF_TEXT,
    "\\A": TEXT_START,
    "\\z": NO_MORE_TEXT,
    "\\Z": END_OF_TEXT,
}
_LACKING: Final = {
    "b": "a word boundary, \\b, which Java's versions tell apart differently",
    "B": "\\B, which Java's versions tell apart differently",
    "G": "\\G",
    "R": "a line break, \\R",
    "X": "a grapheme cluster, \\X",
    "N": "the name of a character, \\N{...}",
    "k": "a back reference",
    "v": "\\v",
    "V": "\\V",
    "0": "a character in octal digits",
    "c": "a control character, \\c",
    **dict.fromkeys("123456789", "a back reference"),
}
_GROUPS: Final = {
    "=": "look-ahead",
    "!": "look-ahead",
    "<=": "look-behind",
    "<!": "look-behind",
    ">": "an atomic group",
}


@lru_cache(maxsize=1024)
def parse_pattern(text: str) -> PatternPart:
    """Return a pattern as RE2 has it; raise the errors of `JavaRegex`."""
    parser = _Parser(text)
    try:
        root = parser.choice()
    except Unsupported as found:
        raise unsupported(text, str(found)) from None
    if parser.peek():
        raise parser.invalid("a closing bracket without its group")
    return root


class _Parser:
    r"""Parses one pattern; each method takes the tokens of the part it returns.

    A token is a character, a backslash and a letter, or `_QUOTED` and a character that `\Q...\E`
    quotes. The end is "".
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0
        self.ignores_case = False
        self.dot_all = False
        self.group_count = 0
        self.names: set[str] = set()
        self.depth = 0

    def peek(self) -> str:
        """Return the next token without taking it."""
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        """Return the next token and go past it."""
        token = self.peek()
        self.position += 1
        return token

    def takes(self, wanted: str) -> bool:
        """Take the next tokens if they are these characters; return whether they are."""
        found = self.tokens[self.position : self.position + len(wanted)] == list(wanted)
        self.position += len(wanted) * found
        return found

    def expect(self, wanted: str, problem: str) -> None:
        """Take characters that must come next."""
        if not self.takes(wanted):
            raise self.invalid(problem)

    def invalid(self, reason: str) -> Exception:
        """Return the error of a pattern that Java refuses."""
        return invalid(self.text, f"{reason} near character {self.position}")

    def choice(self) -> PatternPart:
        """Return the options up to the end of the group or pattern."""
        options = [self.sequence()]
        while self.takes("|"):
            options.append(self.sequence())
        return choice(options)

    def sequence(self) -> PatternPart:
        """Return the parts up to the end of the option."""
        parts: list[PatternPart] = []
        while (sign := self.peek()) not in ("", "|", ")"):
            if sign in _SIGNS:
                raise self.invalid(f"{sign} without anything to repeat")
            if sign == "{":
                raise Unsupported("a count without anything to repeat")
            part = self.part(self.take())
            if part is not None:
                parts.append(self.repeated(part))
        return sequence(parts)

    def part(self, sign: str) -> PatternPart | None:
        """Return the part that a token, already taken, begins; None for flags alone."""
        if sign == "(":
            return self.group()
        if sign in _CONDITIONS:
            return _CONDITIONS[sign]
        if sign == "[":
            return self.one_of(self.class_set())
        if sign == ".":
            return self.one_of(ANY_CHARACTER if self.dot_all else complement(LINE_ENDS))
        found = self.escaped(sign)
        return self.one_of(found if isinstance(found, tuple) else self.of_character(found))

    def one_of(self, members: CodePoints) -> PatternPart:
        """Return the part of a set, unless Java may find half a surrogate pair of it."""
        if not is_whole_beyond(members):
            raise Unsupported("a set of some characters beyond U+FFFF, or half of a surrogate pair")
        return one_of(members)

    def of_character(self, code_point: int) -> CodePoints:
        """Return the set that a character matches."""
        members = span(code_point, code_point)
        return with_cases(members) if self.ignores_case else members

    def group(self) -> PatternPart | None:
        """Return a group whose opening bracket was taken; None for flags alone."""
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise LimitExceededError(
                "PROJSEG_EXPRESSION_TOO_LONG",
                f"a regular expression nests groups deeper than {_DEPTH_MAX}",
            )
        flags = self.ignores_case, self.dot_all
        found = self.special_group() if self.takes("?") else self.capture()
        self.depth -= 1
        if found is not None:
            self.expect(")", "a group without its end")
            self.ignores_case, self.dot_all = flags
        return found

    def capture(self) -> PatternPart:
        """Return a numbered group."""
        self.group_count += 1
        number = self.group_count
        return capture(self.choice(), number)

    def special_group(self) -> PatternPart | None:
        """Return what `(?` begins."""
        for sign, name in _GROUPS.items():
            if self.takes(sign):
                raise Unsupported(name)
        if self.takes("<"):
            self.read_name()
            return self.capture()
        self.read_flags()
        if self.takes(")"):
            return None
        self.expect(":", "an unknown letter after (?")
        return self.choice()

    def read_name(self) -> None:
        """Take a group's name, up to the `>`."""
        name = ""
        while self.peek().isascii() and self.peek().isalnum():
            name += self.take()
        if not name or name[0].isdigit():
            raise self.invalid("a group's name is not letters and digits")
        if name in self.names:
            raise self.invalid(f"two groups are named '{name}'")
        self.names.add(name)
        self.expect(">", "a group's name without >")

    def read_flags(self) -> None:
        """Take letters such as `i-s`, which hold to the end of the group."""
        is_set = True
        while (letter := self.peek()) and letter in "imsduUxc-":
            if letter == "-" and not is_set:
                break
            self.take()
            if letter == "-":
                is_set = False
            elif letter == "i":
                self.ignores_case = is_set
            elif letter == "s":
                self.dot_all = is_set
            else:
                raise Unsupported(f"the flag {letter}")

    def repeated(self, body: PatternPart) -> PatternPart:
        """Return a part with the quantifier that follows it, if any."""
        if self.peek() not in (*_SIGNS, "{"):
            return body
        sign = self.take()
        least, most = _SIGNS[sign] if sign in _SIGNS else self.counts()
        if self.takes("+"):
            raise Unsupported("a possessive quantifier")
        found = repetition(body, least, most, is_greedy=not self.takes("?"))
        if self.peek() == "{":
            raise Unsupported("a count after a quantifier")
        return found

    def counts(self) -> tuple[int, int | None]:
        """Take `least,most}`, after its opening bracket."""
        least = self.count()
        if least is None:
            raise self.invalid("{ without a count")
        most = self.count() if self.takes(",") else least
        self.expect("}", "a count without }")
        if most is not None and most < least:
            raise self.invalid("counts that descend")
        return least, most

    def count(self) -> int | None:
        """Take the decimal digits that come next, if any."""
        start = self.position
        while self.peek() in _DIGITS:
            self.position += 1
        digits = "".join(self.tokens[start : self.position])
        if len(digits.lstrip("0")) > len(str(_COUNT_MAX)) or int(digits or 0) > _COUNT_MAX:
            raise Unsupported(f"a count beyond {_COUNT_MAX}")
        return int(digits) if digits else None

    def class_set(self) -> CodePoints:
        """Return the set of `[...]`, whose opening bracket was taken."""
        is_negated = self.takes("^")
        found: list[CodePoints] = []
        while self.peek() != "]" or not found:
            if not self.peek():
                raise self.invalid("a class without its end")
            if self.peek() == "[":
                raise Unsupported("a class within a class")
            if self.takes("&&"):
                raise Unsupported("an intersection of classes, &&")
            found.append(self.class_range())
        self.take()
        return complement(union(*found)) if is_negated else union(*found)

    def class_range(self) -> CodePoints:
        """Return the set of the next character, range or escape in a class."""
        first = self.escaped(self.take())
        if isinstance(first, tuple):
            return first
        after = self.tokens[self.position : self.position + 2]
        if after[:1] != ["-"] or after[1:] in ([], ["["], ["]"]):
            return self.of_character(first)
        self.take()
        last = self.escaped(self.take())
        if isinstance(last, tuple) or last < first:
            raise self.invalid("a range that ends before it begins")
        return with_cases(span(first, last)) if self.ignores_case else span(first, last)

    def escaped(self, sign: str) -> int | CodePoints:
        """Return the character, or the set, that a token which was taken stands for."""
        if sign == "\\":
            raise self.invalid("it ends in a backslash")
        if len(sign) == 1 or sign[0] == _QUOTED:
            return ord(sign[-1])
        letter = sign[1]
        if letter in _LACKING:
            raise Unsupported(_LACKING[letter])
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            return self.hexadecimal(letter)
        return self.escaped_set(letter) if letter.isascii() and letter.isalpha() else ord(letter)

    def escaped_set(self, letter: str) -> CodePoints:
        """Return the set of an escape with this letter."""
        if letter in "pP":
            return self.property_set(is_negated=letter == "P")
        members = ESCAPES.get(letter.lower())
        if members is None:
            raise self.invalid(f"the escape \\{letter}")
        return complement(members) if letter.isupper() else members

    def property_set(self, *, is_negated: bool) -> CodePoints:
        r"""Return the set of a name after `\p` or `\P`."""
        name = self.take()[-1:]
        if name == "{":
            name = ""
            while self.peek() not in ("}", ""):
                name += self.take()[-1]
            self.expect("}", "\\p{...} without its end")
        if not name:
            raise self.invalid("\\p without a name")
        if name not in NAMED:
            raise Unsupported(f"the property \\p{{{name}}}, which depends on a version of Unicode")
        if self.ignores_case and name in ("Lower", "Upper"):
            name = "Alpha"
        return complement(NAMED[name]) if is_negated else NAMED[name]

    def hexadecimal(self, letter: str) -> int:
        r"""Return the character of `\xhh`, `\x{h..h}`, `\uhhhh` or a pair of the last."""
        if letter == "x" and self.takes("{"):
            digits = ""
            while self.peek() in _HEX:
                digits += self.take()
            self.expect("}", "\\x{...} without its end")
            if not digits or int(digits, 16) >= END:
                raise self.invalid("\\x{...} without digits, or beyond U+10FFFF")
            return int(digits, 16)
        first = self.hex_digits(2 if letter == "x" else 4)
        if 0xD800 <= first < 0xDC00 and self.peek() == "\\u":
            self.take()
            second = self.hex_digits(4)
            if 0xDC00 <= second < 0xE000:
                return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            raise Unsupported("half of a surrogate pair")
        return first

    def hex_digits(self, count: int) -> int:
        """Read `count` hexadecimal digits."""
        digits = "".join(self.take() for _ in range(count))
        if len(digits) != count or not _HEX.issuperset(digits):
            raise self.invalid(f"an escape without {count} hexadecimal digits")
        return int(digits, 16)


_QUOTED: Final = "\0"


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text):
        if text.startswith("\\Q", position):
            end = text.find("\\E", position + 2)
            end = len(text) if end < 0 else end
            found += [_QUOTED + character for character in text[position + 2 : end]]
            position = end + 2
        else:
            length = 2 if text[position] == "\\" else 1
            found.append(text[position : position + length])
            position += length
    return found
