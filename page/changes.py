"""What the page may change where it was started so: what is stored beside the rows, never a row.

Each change first describes what it would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from projseg.errors import InvalidInputError, did_you_mean
from projseg.table import Table

if TYPE_CHECKING:
    from projseg.advisor.advice import Advice


class ChangeForm(NamedTuple):
    """The request for a change of `PAGE_CHANGES`.

    `what` is a projection, index or view, or the answer that has the advice; `sql` is of a
    projection to add.
    """

    change: str
    what: str = ""
    sql: str = ""
    advice: Advice | None = None


class ChangeRecord(msgspec.Struct):
    """The request for a change of `PAGE_CHANGES`, and a preview of it.

    `what` is a projection, index or view; `sql` is of a projection to add.
    """

    name: str
    version: int
    change: str
    what: str
    sql: str
    preview: str


Progress: TypeAlias = Callable[[int, int], object]


class _PageChange(NamedTuple):
    """How a change is previewed, and made while it says how far it is."""

    preview: Callable[[Table, ChangeForm], str]
    run: Callable[[Table, ChangeForm, Progress], Any]


def _row_of(rows: list[dict[str, Any]], key: str, what: str) -> dict[str, Any]:
    known = {row[key]: row for row in rows}
    if what not in known:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"the table has no {key} '{what}'{did_you_mean(what, known)}; it has "
            f"{', '.join(known) or 'none'}",
        )
    return known[what]


def _of_projection(table: Table, form: ChangeForm) -> str:
    row = _row_of(table.projection_stats().to_pylist(), "projection", form.what)
    return (
        f"{row['missing']:,} segments lack it and {row['failed']:,} failed: these are written anew "
        "with it, their other parts copied."
    )


def _of_dropped(table: Table, form: ChangeForm) -> str:
    row = _row_of(table.projection_stats().to_pylist(), "projection", form.what)
    return (
        f"Queries use it no longer, and new segments go without. Its {row['bytes']:,} bytes stay "
        "until segments are written anew."
    )


def _of_added(table: Table, form: ChangeForm) -> str:
    projection = {"name": form.what, "sql": form.sql}
    table.explain(aggregators="count(*)", what_if=[projection])  # it can be built
    count = len(table.snapshot.segments)
    return (
        f"{form.what} is declared; segments written from now on have it. The {count:,} that are "
        "there get it by materialize-projection."
    )


def _of_index(table: Table, form: ChangeForm) -> str:
    row = _row_of(table.indexes().to_pylist(), "name", form.what)
    return f"{row['segments'] - row['covered']:,} segments get filters; their rows are read."


def _of_compact(table: Table, _: ChangeForm) -> str:
    planned = table.compact(dry_run=True)
    merged, made = sum(planned["segments"].to_pylist()), planned.num_rows
    return f"{merged:,} segments are merged into {made:,}; rows and answers stay."


def _of_view(table: Table, form: ChangeForm) -> str:
    return str(table.view(form.what).refresh(dry_run=True))


def _of_advice(table: Table, form: ChangeForm) -> str:
    items = _advice(form).items
    drops = form.change == _WITH_DROPS
    statements = [item.statement for item in items if drops or item.kind != "drop"]
    count = len(table.snapshot.segments)
    return "\n".join(
        [
            *(f"{statement};" for statement in statements),
            "",
            f"All of it is declared in one commit, and built in the {count:,} segments that are "
            "there. If the table changed so that the advice no longer fits, nothing is done.",
        ]
        if statements
        else ["There is nothing to do."]
    )


def _applied(table: Table, form: ChangeForm, progress: Progress) -> str:
    drop = form.change == _WITH_DROPS
    commits = _advice(form).apply(table, drop=drop, on_progress=progress)
    return "" if commits else "The table has it all already."


def _advice(form: ChangeForm) -> Advice:
    if form.advice is None:
        raise InvalidInputError(
            "PROJSEG_ADVICE_STALE", "this advice is kept no longer; ask for advice again"
        )
    return form.advice


_WITH_DROPS: Final = "apply-advice-and-drop"
PAGE_CHANGES: Final = {
    "add-projection": _PageChange(
        _of_added,
        lambda table, form, _: table.add_projection({"name": form.what, "sql": form.sql}),
    ),
    "materialize-projection": _PageChange(
        _of_projection,
        lambda table, form, progress: table.materialize_projection(form.what, on_progress=progress),
    ),
    "drop-projection": _PageChange(
        _of_dropped, lambda table, form, _: table.drop_projection(form.what)
    ),
    "materialize-index": _PageChange(
        _of_index, lambda table, form, _: table.materialize_index(form.what)
    ),
    "refresh-view": _PageChange(_of_view, lambda table, form, _: table.view(form.what).refresh()),
    "compact": _PageChange(_of_compact, lambda table, _form, _: table.compact()),
    "apply-advice": _PageChange(_of_advice, _applied),
    _WITH_DROPS: _PageChange(_of_advice, _applied),
}
"""By the verbs of the shell that do the same; advice by what is done of it."""


def change_record(name: str, table: Table, form: ChangeForm) -> ChangeRecord:
    """Return what a change would do; raise PROJSEG_BAD_ARGUMENT, or the errors of the change."""
    preview = _page_change(form.change).preview(table, form)
    return ChangeRecord(name, table.version, form.change, form.what, form.sql, preview)


def changed_text(table: Table, form: ChangeForm, progress: Progress) -> str:
    """Make a change through a separate table object, and return a text about its result."""
    done = _page_change(form.change).run(table, form, progress)
    text = f"{form.change} {'' if form.advice else form.what}".rstrip()
    return f"{text}: done, in version {table.newest().version}.\n{done}"


def _page_change(change: str) -> _PageChange:
    if change not in PAGE_CHANGES:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"change is {change!r}; the page can {', '.join(PAGE_CHANGES)}",
        )
    return PAGE_CHANGES[change]
