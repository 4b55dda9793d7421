"""`projseg shell`: statements at a prompt, from a file, or from the command."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Annotated, Final

import typer

from projseg.algebra.expressions.dialect import sql_tokens
from projseg.algebra.query.statement_words import explained_select
from projseg.catalog.places import Places
from projseg.cli.output import OutputFormat, chosen_format, print_rows, terminal
from projseg.cli.shared_arguments import Output, TablePlaces, given_options
from projseg.errors import InvalidInputError, ProjsegError, did_you_mean, place_in
from projseg.extras import require
from projseg.memory.deadline import Deadline, under

_HELP: Final = """\
A statement ends with `;`: SELECT, EXPLAIN [ANALYZE] SELECT, DESCRIBE t, SHOW PROJECTIONS FROM t.
.tables                          list the tables
.mode table|json|csv|markdown    print answers so
.timing on|off                   print rows and seconds of each answer
.pager on|off                    show long answers in $PAGER
.quit                            end, as ctrl-D does; ctrl-C cancels a question
"""


class _CancelledQuestionError(Exception):
    """The user wants no answer any more."""


def shell(
    places: TablePlaces,
    *,
    command: Annotated[
        str | None, typer.Option("-c", "--command", help="Statements to answer instead.")
    ] = None,
    output: Output = None,
) -> None:
    """Answer statements from a prompt, from --command, or from standard input."""
    session = _Session(Places(places, given_options()), output)
    if command is not None:
        for statement in _statements(command.splitlines(keepends=True), may_be_open=True):
            session.run(statement)
    elif sys.stdin.isatty():
        _prompt(session)
    else:
        for statement in _statements(sys.stdin):
            session.run(statement)


def _statements(lines: Iterable[str], *, may_be_open: bool = False) -> Iterator[str]:
    """Yield statements, each before the next line is read, and lines that begin with a dot.

    Raises InvalidInputError: PROJSEG_BAD_SQL if the end comes within a statement, whose last `;`
    may lack if it `may_be_open`; PROJSEG_BAD_EXPRESSION within a text or a comment.
    """
    held = ""
    for number, line in enumerate(lines):
        if number == 0:
            line = line.removeprefix("\ufeff")  # what some editors begin a file with
        if not held.strip() and line.lstrip().startswith("."):
            yield line.strip()
            continue
        held += line
        if ";" in line:
            *whole, held = _parted(held)
            yield from filter(str.strip, whole)
    *_, held = _parted(held)
    if held:
        sql_tokens(held)
        if not may_be_open:
            raise InvalidInputError(
                "PROJSEG_BAD_SQL",
                f"the input ends within the statement {held.strip()[:80]!r}; end it with ;",
            )
        yield held


def _parted(text: str) -> list[str]:
    """Return the statements of a text without their `;`, and what follows the last.

    A comment before a statement is left out.
    """
    try:
        tokens = sql_tokens(text)
    except InvalidInputError:
        return [text]  # a quote is open: its end may come with the next line
    parts, start = [], None
    for token in tokens:
        if token.text == ";" and text[token.start] == ";":
            parts.append("" if start is None else text[start : token.start])
            start = None
        elif start is None:
            start = token.start
    return [*parts, "" if start is None else text[start:]]


def is_whole(text: str) -> bool:
    """Whether what is typed at the prompt is to be answered, not carried on in the next line."""
    return text.lstrip().startswith(".") or not text.strip() or not _parted(text)[-1].strip()


class _Session:
    """How the answers of statements are shown.

    Without a mode, whether standard output is a terminal decides.
    """

    def __init__(self, places: Places, mode: OutputFormat | None) -> None:
        self.places, self.mode = places, mode
        self.is_timed = self.is_paged = sys.stdin.isatty() and sys.stdout.isatty()
        self.is_over = False

    def run(self, statement: str) -> None:
        """Print the answer of a statement, or do what a line with a dot says."""
        if statement.startswith("."):
            self._command(statement[1:].split())
            return
        start = time.perf_counter()
        found = self.places.sql(statement)
        seconds = time.perf_counter() - start
        with self._pager():
            if explained_select(statement) and chosen_format(self.mode) is OutputFormat.TABLE:
                sys.stdout.write(f"{found.column(0)[0].as_py().rstrip()}\n")
            else:
                print_rows(found, self.mode)
        if self.is_timed:
            sys.stdout.write(f"{found.num_rows:,} rows, {seconds:.3f} s\n")
        sys.stdout.flush()

    def _command(self, words: list[str]) -> None:
        match words:
            case ["help"]:
                sys.stdout.write(_HELP)
            case ["tables"]:
                print_rows([{"table": name} for name in self.places.names()], self.mode)
            case ["mode", mode] if mode in [*OutputFormat]:
                self.mode = OutputFormat(mode)
            case ["timing", "on" | "off"]:
                self.is_timed = words[1] == "on"
            case ["pager", "on" | "off"]:
                self.is_paged = words[1] == "on"
            case ["quit" | "exit"]:
                self.is_over = True
            case ["mode", *_]:
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT",
                    f"'.{' '.join(words)}' names no mode; write .mode and one of "
                    f"{', '.join(OutputFormat)}",
                )
            case _:
                known = ("help", "tables", "mode", "timing", "pager", "quit")
                near = did_you_mean(words[0] if words else "", known)
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT",
                    f"'.{' '.join(words)}' is no command of the shell{near}; .help lists them",
                )

    @contextmanager
    def _pager(self) -> Iterator[None]:
        """Print, and show what is longer than the terminal in a pager."""
        if not self.is_paged:
            yield
            return
        held = _TerminalText()
        with redirect_stdout(held):
            yield
        text, words = held.getvalue(), shlex.split(os.environ.get("PAGER", "less -FRX"))
        if text.count("\n") < terminal().height or not words or not shutil.which(words[0]):
            sys.stdout.write(text)
        else:
            subprocess.run(words, input=text, text=True, check=False)  # noqa: S603 - the user's pager


class _TerminalText(io.StringIO):
    """A buffer of text that Rich prints to as if it were the terminal."""

    def isatty(self) -> bool:
        """Return true, so that the text has the terminal's width and looks."""
        return True


