"""From what a manifest says of a segment to what the planner asks about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from projseg.algebra.projection_spec import ProjectionSpec, from_definition
from projseg.algebra.segment_facts import ColumnFacts, SegmentFacts, StoredProjection
from projseg.table_layer.column_bounds import decode_bound
from projseg.table_layer.manifest import ColumnZone, SegmentEntry


@dataclass(slots=True)
class FactsReader:
    """Turns entries of one snapshot into facts; definitions are parsed once.

    Parameters
    ----------
    schema : pa.Schema
        The snapshot's.
    definitions : mapping of str to str
        Canonical projection definitions by hash.
    """

    schema: pa.Schema
    definitions: Mapping[str, str]
    _specs: dict[tuple[str, str], ProjectionSpec] = field(default_factory=dict)

    def spec(self, name: str, definition_hash: str) -> ProjectionSpec:
        """Return a stored projection's definition under the name it was stored by."""
        key = (name, definition_hash)
        if key not in self._specs:
            spec = from_definition(self.definitions[definition_hash], self.schema)
            self._specs[key] = replace(spec, name=name)
        return self._specs[key]

    def facts(self, entry: SegmentEntry) -> SegmentFacts:
        """Return what is known of one segment."""
        known = {name: zone for name, zone in entry.columns.items() if name in self.schema.names}
        return SegmentFacts(
            name=entry.file,
            row_count=entry.row_count,
            columns={name: self._column(name, zone) for name, zone in known.items()},
            column_bytes={name: zone.bytes for name, zone in known.items()},
            time_minimum_us=entry.min_time_us,
            time_maximum_us=entry.max_time_us,
            projections=tuple(
                StoredProjection(
                    self.spec(stored.name, stored.definition_hash),
                    stored.row_count,
                    stored.byte_count,
                    stored.column_bytes,
                )
                for stored in entry.projections
            ),
            not_built={name: reason for name, _, reason in entry.not_built},
        )

    def _column(self, name: str, zone: ColumnZone) -> ColumnFacts:
        arrow_type = self.schema.field(name).type
        return ColumnFacts(
            minimum=decode_bound(zone.min, arrow_type),
            maximum=decode_bound(zone.max, arrow_type),
            null_count=zone.null_count,
            has_nan=zone.has_nan,
            is_exact=zone.exact,
        )
