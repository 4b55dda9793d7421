"""The layout that a table takes from a definition of a catalog. SPEC.md "Table", adopted layouts.

A table remembers from which definition it took its layout, and at which version. So an older
version, in the hands of a writer that has not seen the newer one, takes nothing back, and two
definitions of one table do not take turns.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from projseg.table_layer.columns.rebase_columns import check_reads, conflict
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.projection_scope import scope_keys
from projseg.table_layer.metadata.table_properties import TableProperties, check_projection_count

DEFINITION: Final = "catalog.definition"
DEFINITION_VERSION: Final = "catalog.definitionVersion"
"""The properties of a table that say which definition it adopted, and at which version."""

_Value = TypeVar("_Value")


class Adopted(NamedTuple):
    """The definition that a table has adopted."""

    definition: str
    version: int


def adopted_by(properties: TableProperties) -> Adopted | None:
    """Return the definition that a table has adopted; None if there is none, or no valid one."""
    definition = properties.properties.get(DEFINITION)
    version = properties.properties.get(DEFINITION_VERSION, "")
    if not definition or not (version.isascii() and version.isdecimal()):
        return None
    return Adopted(definition, int(version))


def may_adopt(properties: TableProperties, definition: str, version: int) -> bool:
    """Whether a table takes its layout from this version of a definition."""
    adopted = adopted_by(properties)
    return adopted is None or (adopted.definition == definition and adopted.version <= version)


def with_layout(current: TableProperties, layout: AdoptLayout) -> TableProperties:
    """Return what a table declares once it has adopted a layout, if it may.

    Parameters
    ----------
    current : TableProperties
        Of the newest version, with the columns that are added in the same commit.
    layout : AdoptLayout
        What the definition says.

    Raises
    ------
    CommitConflictError
        If a column that the layout needs was changed by others.
    InvalidInputError
        PROJSEG_TOO_MANY_NAMES.
    """
    definition, version = layout.definition, layout.definition_version
    if not layout.takes_over and not may_adopt(current, definition, version):
        return current
    names = {column.name for column in current.columns}
    for name in layout.cluster_by or ():
        if name not in names:
            conflict(f"column '{name}', by which new segments are sorted, was changed")
    declared = {projection.name: projection for projection in current.projections}
    anew = [p for p in layout.projections if declared.get(p.name) != p]
    for projection in anew:
        check_reads(projection, current)
        declared[projection.name] = projection
    scopes = {key for projection in anew for key in scope_keys(projection.name)}
    kept = {key: text for key, text in current.properties.items() if key not in scopes}
    changed = replace(
        current,
        segment_granularity=_or(layout.segment_granularity, current.segment_granularity),
        cluster_by=_or(layout.cluster_by, current.cluster_by),
        target_segment_rows=_or(layout.target_segment_rows, current.target_segment_rows),
        projections=tuple(declared.values()),
        properties={
            **kept,
            **layout.properties,
            DEFINITION: definition,
            DEFINITION_VERSION: str(version),
        },
    )
    if anew:
        check_projection_count(changed)
    return changed


def _or(given: _Value | None, present: _Value) -> _Value:
    return present if given is None else given
