"""Write one segment: encode columns, sort rows, build projections, write and describe the file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.evaluation.rows import MemorySource
from projseg.segment_format.file.encoded_parts import SegmentSummary
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.vectors import Vector
from projseg.table_layer.indexed_columns import WantedFilter, wanted_filters
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.known_properties import ProjectionScope, scope_of
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import in_stored_names
from projseg.table_layer.storage.local_files import storage_error
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError, Storage
from projseg.writer.column_vectors import column_vector, column_zone, time_bounds
from projseg.writer.segment_contents import (
    NOT_BUILT_CHARACTERS_MAX,
    BuiltProjection,
    NotBuilt,
    SegmentContents,
    are_worth_threads,
    build_projection,
    guarded,
)
from projseg.writer.segment_filters import FilterWriter, put_postings
from projseg.writer.sort_order import sort_columns, sorted_row_ids


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """The layout of every new segment of a table, under stored names.

    Segments are sorted by `cluster_by`, time last unless it is named; `scopes` has what each
    projection is to be built for, by name.
    """

    schema: pa.Schema
    time_column: str | None
    cluster_by: Sequence[str]
    specs: Sequence[ProjectionSpec]
    scopes: Mapping[str, ProjectionScope]
    filters: tuple[WantedFilter, ...] = ()

    @classmethod
    def of(cls, properties: TableProperties) -> SegmentLayout:
        """Return the layout that a table declares."""
        stored = in_stored_names(properties)
        declared = properties.projections
        return cls(
            stored.schema,
            stored.time_column,
            stored.cluster_by,
            tuple(from_definition(p.definition, stored.schema) for p in declared),
            {p.name: scope_of(properties.properties, p.name) for p in declared},
            wanted_filters(properties),
        )

    @property
    def filters_at_once(self) -> tuple[WantedFilter, ...]:
        """The filters that writers of new rows make."""
        return tuple(wanted for wanted in self.filters if not wanted.is_deferred)

    @property
    def dictionary_columns(self) -> frozenset[str]:
        """Base columns that sorting or a projection wants as dictionary ids."""
        sorted_or_grouped = {
            name
            for spec in self.specs
            for tree in spec.order or [named.expression for named in spec.grouping]
            for name in tree.columns
        }
        return frozenset(sorted_or_grouped | set(self.cluster_by)) - {self.time_column}

    @property
    def sort_order(self) -> tuple[str, ...]:
        """The columns that rows are sorted by."""
        return sort_columns(self.cluster_by, self.time_column)


Build = Callable[[ProjectionSpec], BuiltProjection | NotBuilt]
OnRows = Callable[[SegmentEntry, MemorySource], object]
"""Gets the entry of a segment that was written, and its rows."""


def write_segment(
    columns: dict[str, pa.ChunkedArray],
    layout: SegmentLayout,
    *,
    storage: Storage,
    file: str,
    write_id: str,
    interval: tuple[int, int] | None,
    pool: Executor,
    filters: FilterWriter,
    on_rows: OnRows | None,
) -> SegmentEntry:
    """Write one new segment file, durably, and return how a manifest lists it.

    `columns` has at least one row, all of one time chunk (`interval`, microseconds, half-open);
    each column is taken out of it, so that its memory is free once it is encoded. Projections whose
    building is deferred are left out.
    """
    source = _sorted_source(columns, layout, pool)
    entry = write_sorted(
        source,
        layout,
        each_once(spec for spec in layout.specs if not layout.scopes[spec.name].is_deferred),
        lambda spec: build_projection(source, spec),
        storage=storage,
        file=file,
        write_id=write_id,
        interval=interval,
        pool=pool,
        filters=filters,
    )
    if on_rows is not None:
        on_rows(entry, source)
    return entry


def each_once(specs: Iterable[ProjectionSpec]) -> list[ProjectionSpec]:
    """Return projections, of those that one definition has under several names the first."""
    return list({spec.definition_hash: spec for spec in reversed(list(specs))}.values())[::-1]


def _sorted_source(
    columns: dict[str, pa.ChunkedArray], layout: SegmentLayout, pool: Executor
) -> MemorySource:
    """Encode the columns that rows are sorted by, then each other one and at once sort it."""
    names, wanted = list(columns), layout.dictionary_columns
    vectors: dict[str, Vector] = {}

    def encode(name: str) -> None:
        vectors[name] = column_vector(columns.pop(name), wants_dictionary=name in wanted)

    def encode_and_sort(name: str) -> None:
        if name in columns:
            encode(name)
        if order is not None:
            vectors[name] = vectors[name].take(order)

    each = pool.map if are_worth_threads(len(columns[names[0]])) else map
    list(each(encode, layout.sort_order))
    order = sorted_row_ids(vectors, layout.sort_order)
    list(each(encode_and_sort, [*_largest_first(columns), *layout.sort_order]))
    in_order = {name: vectors[name] for name in names}
    return MemorySource(len(in_order[names[0]]), in_order)


def _largest_first(columns: Mapping[str, pa.ChunkedArray]) -> list[str]:
    """Return columns so that no thread begins a long one when others have nothing left to do."""
    return sorted(columns, key=lambda name: -columns[name].nbytes)


def write_sorted(
    source: MemorySource,
    layout: SegmentLayout,
    specs: Sequence[ProjectionSpec],
    build: Build,
    *,
    storage: Storage,
    file: str,
    write_id: str,
    interval: tuple[int, int] | None,
    pool: Executor,
    filters: FilterWriter,
) -> SegmentEntry:
    """Write the segment of encoded rows that stand in the order of the layout."""
    low, high = time_bounds(source.vectors, layout.time_column)
    now = now_us()

    def built(spec: ProjectionSpec) -> BuiltProjection | NotBuilt:
        reason = layout.scopes[spec.name].reason_against(low, high, now)
        return build(spec) if reason is None else NotBuilt(spec, reason)

    results = list(pool.map(built, specs))
    with new_segment(storage, file, layout.schema) as encoder:
        contents = SegmentContents(encoder, pool)
        contents.add_base(source, layout.sort_order)
        results = add_projections(contents, encoder, results, layout, source.row_count)
        keys = filters.keys_of(source.vectors, low, high)
        postings = put_postings(encoder, keys)
        summary = encoder.finish()
    entry = SegmentEntry(
        file=file,
        write_id=write_id,
        row_count=source.row_count,
        byte_count=summary.byte_count,
        footer_checksum=summary.footer_checksum,
        interval=interval,
        min_time_us=low,
        max_time_us=high,
        columns={
            name: column_zone(vector, summary.table(BASE_TABLE).column_bytes["base", name])
            for name, vector in source.vectors.items()
        },
        projections=stored_projections(results, summary),
        not_built=not_built(results),
    )
    filters.add(entry, keys, postings)
    return entry


@contextmanager
def new_segment(
    storage: Storage, file: str, schema: pa.Schema, *, has_foreign_rows: bool = False
) -> Iterator[SegmentEncoder]:
    """Yield the encoder of a new segment file, which is durable afterwards."""
    with storage.create(file) as sink:
        yield SegmentEncoder(
            sink.write,
            file_id=uuid.uuid4().bytes,
            schema=schema,
            has_foreign_rows=has_foreign_rows,
        )
        try:
            sink.commit()
        except PutOutcomeUnknownError as error:
            # Nothing lists the segment yet, so it does not matter whether the file exists.
            raise storage_error(error, "write", f"{storage.location}/{file}") from error


def add_projections(
    contents: SegmentContents,
    encoder: SegmentEncoder,
    results: Sequence[BuiltProjection | NotBuilt],
    layout: SegmentLayout,
    base_rows: int,
    base_bytes: int | None = None,
) -> list[BuiltProjection | NotBuilt]:
    """Write the projections that scopes and the format allow, and the reasons against others.

    Without `base_bytes`, the stored bytes of the base table count.
    """
    base_bytes = encoder.column_bytes(BASE_TABLE) if base_bytes is None else base_bytes
    found = [guarded(r, layout.scopes[r.spec.name], base_rows, base_bytes) for r in results]
    found = [contents.add_projection(r) if isinstance(r, BuiltProjection) else r for r in found]
    for result in found:
        if isinstance(result, NotBuilt):
            contents.add_not_built(result)
    return found


def stored_projections(
    results: Sequence[BuiltProjection | NotBuilt], summary: SegmentSummary
) -> tuple[StoredProjection, ...]:
    """Return how an entry lists the projections that were written."""
    return tuple(_stored(r, summary) for r in results if isinstance(r, BuiltProjection))


def not_built(
    results: Sequence[BuiltProjection | NotBuilt],
) -> tuple[tuple[str, str, str], ...]:
    """Return how an entry lists the projections that were not."""
    return tuple(
        (r.spec.name, r.spec.definition_hash, r.reason[:NOT_BUILT_CHARACTERS_MAX])
        for r in results
        if isinstance(r, NotBuilt)
    )


def _stored(projection: BuiltProjection, summary: SegmentSummary) -> StoredProjection:
    table = summary.table(projection.spec.name)
    return StoredProjection(
        name=projection.spec.name,
        definition_hash=projection.spec.definition_hash,
        row_count=projection.row_count,
        byte_count=table.byte_count,
        column_bytes={name: size for (_, name), size in table.column_bytes.items()},
    )
