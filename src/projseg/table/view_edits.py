"""`ViewEdits`: views of a table are made; `View` has what can be done with one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.table.segment_edits import OnProgress
from projseg.table.stored_view import StoredView
from projseg.table.table_state import TableState
from projseg.table.view_form import ViewForm
from projseg.table.view_object import View
from projseg.views.definitions.definition import Definition, clustered
from projseg.views.definitions.view_checks import as_required
from projseg.views.refresh_work import Refresh, Work
from projseg.views.view_life import NewView, create_view

if TYPE_CHECKING:
    from projseg.views.definitions.result_definition import RunSelect


class ViewEdits:
    """The views of a table, to be made and found."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def create(
        self,
        name: str | None,
        form: ViewForm,
        options: Mapping[str, Any],
        *,
        comment: str | None,
        if_not_exists: bool,
        replace: bool,
        build: bool,
        dry_run: bool,
        on_progress: OnProgress | None,
    ) -> View | Refresh:
        """Store the groups of a SELECT for all segments, or return what would be built."""
        state = self._state
        state.check_newest()
        state.refresh()
        if if_not_exists and (known := view_there(state, name)) is not None:
            return known
        try:
            definition = form.definition(state.reader, may_be_damaged=replace)
        except UnsupportedFeatureError as error:
            raise as_required(error, options) from None
        return new_view(
            state,
            name,
            definition,
            options,
            comment=comment,
            if_not_exists=if_not_exists,
            replace=replace,
            build=build,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    def view(self, name: str) -> View:
        """Return a view by its name."""
        return View(StoredView.named(self._state, name))


def new_view(
    state: TableState,
    name: str | None,
    definition: Definition,
    options: Mapping[str, Any],
    *,
    comment: str | None = None,
    if_not_exists: bool = False,
    replace: bool = False,
    build: bool = True,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    run_select: RunSelect | None = None,
) -> View | Refresh:
    """Make a view of a definition; the arguments are those of `create_view` and `Work`."""
    if (order := options.get("cluster_by")) and definition.grade == "grouped":
        definition = clustered(definition, json.loads(order), state.properties)
    if name is None:
        folder = state.storage.location.rstrip("/").rpartition("/")[2]
        name = f"{folder}-{definition.digest[:8]}"
    new = NewView(name, definition, options, comment or "", is_built=build, replaces=replace)
    work = Work(on_progress=on_progress, run_select=run_select)
    try:
        snapshot, store, view, done = create_view(
            state.snapshot, new, state.note, dry_run=dry_run, work=work
        )
    except InvalidInputError as error:
        if not if_not_exists or error.code != "PROJSEG_VIEW_EXISTS":
            raise
        state.refresh()
        if (known := view_there(state, name)) is None:  # another name stores the same
            raise
        return known
    state.move_to(snapshot)
    if view is None:
        return done
    state.keep_store(store)
    return View(StoredView(state, view))


def view_there(state: TableState, name: str | None) -> View | None:
    """Return the view of a name at the version that is open, if there is one."""
    store = None if name is None else state.reader.view_store()
    view = None if store is None or name is None else store.find(name)
    return None if view is None else View(StoredView(state, view))
