"""Create, drop, rename, enable and disable views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import check_new_name
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.metadata.text_bounds import check_comment
from projseg.table_layer.storage.paths import VIEWS, new_write_id
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.damaged_store import mended_store
from projseg.views.definitions.definition import Definition, mentioned
from projseg.views.definitions.view_checks import (
    bad_view,
    check_result_options,
    default_chunk,
    read_options,
    scope_of,
)
from projseg.views.linked_tables import location_from, name_linked
from projseg.views.refresh_on_commit import mark_dimensions
from projseg.views.refresh_view import refresher_of
from projseg.views.refresh_work import Refresh, Work
from projseg.views.view_commits import Views, edited, store_write, with_store
from projseg.views.view_records import FACT, TableReference, ViewEntry
from projseg.views.view_store import StoreVersion, newest_store, no_store, unknown_view


@dataclass(frozen=True, slots=True)
class NewView:
    """A request for a view, with options as `read_options` takes them.

    It is built before it appears if `is_built`; with `replaces`, a view of its name is dropped in
    the same commit.
    """

    name: str
    definition: Definition
    options: Mapping[str, object] = field(default_factory=dict)
    comment: str = ""
    is_built: bool = True
    replaces: bool = False

    def entry(self, snapshot: Snapshot) -> ViewEntry:
        """Return the view without parts."""
        check_new_name("view", self.name)
        check_comment("a view's comment", self.comment)
        options = read_options(self.options)
        definition = self.definition
        if definition.grade == "result":
            return self._of_result(snapshot, options)
        interval = options.pop("interval", None)
        given = None if interval is None else Interval.parse(interval)
        properties = snapshot.properties
        scope = scope_of(definition.scope, given)
        if properties.time_column is None and (scope is not None or "retain" in options):
            raise bad_view("interval and retain need a time column, which the table has not")
        if properties.time_column is None and options.get("chunk", "all") != "all":
            raise bad_view("chunk needs a time column, which the table has not")
        options.setdefault("refresh", "commit")
        options.setdefault("chunk", default_chunk(snapshot))
        groups, states = mentioned(
            definition.text, definition.dimensions, stored_schema(properties).columns
        )
        return ViewEntry(
            name=self.name,
            view_id=new_write_id(),
            sql=definition.sql,
            definition=definition.text,
            definition_hash=definition.digest,
            fact=TableReference(FACT, properties.table_id),
            dimensions=definition.dimensions,
            group_columns=groups,
            state_columns=states,
            options=options,
            scope=scope,
            comment=self.comment,
        )

    def _of_result(self, snapshot: Snapshot, options: dict[str, str]) -> ViewEntry:
        """Return a stored result without rows; it never follows commits."""
        check_result_options(options)
        definition = self.definition
        return ViewEntry(
            name=self.name,
            view_id=new_write_id(),
            grade="result",
            sql=definition.sql,
            definition=definition.text,
            definition_hash=definition.digest,
            fact=TableReference(FACT, snapshot.properties.table_id),
            dimensions=definition.dimensions,
            options={"refresh": "deferred", **options},
            comment=self.comment,
        )


def create_view(
    snapshot: Snapshot,
    new: NewView,
    note: CommitNote,
    *,
    dry_run: bool = False,
    work: Work | None = None,
) -> tuple[Snapshot, StoreVersion, ViewEntry | None, Refresh]:
    """Build a view and publish it with its parts, in one commit of the store.

    Return the table, whose property may have been set, the store, the view (None after a dry run,
    which writes nothing), and what was built.
    """
    view = new.entry(snapshot)
    _name_tables(snapshot, view)
    work = work or Work()
    if dry_run:
        storage = ViewsFolder(snapshot.storage)
        store = newest_store(storage) or no_store(storage)
        _check_free(store, view, new)
        return snapshot, store, None, refresher_of(snapshot, store, view, work).planned()
    if new.replaces:
        mended_store(snapshot, note)
    snapshot, store = with_store(snapshot, note)
    _check_free(store, view, new)
    with store_write(store) as write:
        done = Refresh()
        if new.is_built:
            built, done = refresher_of(snapshot, store, view, work).build(write)
            assert built is not None, "a new view is always written"
            view = built

        def edit(views: Views) -> Views:
            if not new.replaces:
                return {**views, view.view_id: view}
            name = view.name.casefold()
            left = {key: one for key, one in views.items() if one.name.casefold() != name}
            return {**left, view.view_id: view}

        before = store.views
        store = write.commit(edit, "create view", note.asking(view=view.name))
    gone = [one for one in before.values() if one.view_id not in store.views]
    for one in (view, *gone):
        mark_dimensions(snapshot, one, note, is_gone=one is not view)
    return snapshot, store, view, done


def _name_tables(snapshot: Snapshot, view: ViewEntry) -> None:
    """Follow the tables of a new view, which the caller gave."""
    for one in view.dimensions:
        there = location_from(one.location, f"{snapshot.storage.location}/{VIEWS}")
        name_linked(snapshot.storage, there)


def _check_free(store: StoreVersion, view: ViewEntry, new: NewView) -> None:
    """Refuse a name or a definition that already exists, before anything is built."""
    for other in store.views.values():
        is_named = other.name.casefold() == view.name.casefold()
        if is_named and new.replaces:
            continue
        if is_named:
            raise InvalidInputError(
                "PROJSEG_VIEW_EXISTS",
                f"there is a view '{other.name}' in {store.storage.location}; drop it first, "
                "replace it, or choose another name",
            )
        same = (other.definition_hash, other.scope, other.options.get("retain"))
        if same == (view.definition_hash, view.scope, view.options.get("retain")):
            raise InvalidInputError(
                "PROJSEG_VIEW_EXISTS",
                f"view '{other.name}' stores what '{view.name}' would; use that one",
            )


def drop_view(
    snapshot: Snapshot, store: StoreVersion, view_id: str, note: CommitNote
) -> StoreVersion:
    """Drop a view; its files stay until a vacuum."""

    def edit(views: Views) -> Views:
        if view_id not in views:
            raise unknown_view(view_id, views.values(), store.storage.location)
        return {key: view for key, view in views.items() if key != view_id}

    known = store.views.get(view_id)
    with store_write(store) as write:
        store = write.commit(edit, "drop view", note)
    if known is not None:
        mark_dimensions(snapshot, known, note, is_gone=True)
    return store


def alter_view(
    store: StoreVersion,
    view_id: str,
    note: CommitNote,
    *,
    is_enabled: bool | None = None,
    name: str | None = None,
) -> StoreVersion:
    """Enable, disable or rename a view; its parts stay."""
    if name is not None:
        check_new_name("view", name)

    def change(view: ViewEntry) -> ViewEntry:
        state = view.is_enabled if is_enabled is None else is_enabled
        return replace(view, is_enabled=state, name=name or view.name)

    with store_write(store) as write:
        return write.commit(edited(view_id, change), "alter view", note)
