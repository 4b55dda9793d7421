"""What a write by a catalog's name does to its table beside adding rows.

The engine process makes the plan from the definition while Spark analyses the statement, and the
extension hands it to the write; so the write knows no catalog.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.table_properties import TableProperties, check_properties

REPLACE_TABLE: Final = "replace table"
"""What the history calls a commit that replaces a table by name."""


class StatementLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The layout that a statement chooses for its own segments; None means the table's."""

    segment_granularity: str | None = None
    cluster_by: tuple[str, ...] | None = None
    target_segment_rows: int | None = None


class WritePlan(msgspec.Struct, frozen=True):
    """A write by name, as JSON between two processes.

    `base_version` is None if the write makes the table; `properties` are the table's after the
    commit; `layout` becomes the table's, `statement` is of this write's segments alone. `note` is
    what the history says of the definition. The write finds a name itself without a write id. With
    `replaces`, properties and rows take the place of all that the base version has.
    """

    base_version: int | None
    properties: TableProperties
    changes: ColumnChanges = NO_CHANGES
    layout: AdoptLayout | None = None
    statement: StatementLayout = StatementLayout()
    note: dict[str, str] = {}
    write_id: str | None = None
    replaces: bool = False

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> WritePlan:
        """Return the plan that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    @property
    def segments(self) -> TableProperties:
        """The properties that this write's segments are written for."""
        chosen: dict[str, Any] = msgspec.to_builtins(self.statement)
        found = {key: value for key, value in chosen.items() if value is not None}
        if not found:
            return self.properties
        if "cluster_by" in found:
            found["cluster_by"] = tuple(found["cluster_by"])
        properties = replace(self.properties, **found)
        check_properties(properties)
        return properties
