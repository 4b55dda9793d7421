"""What the page may change where it was started so: what is stored beside the rows, never a row.

Each change says first what it would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from projseg.errors import InvalidInputError, did_you_mean
from projseg.table import Table


class ChangeRecord(msgspec.Struct):
    """A change that is asked for.

    Parameters
    ----------
    change, what : str
        As of `PAGE_CHANGES`; which projection, index or view.
    sql : str
        Of a projection to add.
    preview : str
        What it would do.
    """

    name: str
    version: int
    change: str
    what: str
    sql: str
    preview: str


class _PageChange(NamedTuple):
    """How a change is previewed and made, of a table, a name and an SQL text."""

    preview: Callable[[Table, str, str], str]
    run: Callable[[Table, str, str], Any]


def _row_of(rows: list[dict[str, Any]], key: str, what: str) -> dict[str, Any]:
    known = {row[key]: row for row in rows}
    if what not in known:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"the table has no {key} '{what}'{did_you_mean(what, known)}; it has "
            f"{', '.join(known) or 'none'}",
        )
    return known[what]


def _of_projection(table: Table, what: str, _: str) -> str:
    row = _row_of(table.projection_stats().to_pylist(), "projection", what)
    return (
        f"{row['missing']:,} segments lack it and {row['failed']:,} failed: these are written anew "
        "with it, their other parts copied."
    )


def _of_dropped(table: Table, what: str, _: str) -> str:
    row = _row_of(table.projection_stats().to_pylist(), "projection", what)
    return (
        f"Queries use it no longer, and new segments go without. Its {row['bytes']:,} bytes stay "
        "until segments are written anew."
    )


def _of_added(table: Table, what: str, sql: str) -> str:
    table.explain(aggregators="count(*)", what_if=[{"name": what, "sql": sql}])  # it can be built
    count = len(table.snapshot.segments)
    return (
        f"{what} is declared; segments written from now on have it. The {count:,} that are there "
        "get it by materialize-projection."
    )


def _of_index(table: Table, what: str, _: str) -> str:
    row = _row_of(table.indexes().to_pylist(), "name", what)
    return f"{row['segments'] - row['covered']:,} segments get filters; their rows are read."


def _of_compact(table: Table, _what: str, _sql: str) -> str:
    planned = table.compact(dry_run=True)
    merged, made = sum(planned["segments"].to_pylist()), planned.num_rows
    return f"{merged:,} segments are merged into {made:,}; rows and answers stay."


def _of_view(table: Table, what: str, _: str) -> str:
    return str(table.view(what).refresh(dry_run=True))


PAGE_CHANGES: Final = {
    "add-projection": _PageChange(
        _of_added, lambda table, what, sql: table.add_projection({"name": what, "sql": sql})
    ),
    "materialize-projection": _PageChange(
        _of_projection, lambda table, what, _: table.materialize_projection(what)
    ),
    "drop-projection": _PageChange(_of_dropped, lambda table, what, _: table.drop_projection(what)),
    "materialize-index": _PageChange(
        _of_index, lambda table, what, _: table.materialize_index(what)
    ),
    "refresh-view": _PageChange(_of_view, lambda table, what, _: table.view(what).refresh()),
    "compact": _PageChange(_of_compact, lambda table, _what, _sql: table.compact()),
}
"""By the verbs of the shell that do the same."""


def change_record(name: str, table: Table, change: str, what: str, sql: str) -> ChangeRecord:
    """Return what a change would do.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT, and as of the change.
    """
    preview = _page_change(change).preview(table, what, sql)
    return ChangeRecord(name, table.version, change, what, sql, preview)


def changed_text(table: Table, change: str, what: str, sql: str) -> str:
    """Make a change through an object that nobody else reads, and return what it did."""
    done = _page_change(change).run(table, what, sql)
    return f"{change} {what}".rstrip() + f": done, in version {table.newest().version}.\n{done}"


def _page_change(change: str) -> _PageChange:
    if change not in PAGE_CHANGES:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"change is {change!r}; the page can {', '.join(PAGE_CHANGES)}",
        )
    return PAGE_CHANGES[change]
