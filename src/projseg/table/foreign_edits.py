"""`TableSource`: a table over files of others, which stay where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from projseg.table.table_state import LOGGER, TableState
from projseg.table.writable_table import WritableTable, runner_of
from projseg.table_layer.storage.source_options import with_source_options

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.declarations import IndexLike, ProjectionLike
    from projseg.maintenance.sync import Synced
    from projseg.table.writes import Commit
    from projseg.table_layer.metadata.segment_entry import SegmentEntry
    from projseg.table_layer.metadata.snapshot import Snapshot
    from projseg.table_layer.storage.storage_contract import Storage
    from projseg.table_layer.storage.store_location import StorageOptionsLike


@dataclass(frozen=True, slots=True)
class AttachedSource:
    """The files of others that a table stands over.

    Parameters
    ----------
    kind : str
        `parquet`, `delta` or `iceberg`.
    location : str
        The pattern of its files, the folder of its log, or its name in a catalog.
    version : str or None
        Its version, where it has versions.
    files : int
        How many files it lists; of a version that was chosen, how many that version stands over.
    files_without_companion : int
        Those of them that no projection is of yet: `sync` makes their companions.
    """

    kind: str
    location: str
    version: str | None
    files: int
    files_without_companion: int


class TableSource(WritableTable):
    """A table whose base rows may be in files of others."""

    @property
    def source(self) -> AttachedSource | None:
        """The files of others that it stands over; None: its rows are its own."""
        source = self.properties.source
        if source is UNSET:
            return None
        files, uncovered = _paths(self._snapshot.segments)
        listed = getattr(self._snapshot, "listed", None)
        version = source.version if listed is None else listed.version
        return AttachedSource(source.kind, source.location, version, len(files), len(uncovered))

    def sync(
        self,
        dry_run: bool = False,
        verify: bool | str = False,
        *,
        spark: SparkSession | None = None,
        source_options: StorageOptionsLike | None = None,
    ) -> Synced:
        """Make companions for new files of the source, and drop those of files that are gone.

        The source's list is read once, and one commit follows it. Readers need no sync to be right:
        files without a companion answer by their rows.

        Parameters
        ----------
        dry_run : bool
            Only return what would be done.
        verify : bool or str
            Also read the footers of files that seem to be the same; `rows`: make all companions
            anew, from all rows.
        spark : SparkSession or None
            Whose tasks make the companions, as of `materialize_projection`; each makes Bloom
            filters of its own. None: threads of this process.
        source_options : mapping or None
            As of `Table`, of which those of this object are taken otherwise.

        Returns
        -------
        Synced
            version, source_version, files_kept, files_added, files_dropped, rows_read,
            milliseconds.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SOURCE, if the source is not there, has columns that do not fit, or the
            table stands over none; PROJSEG_BAD_ARGUMENT; PROJSEG_PINNED_VERSION.
        StorageError
            PROJSEG_SOURCE_CHANGED, PROJSEG_SOURCE_GONE: files changed while they were read;
            nothing was committed.
        CommitError
            As of `append`.
        """
        from projseg.maintenance.sync import sync

        self._check_newest()
        if verify not in (True, False, "rows"):
            from projseg.errors import InvalidInputError

            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"verify is True, False or 'rows', not {verify!r}"
            )
        state = self._state
        state.storage = with_source_options(state.storage, source_options)
        snapshot, done, _ = sync(
            state.storage, self._note, dry_run=dry_run, verify=verify, runner=runner_of(spark)
        )
        if not dry_run:
            state.move_to(snapshot)
            state.keep_store(UNSET)
            state.refresh_views()
        return done


def companions_with(
    state: TableState, hashes: frozenset[str] | None, bounds: tuple[int, int] | None
) -> Commit:
    """Make companions anew that lack a projection; see `Table.materialize_projection`.

    Parameters
    ----------
    hashes : frozenset of str or None
        Of the definitions of the projections; None: all companions are made anew.
    bounds : (int, int) or None
        Only those with rows in `[start, end)`, microseconds UTC; None: all.
    """
    from projseg.maintenance.sync import sync
    from projseg.table.writes import commit_of

    def is_lacking(entry: SegmentEntry) -> bool:
        low, high = entry.min_time_us, entry.max_time_us
        is_outside = bounds is not None and (
            low is None or high is None or high < bounds[0] or low >= bounds[1]
        )
        return not is_outside and (hashes is None or bool(hashes - entry.definition_hashes))

    snapshot, _, entries = sync(state.storage, state.note, is_lacking=is_lacking)
    state.move_to(snapshot)
    return commit_of(snapshot.version, entries)


def _paths(entries: Iterable[SegmentEntry]) -> tuple[set[str], set[str]]:
    """Return the source's files of some entries, and those of them without a companion."""
    found: tuple[set[str], set[str]] = (set(), set())
    for entry in entries:
        if entry.foreign is not None:
            found[0].add(entry.foreign.path)
            if not entry.has_file and entry.row_count:
                found[1].add(entry.foreign.path)
    return found