def _prompt(session: _Session) -> None:
    """Ask for statements until the user ends it; errors end none but their own."""
    require("prompt_toolkit", "projseg shell at a prompt")
    # Imported here: it is installed only where somebody asks at a prompt.
    from projseg.cli.prompt import typed_texts

    sys.stdout.write(f"projseg: {len(session.places.names()):,} tables; .help, .quit\n")
    for text in typed_texts(session.places, is_whole):
        parts = [text.strip()] if text.lstrip().startswith(".") else _parted(text)
        for statement in filter(str.strip, parts):
            try:
                with _cancellable():
                    session.run(statement)
            except _CancelledQuestionError:
                sys.stderr.write("cancelled\n")
                break
            except ProjsegError as error:
                sys.stderr.write(f"{_pointed(statement, error)}{error}\n")
                break
        if session.is_over:
            return


def _pointed(statement: str, error: ProjsegError) -> str:
    """Return the line of a statement that an error is about, and a caret under the place."""
    place = place_in(statement, error)
    if place is None:
        return ""
    start = statement.rfind("\n", 0, place) + 1
    line = statement[start:].split("\n", 1)[0]
    shown = "".join(one if one.isprintable() else " " for one in line)
    return f"{shown}\n{' ' * (place - start)}^\n"


@contextmanager
def _cancellable() -> Iterator[None]:
    """Let ctrl-C end the question that runs in the block; a second one ends the shell."""
    if current_thread() is not main_thread():
        yield
        return
    pressed = Event()

    def press(_number: int, _frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, press)
    try:
        with under(Deadline(0, _CancelledQuestionError, clock=_seconds_of(pressed))):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def _seconds_of(event: Event) -> Callable[[], float]:
    """Return a clock that stands until an event happens."""
    return lambda: float(event.is_set())
