r"""Reads a pattern's characters in order, with `\Q...\E` resolved, and escapes of one character."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions.patterns.code_points import END
from projseg.algebra.expressions.patterns.pattern_errors import invalid, unsupported

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_OCTAL: Final = frozenset("01234567")
_CONTROLS: Final = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_QUOTED: Final = "\\"


class Reader:
    r"""Reads a pattern.

    A token is a character, or a backslash and a character that `\Q...\E` quotes; the end is "".
    Methods that take characters raise PROJSEG_BAD_EXPRESSION for what Java refuses.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0

    def peek(self, ahead: int = 0) -> str:
        """Return a token without taking it."""
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else ""

    def take(self) -> str:
        """Return the next token and go past it."""
        token = self.peek()
        self.position += 1
        return token

    def takes(self, wanted: str) -> bool:
        """Take the next tokens if they are these characters; return whether they are."""
        if any(self.peek(index) != character for index, character in enumerate(wanted)):
            return False
        self.position += len(wanted)
        return True

    def expect(self, wanted: str, problem: str) -> None:
        """Take characters that must come next."""
        if not self.takes(wanted):
            raise self.invalid(problem)

    def invalid(self, reason: str) -> Exception:
        """Return the error of a pattern that Java refuses."""
        return invalid(self.text, f"{reason} near character {self.position}")

    def unsupported(self, construct: str) -> Exception:
        """Return the error of a construct that is not supported."""
        return unsupported(self.text, construct)

    def digits(self) -> str:
        """Take the decimal digits that come next."""
        start = self.position
        while self.peek() in _DIGITS:
            self.position += 1
        return "".join(self.tokens[start : self.position])

    def literal(self) -> int:
        """Take a token that stands for itself."""
        token = self.take()
        code_point = ord(token[-1])
        if 0xD800 <= code_point < 0xE000:
            raise self.unsupported("half of a surrogate pair")
        return code_point

    def escaped(self, letter: str) -> int | None:
        """Return the character of an escape whose letter was taken, or None if it is not one."""
        if letter == "":
            raise self.invalid("it ends in a backslash")
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "c":
            if not self.peek():
                raise self.invalid("\\c without its character")
            return ord(self.take()[-1]) ^ 64
        if letter == "0":
            return self._octal()
        if letter == "x":
            return self._hexadecimal()
        if letter == "u":
            return self._unicode()
        if letter == "N":
            raise self.unsupported("the name of a character, \\N{...}")
        is_letter_or_digit = letter.isascii() and letter.isalnum()
        return None if is_letter_or_digit else ord(letter[-1])

    def _octal(self) -> int:
        digits = ""
        while self.peek() in _OCTAL and len(digits) < (3 if digits[:1] <= "3" else 2):
            digits += self.take()
        if not digits:
            raise self.invalid("\\0 without octal digits")
        return int(digits, 8)

    def _hexadecimal(self) -> int:
        if self.peek() == "{" and self.peek(1) in _HEX:
            self.take()
            digits = ""
            while self.peek() in _HEX:
                digits += self.take()
                if int(digits, 16) >= END:
                    raise self.invalid("\\x{...} beyond U+10FFFF")
            self.expect("}", "\\x{...} without its end")
            return self._character(int(digits, 16))
        return int(self._hex_digits(2, "\\x"), 16)

    def _unicode(self) -> int:
        first = int(self._hex_digits(4, "\\u"), 16)
        if 0xD800 <= first < 0xDC00 and self.takes("\\u"):
            second = int(self._hex_digits(4, "\\u"), 16)
            if 0xDC00 <= second < 0xE000:
                return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        return self._character(first)

    def _hex_digits(self, count: int, escape: str) -> str:
        digits = "".join(self.take() for _ in range(count))
        if len(digits) != count or not _HEX.issuperset(digits):
            raise self.invalid(f"{escape} without {count} hexadecimal digits")
        return digits

    def _character(self, code_point: int) -> int:
        if 0xD800 <= code_point < 0xE000:
            raise self.unsupported("half of a surrogate pair")
        return code_point


_DIGITS: Final = frozenset("0123456789")


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text):
        if text.startswith("\\Q", position):
            end = text.find("\\E", position + 2)
            end = len(text) if end < 0 else end
            found += [_QUOTED + character for character in text[position + 2 : end]]
            position = end + 2
        elif text[position] == "\\":
            found += text[position : position + 2]
            position += 2
        else:
            found.append(text[position])
            position += 1
    return found
