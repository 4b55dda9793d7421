"""What a definition means for the table at its location: columns, their changes, and the layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.query.declared_columns import DeclaredColumn, DeclaredColumns
from projseg.catalog.spec.spec_rules import column_types
from projseg.catalog.store.table_metadata import TableMetadata
from projseg.declarations import declaration_of, declare_properties
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import normal_type, parse_type_name, type_name
from projseg.segment_format.page_directory import may_widen
from projseg.table_layer.column_changes import ColumnChanges, with_changes
from projseg.table_layer.commits.rebase_declarations import (
    DEFINITION,
    DEFINITION_VERSION,
    with_layout,
)
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.snapshot import Snapshot, SnapshotFile
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration
from projseg.table_layer.metadata.table_properties import (
    TARGET_SEGMENT_ROWS,
    TableProperties,
    check_projection_count,
)
from projseg.table_layer.metadata.table_schema import stored_by_name
from projseg.table_layer.renamed_columns import stored_declaration
from projseg.table_layer.storage.storage_contract import Storage

UNTYPED: Final = "string"
"""The type of a column that neither the definition nor the table gives one."""


def declared_columns(definition: TableMetadata, properties: TableProperties) -> DeclaredColumns:
    """Return the columns that queries by name see: the declared ones, then the table's others."""
    spec, found = definition.spec, []
    types, hidden = column_types(spec), spec.hidden
    stored, earlier = (
        stored_columns(definition, properties),
        _unknown_bindings(definition, properties),
    )
    own = {column.name: column.type for column in properties.columns}
    for column in spec.columns:
        folded = name_key(column.name)
        name = stored[folded]
        if folded in hidden:
            continue
        default = UNTYPED if name is None else own[name]
        # A version before the definition has columns of its own types.
        declared = None if folded in earlier and name is not None else types.get(folded)
        shown = default if declared is None else type_name(declared)
        found.append(DeclaredColumn(column.name, shown, name))
    taken = {name for name in stored.values() if name is not None}
    for name, type_text in own.items():
        # What others gave the name of a declared column is another column, and has no name here.
        if name not in taken and name_key(name) not in hidden | stored.keys():
            found.append(DeclaredColumn(name, type_text, name))
    return DeclaredColumns(tuple(found))


def stored_columns(definition: TableMetadata, properties: TableProperties) -> dict[str, str | None]:
    """Return the table's column of each declared one, by its name without case; None for none."""
    of_form = _columns_of_forms(properties)
    claimed = {of_form.get(bound) for bound in definition.bindings.values()}
    by_name = {name_key(column.name): column.name for column in properties.columns}
    earlier = _unknown_bindings(definition, properties)
    found: dict[str, str | None] = {}
    for column in definition.spec.columns:
        folded = name_key(column.name)
        bound = definition.bindings.get(folded)
        name = by_name.get(folded)
        if folded in earlier:
            found[folded] = None if name in claimed else name
        else:
            found[folded] = name if bound is None else of_form.get(bound)
    return found


def _unknown_bindings(definition: TableMetadata, properties: TableProperties) -> set[str]:
    """Return the columns bound to stored names that are later than a version."""
    stored = properties.stored_columns
    forms = properties.columns if stored is UNSET else stored.every
    known = {form.name for form in forms}
    return {folded for folded, form in definition.bindings.items() if form not in known}


def bindings_of(definition: TableMetadata, properties: TableProperties) -> dict[str, str]:
    """Return the stored name of each declared column, those that are bound already as they are."""
    newest = stored_by_name(properties)
    seen = {
        folded: newest[name]
        for folded, name in stored_columns(definition, properties).items()
        if name is not None
    }
    declared = {name_key(column.name) for column in definition.spec.columns}
    kept = {name: form for name, form in definition.bindings.items() if name in declared}
    return {**seen, **kept}


def _columns_of_forms(properties: TableProperties) -> dict[str, str]:
    """Return the column that each stored name in use belongs to."""
    stored = properties.stored_columns
    if stored is UNSET:
        return {column.name: column.name for column in properties.columns}
    pairs = zip(properties.columns, stored.columns, strict=True)
    return {form.name: column.name for column, forms in pairs for form in forms}


def column_changes(definition: TableMetadata, properties: TableProperties) -> ColumnChanges:
    """Return the changes by which a table has all declared columns, wider where nothing is lost."""
    types, own = column_types(definition.spec), {c.name: c.type for c in properties.columns}
    stored = stored_columns(definition, properties)
    add, widen = [], []
    for column in definition.spec.columns:
        folded = name_key(column.name)
        declared, name = types.get(folded), stored[folded]
        if name is None and any(name_key(other) == folded for other in own):
            raise InvalidInputError(
                "PROJSEG_COLUMN_EXISTS",
                f"column '{column.name}' of '{definition.full_name}' was dropped from the table, "
                "which has another of that name now; if that is meant, call rebind",
            )
        if name is None:
            text = UNTYPED if declared is None else type_name(declared)
            add.append(ColumnDeclaration(column.name, text))
        elif declared is not None and may_widen(parse_type_name(own[name]), declared):
            widen.append(ColumnDeclaration(name, type_name(declared)))
    return ColumnChanges(add=tuple(add), widen=tuple(widen))