def address_of(source: Any) -> tuple[Any, Mapping[str, str] | None]:
    """Return a source as a text, and the options that a loaded table is found by again."""
    package = type(source).__module__.partition(".")[0]
    if package == "deltalake" and hasattr(source, "table_uri"):
        return f"delta:{source.table_uri}", None
    if package == "pyiceberg" and hasattr(source, "catalog"):
        from projseg.table_layer.foreign.iceberg_table import address_of as named

        name, options = named(source)
        return f"iceberg:{name}", options
    return source, None


def attach(
    storage: Storage,
    source: Any,
    *,
    time_column: str | None,
    projections: Sequence[ProjectionLike],
    indexes: Sequence[IndexLike],
    columns: Mapping[str, str] | None,
    target_segment_rows: int,
) -> Snapshot:
    """Publish a table over a source; see `Table.attach`."""
    import pyarrow as pa

    from projseg.declarations import declare_properties, declared_index, schema_of
    from projseg.errors import listed as listed_items
    from projseg.maintenance.source_columns import with_ids
    from projseg.maintenance.sync import publish_over, read_files, with_all_names
    from projseg.table_layer.commits.commit import refuse_existing
    from projseg.table_layer.foreign.foreign_schema import (
        merged_schema,
        require_columns,
        schema_of_file,
        stated_schema,
        too_fine,
    )
    from projseg.table_layer.foreign.foreign_segment import file_options, source_options
    from projseg.table_layer.foreign.source_list import list_source, parse_source, require_apart
    from projseg.table_layer.metadata.index_declaration import check_indexes
    from projseg.table_layer.metadata.table_properties import columns_of

    refuse_existing(storage)
    wanted = None if columns is None else columns_of(schema_of(columns))
    stored = replace(parse_source(source), columns=wanted)
    listed = list_source(stored, source_options(storage))
    require_apart(stored, storage.location, listed.root)
    options = file_options(storage, listed.field_ids is not None)
    read = read_files(listed.files, options)
    if wanted is not None:
        require_columns(wanted, () if listed.field_ids is not None else read, listed.types or {})
    if listed.types is None:
        merged = merged_schema([schema_of_file(*one) for one in read], wanted)
    else:
        merged = stated_schema(listed.types, wanted)
    types, left_out = dict(merged.types), {**listed.left_out, **merged.left_out}
    fine = {} if listed.field_ids is not None else too_fine(read, options)
    fine = {name: why for name, why in fine.items() if name in types}
    types = {name: one for name, one in types.items() if name not in fine}
    left_out |= fine
    if left_out:
        shown = ", ".join(f"'{name}' ({why})" for name, why in left_out.items())
        LOGGER.warning("columns of %s are left out: %s", stored.location, shown)
    declared = declare_properties(
        pa.schema(list(types.items())),
        time_column=time_column,
        projections=projections,
        target_segment_rows=target_segment_rows,
    )
    stored = replace(stored, version=listed.version, table_id=listed.table_id, left_out=left_out)
    declared = with_ids(replace(declared, source=stored), listed)
    found = tuple(declared_index(index, declared) for index in listed_items("indexes", indexes))
    check_indexes(found)
    read = with_all_names(read, declared, listed)
    return publish_over(storage, replace(declared, indexes=found or UNSET), read)
