"""A text file as blocks of whole lines in UTF-8, in bounded memory, before any parser sees them."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from projseg.errors import InvalidInputError

STDIN: Final = "-"
BLOCK_BYTES: Final = 16 * 2**20  # types of columns are guessed from the first block
_BLOCK_ITEMS_MAX: Final = 1 << 17  # tiny items take far more memory as objects than as text
LINE_BYTES_MAX: Final = 16 * 2**20
LINE_DEPTH_MAX: Final = 100

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[^\[\]{}]++")
_NOT_SPACE: Final = re.compile(r"[^ \t\r\n]")


class Block(NamedTuple):
    """Whole lines of a file, in UTF-8 where the file is, from line `first` on.

    `numbers` has the number of each line unless they follow each other.
    """

    data: bytes
    first: int
    numbers: Sequence[int] | None = None

    def lines(self) -> list[bytes]:
        """Return the lines with their ends."""
        return self.data.splitlines(keepends=True)

    def number(self, place: int) -> int:
        """Return the number in the file of a line of the block."""
        return self.first + place if self.numbers is None else self.numbers[place]


def text_blocks(
    path: str,
    compression: str | None,
    encoding: str | None,
    advance: Callable[[int], None],
    opened: pa.NativeFile | None,
) -> Iterator[bytes]:
    """Yield a file's text in UTF-8, without its byte order mark, in pieces of any length.

    Without an encoding of Python's, the text is UTF-8 or what a byte order mark says. `advance`
    gets the number of stored bytes each time some have been read; `opened` has the bytes where
    `path` only names them.
    """
    file: Any = opened
    if file is None:
        file = sys.stdin.buffer if path == STDIN else pa.OSFile(path)
    stream = pa.CompressedInputStream(file, compression) if compression else file
    stored = 0
    decoder = None
    is_first = True
    while more := stream.read(BLOCK_BYTES):
        if path != STDIN:
            advance(file.tell() - stored)
            stored = file.tell()
        if is_first:
            for mark, marked in _BOMS:
                if more.startswith(mark):
                    encoding = encoding or marked
            decoder = _decoder(encoding)
        text = _utf8(path, decoder, more, encoding) if decoder else more
        yield text.removeprefix(codecs.BOM_UTF8) if is_first else text
        is_first = False
    if decoder and (last := _utf8(path, decoder, b"", encoding, final=True)):
        yield last


def _decoder(encoding: str | None) -> codecs.IncrementalDecoder | None:
    """Return what decodes an encoding; None for UTF-8, whose bad lines are named by number."""
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return None
    return codecs.getincrementaldecoder(encoding)()


def _utf8(
    path: str,
    decoder: codecs.IncrementalDecoder,
    data: bytes,
    encoding: str | None,
    *,
    final: bool = False,
) -> bytes:
    try:
        return decoder.decode(data, final).encode()
    except UnicodeError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path} is not text in {encoding}: {str(error)[:200]}; say its --encoding",
        ) from error


def line_blocks(path: str, pieces: Iterator[bytes], first: int) -> Iterator[Block]:
    """Yield pieces of text, from a line's number on, as blocks of whole lines."""
    rest, number = b"", first
    for more in pieces:
        rest += more
        end = rest.rfind(b"\n") + 1 or rest.rfind(b"\r", 0, len(rest) - 1) + 1
        if end:
            yield Block(rest[:end], number)
            number += line_count(rest[:end])
            rest = rest[end:]
        check_length(path, number, len(rest))
    if rest:
        yield Block(rest, number)


def line_count(data: bytes) -> int:
    """Return how many lines end in some text."""
    count = data.count(b"\n")
    return count if b"\r" not in data else count + data.count(b"\r") - data.count(b"\r\n")


def check_length(path: str, number: int, length: int) -> None:
    """Refuse a line that is too long."""
    if length > LINE_BYTES_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{path}, line {number}: it has no end within {LINE_BYTES_MAX} bytes, the most that a "
            "line, a value over several lines or an item of an array may take",
        )


def is_deep(line: bytes) -> bool:
    """Whether brackets of JSON are nested deeper than a parser should follow."""
    if line.count(b"{") + line.count(b"[") <= LINE_DEPTH_MAX:
        return False
    brackets = np.frombuffer(_BRACKETS.sub(b"", _STRINGS.sub(b"", line)), np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return bool(len(steps)) and int(np.cumsum(steps).max()) > LINE_DEPTH_MAX


def array_blocks(path: str, pieces: Iterator[bytes], first: int) -> Iterator[Block]:
    """Yield the items of one JSON array as lines, each with the number of the line it begins on.

    The text comes in pieces from the array's bracket on.
    """
    rest = _Array(path, pieces, first)
    items: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, item in rest.items():
        items.append(item)
        numbers.append(number)
        size += len(item)
        if size >= BLOCK_BYTES or len(items) >= _BLOCK_ITEMS_MAX:
            yield Block(b"".join(items), 0, numbers)
            items, numbers, size = [], [], 0
    if items:
        yield Block(b"".join(items), 0, numbers)


class _Array:
    """The items of a JSON array, one or two pieces of which are in memory."""

    def __init__(self, path: str, pieces: Iterator[bytes], first: int) -> None:
        self._path, self._pieces = path, pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._place, self._number = "", 0, first

    def items(self) -> Iterator[tuple[int, bytes]]:
        """Yield the line that each item begins on, and the item as a line."""
        scan = json.JSONDecoder().raw_decode
        self._take("[")
        while self._next() != "]":
            start = self._place
            while True:
                try:
                    _, end = scan(self._text, start)
                    problem = ""
                except RecursionError:
                    raise self._refused(f"it is nested deeper than {LINE_DEPTH_MAX}") from None
                except ValueError as error:
                    end, problem = len(self._text), str(error).partition(":")[0]
                if end < len(self._text):
                    break
                check_length(self._path, self._number, len(self._text) - start)
                if not self._more():
                    raise self._refused(problem or "the array has no end")
                start = self._place
            item = self._text[start:end]
            yield self._number, item.replace("\r", " ").replace("\n", " ").encode() + b"\n"
            self._advance(end)
            if self._next() != "]":
                self._take(",")
        self._take("]")
        if self._next():
            raise self._refused("text follows the array")

    def _next(self) -> str:
        """Return the next character that is no space; an empty text at the end."""
        while True:
            found = _NOT_SPACE.search(self._text, self._place)
            if found is not None:
                self._advance(found.start())
                return found[0]
            self._advance(len(self._text))
            if not self._more():
                return ""

    def _take(self, sign: str) -> None:
        if (found := self._next()) != sign:
            raise self._refused(f"'{sign}' is missing before '{found}'")
        self._place += 1

    def _advance(self, place: int) -> None:
        passed = self._text[self._place : place]
        self._number += line_count(passed.encode())
        self._place = place

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        try:
            text = self._decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise self._refused(f"byte 0x{error.object[error.start]:02x} is not UTF-8") from error
        self._text, self._place = self._text[self._place :] + text, 0
        return True

    def _refused(self, problem: str) -> InvalidInputError:
        return InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{self._path}, line {self._number}: {problem}; it is no array of JSON, of which no "
            "item can be left out",
        )
