"""`ViewEdits`: views of a table are made; `View` has what can be done with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projseg.errors import UnsupportedFeatureError
from projseg.table.segment_edits import OnProgress
from projseg.table.table_state import TableState
from projseg.table.view_form import ViewForm
from projseg.table.view_object import StoredView, View, new_view
from projseg.views.definitions.view_checks import as_required
from projseg.views.refresh_work import Refresh


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
        if if_not_exists and name is not None:
            store = state.reader.view_store()
            known = [] if store is None else store.views.values()
            if any(view.name.casefold() == name.casefold() for view in known):
                return self.view(name)
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
            replace=replace,
            build=build,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    def view(self, name: str) -> View:
        """Return a view by its name."""
        return View(StoredView.named(self._state, name))