def layout_of(
    definition: TableMetadata, properties: TableProperties, *, takes_over: bool = False
) -> AdoptLayout | None:
    """Return the layout that a definition states; None if the table has it, and this version too.

    With `takes_over`, it becomes the table's definition.
    """
    layout = definition.spec.layout
    names = {name_key(column.name): column.name for column in properties.columns}
    stored = stored_columns(definition, properties)
    names |= {folded: name for folded, name in stored.items() if name is not None}
    check_time_column(layout.time_column or None, names, properties)
    # A projection names columns as the definition does; it is kept under their stored names.
    shown = with_changes(properties, _renames(stored, properties))
    specs = [
        parse_projection(declaration_of(declaration), shown.schema, time_column=shown.time_column)
        for declaration in layout.projections or ()
    ]
    keys = layout.cluster_keys
    found = AdoptLayout(
        definition=definition.id,
        definition_version=definition.version,
        segment_granularity=layout.segment_granularity or None,
        cluster_by=None if keys is UNSET else tuple(_known_name(key.column, names) for key in keys),
        target_segment_rows=layout.target_segment_rows or None,
        projections=tuple(stored_declaration(spec, shown) for spec in specs),
        properties=dict(layout.table_properties or {}),
        takes_over=takes_over,
    )
    return None if _states_the_same(properties, found) else found


def _renames(stored: Mapping[str, str | None], properties: TableProperties) -> ColumnChanges:
    """Return the renames by which a table's columns have the names that are declared."""
    taken = {name_key(column.name) for column in properties.columns}
    found = [
        (name, folded)
        for folded, name in stored.items()
        if name is not None and name_key(name) != folded and folded not in taken
    ]
    return ColumnChanges(rename=tuple(found))


def _known_name(name: str, names: Mapping[str, str]) -> str:
    found = names.get(name_key(name))
    if found is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_COLUMN",
            f"the definition names '{name}', which is not a column of the table"
            f"{did_you_mean(name, names.values())}; declare it",
        )
    return found


def check_time_column(
    wanted: str | None, names: Mapping[str, str], properties: TableProperties
) -> None:
    """Refuse a time column that is not the table's; `names` are stored ones by declared ones."""
    if wanted is not None and names.get(name_key(wanted)) != properties.time_column:
        raise InvalidInputError(
            "PROJSEG_OPTION_CONTRADICTS_TABLE",
            f"the definition's timeColumn '{wanted}' is not the table's, which is "
            f"{properties.time_column!r} for good; change the definition, or register it for "
            "another table",
        )


def _states_the_same(properties: TableProperties, layout: AdoptLayout) -> bool:
    """Whether adopting a layout would change no more than the version that was adopted."""
    adopted = with_layout(properties, layout)
    own = (DEFINITION, DEFINITION_VERSION)

    def without_version(of: TableProperties) -> TableProperties:
        kept = {key: text for key, text in of.properties.items() if key not in own}
        return replace(of, properties=kept)

    is_own = properties.properties.get(DEFINITION) == layout.definition
    return is_own and without_version(adopted) == without_version(properties)


def new_properties(definition: TableMetadata, data: pa.Schema | None) -> TableProperties:
    """Return the properties of the table that a definition makes with its first rows, if any.

    Columns of the rows that are not declared are stored as by path.
    """
    spec, layout = definition.spec, definition.spec.layout
    types = column_types(spec)
    given = {name_key(field.name): field for field in data or ()}
    fields: list[tuple[str, pa.DataType]] = []
    for column in spec.columns:
        found = types.get(name_key(column.name))
        field = given.pop(name_key(column.name), None)
        if found is None:
            found = pa.string() if field is None else normal_type(field.type)
        fields.append((column.name, pa.string() if pa.types.is_null(found) else found))
    fields += [(field.name, normal_type(field.type)) for field in given.values()]
    names = {name_key(name): name for name, _ in fields}
    time = layout.time_column or None
    properties = declare_properties(
        pa.schema(fields),
        time_column=None if time is None else _known_name(time, names),
        segment_granularity=layout.segment_granularity or "all",
        cluster_by=[_known_name(key.column, names) for key in layout.cluster_keys or ()],
        projections=layout.projections or (),
        target_segment_rows=layout.target_segment_rows or TARGET_SEGMENT_ROWS,
        properties={
            **dict(layout.table_properties or {}),
            DEFINITION: definition.id,
            DEFINITION_VERSION: str(definition.version),
        },
    )
    check_projection_count(properties)
    return properties


def unwritten(definition: TableMetadata, storage: Storage) -> Snapshot:
    """Return a version of a table that was never written: the declared columns, and no rows.

    What is cached of a version goes by its write id, so that names the definition's version.
    """
    spec, layout, types = definition.spec, definition.spec.layout, column_types(definition.spec)
    columns = tuple(
        ColumnDeclaration(column.name, type_name(types.get(name_key(column.name), pa.string())))
        for column in spec.columns
    )
    time = next(
        (one.name for one in columns if name_key(one.name) == name_key(str(layout.time_column))),
        None,
    )
    properties = TableProperties(table_id="", columns=columns, time_column=time)
    return Snapshot(
        storage,
        SnapshotFile(
            kind="snapshot",
            version=-1,
            timestamp_us=definition.updated_us,
            write_id=f"{definition.id}@{definition.version}",
            change="create",
            operation="define",
            properties=properties,
        ),
    )
