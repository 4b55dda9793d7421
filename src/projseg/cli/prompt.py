"""The prompt of `projseg shell`: history, and completion of tables, columns and functions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.catalog.places import Places
from projseg.errors import ProjsegError

_WORD: Final = re.compile(r"[\w.`]+$")
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")
_AFTER_FROM: Final = re.compile(r"\b(?:FROM|JOIN|DESCRIBE|DESC|IN|ON)\s+[\w.`]*$", re.IGNORECASE)
_KEYWORDS: Final = (
    "ALL", "ANALYZE", "AND", "ANTI", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "COLUMNS",
    "CUBE", "DESC", "DESCRIBE", "DISTINCT", "ELSE", "END", "EXPLAIN", "FILTER", "FIRST", "FROM",
    "GROUP", "GROUPING", "HAVING", "IN", "INDEXES", "INNER", "INTERVAL", "IS", "JOIN", "LAST",
    "LEFT", "LIKE", "LIMIT", "NOT", "NULL", "NULLS", "OFFSET", "ON", "OR", "ORDER", "PROJECTIONS",
    "ROLLUP", "SEGMENTS", "SELECT", "SEMI", "SETS", "SHOW", "THEN", "TIMESTAMP", "USING",
    "VERSION", "WHEN", "WHERE", "WITH",
)  # fmt: skip
_COMMANDS: Final = (
    ".help", ".tables", ".quit", ".mode table", ".mode json", ".mode csv", ".mode markdown",
    ".timing on", ".timing off", ".pager on", ".pager off",
)  # fmt: skip
_LOOKED_AT: Final = 20  # tables whose columns are proposed if the text names none


def typed_texts(places: Places, is_whole: Callable[[str], bool]) -> Iterator[str]:
    """Yield what is typed at the prompt, until ctrl-D; names of tables are completed."""
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: not session.default_buffer.complete_state))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        "projseg> ",
        multiline=True,
        prompt_continuation="    ...> ",
        history=_history(),
        completer=NameCompleter(places),
        complete_while_typing=False,
        key_bindings=keys,
    )
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _history() -> History:
    """Return the history, in a file of this user alone if that can be written."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    file = Path(base).expanduser() / "projseg" / "shell_history"
    with suppress(OSError, RuntimeError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        with file.open("a", encoding="utf-8"):
            return FileHistory(str(file))
    return InMemoryHistory()


class NameCompleter(Completer):
    """Proposes tables behind FROM and JOIN, else columns, functions and keywords."""

    def __init__(self, places: Places) -> None:
        self._places = places
        functions = {one.name for one in SPELLINGS.values()} | AGGREGATES.keys()
        self._functions = sorted(f"{name}(" for name in functions if _PLAIN.fullmatch(name))

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield completions of the word before the cursor."""
        before = document.text_before_cursor
        if before.startswith("."):
            yield from (
                Completion(one, -len(before)) for one in _COMMANDS if one.startswith(before)
            )
            return
        found = _WORD.search(before)
        word = found[0] if found else ""
        table, dot, part = word.rpartition(".")
        with suppress(ProjsegError):  # a table that cannot be read has no names to propose
            for name in self._names(before, document.text, table if dot else None):
                if name.casefold().strip("`").startswith(part.casefold().strip("`")):
                    yield Completion(name, -len(part if dot else word))

    def _names(self, before: str, text: str, of_table: str | None) -> Iterator[str]:
        tables = self._places.names()
        if _AFTER_FROM.search(before) and of_table is None:
            yield from (".".join(map(_quoted, name.split("."))) for name in tables)
            return
        words = set(re.findall(r"[\w.]+", text.casefold().replace("`", "")))
        named = [one for one in tables if one.casefold() in words]
        if of_table is not None:
            named = [one for one in tables if one.casefold() == of_table.casefold()] or named
        columns: dict[str, None] = {}
        for name in (named or tables)[:_LOOKED_AT]:
            with suppress(ProjsegError):  # a damaged table hides none of the others
                columns |= dict.fromkeys(self._places.table(name).schema.names)
        yield from map(_quoted, columns)
        if of_table is None:
            yield from self._functions
            yield from _KEYWORDS


def _quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"
