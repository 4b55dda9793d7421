"""`SourceSync`: a foreign table, whose source files stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.declarations import (
    IndexLike,
    ProjectionLike,
    declare_properties,
    declared_index,
    schema_of,
)
from projseg.errors import InvalidInputError
from projseg.errors import listed as listed_items
from projseg.maintenance.source_columns import with_ids
from projseg.maintenance.sync import Synced, publish_over, read_files, sync, with_all_names
from projseg.table.segment_edits import runner_of
from projseg.table.table_state import LOGGER, TableState
from projseg.table.writes import Commit, commit_of
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
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import columns_of
from projseg.table_layer.storage.source_options import with_source_options
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import StorageOptionsLike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SourceSync:
    """Makes a foreign table follow its source files."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def sync(
        self,
        dry_run: bool,
        verify: bool | str,
        *,
        spark: SparkSession | None,
        source_options: StorageOptionsLike | None,
    ) -> Synced:
        """Make companions for new files of the source, and drop those of files that are gone."""
        state = self._state
        state.check_newest()
        if verify not in (True, False, "rows"):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"verify is True, False or 'rows', not {verify!r}"
            )
        state.storage = with_source_options(state.storage, source_options)
        snapshot, done, _ = sync(
            state.storage, state.note, dry_run=dry_run, verify=verify, runner=runner_of(spark)
        )
        if not dry_run:
            state.move_to(snapshot)
            state.keep_store(UNSET)
            state.refresh_views()
        return done


def companions_with(
    state: TableState, hashes: frozenset[str] | None, bounds: tuple[int, int] | None
) -> Commit:
    """Make companions anew that lack a definition's hash (None: all), with rows within bounds."""

    def is_lacking(entry: SegmentEntry) -> bool:
        low, high = entry.min_time_us, entry.max_time_us
        is_outside = bounds is not None and (
            low is None or high is None or high < bounds[0] or low >= bounds[1]
        )
        return not is_outside and (hashes is None or bool(hashes - entry.definition_hashes))

    snapshot, _, entries = sync(state.storage, state.note, is_lacking=is_lacking)
    state.move_to(snapshot)
    return commit_of(snapshot.version, entries)


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
