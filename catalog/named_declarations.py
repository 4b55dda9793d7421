"""Columns and projections that are changed in a table and in its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from projseg.catalog.named_state import NamedState
from projseg.catalog.named_writes import prepared
from projseg.catalog.spec.spec_edits import (
    SpecEdit,
    add_projection_of,
    drop_of,
    drop_projection_of,
    merged,
    with_renamed_column,
)
from projseg.declarations import ProjectionLike, declaration_of
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import type_name
from projseg.table.column_edits import ColumnEdits
from projseg.table.projection_edits import ProjectionEdits


class NamedColumnEdits:
    """The columns of a table and of its definition, to be changed."""

    def __init__(self, state: NamedState) -> None:
        self._state, self._edits = state, ColumnEdits(state)

    def add(self, name: str, type: str | pa.DataType) -> int:
        """Declare a column."""
        state = self._state
        if any(name_key(known) == name_key(str(name)) for known in state.reader.schema.names):
            raise InvalidInputError(
                "PROJSEG_COLUMN_EXISTS", f"'{state.definition.full_name}' has column '{name}'"
            )
        state.catalog.merge(state.definition.full_name, _typed(name, type))
        state.refresh()
        return state.snapshot.version

    def rename(self, old: str, new: str) -> int:
        """Give a column another name."""
        edit = SpecEdit(lambda spec: with_renamed_column(spec, old, new))
        return self._change(old, lambda stored: self._edits.rename(stored, new), edit)

    def drop(self, name: str) -> int:
        """Take a column out."""
        return self._change(name, self._edits.drop, drop_of([name]))

    def widen(self, name: str, type: str | pa.DataType) -> int:
        """Give a column a wider type."""
        part = _typed(name, type)
        edit = SpecEdit(lambda spec: merged(spec, part))
        return self._change(name, lambda stored: self._edits.widen(stored, type), edit)

    def _change(self, name: str, change: Callable[[str], int], edit: SpecEdit) -> int:
        """Change a column of the table, then of the definition; repeated, it completes itself."""
        state = self._state
        state.begin()
        definition, folded = state.definition, name_key(str(name))
        is_declared = any(name_key(one.name) == folded for one in definition.spec.columns)
        if is_declared:
            edit.apply(definition.spec)  # refused before the table is changed
        named = (one for one in state.declared.columns if name_key(one.name) == folded)
        column = next(named, None)
        stored = str(name) if column is None else column.stored
        if stored is not None and not state.is_unwritten:
            change(stored)
        if is_declared:
            state.edit_definition(edit)
        state.refresh()
        return state.snapshot.version


class NamedProjectionEdits:
    """The projections of a table and of its definition, to be changed."""

    def __init__(self, state: NamedState) -> None:
        self._state, self._edits = state, ProjectionEdits(state)

    def add(
        self, declaration: ProjectionLike, *, materialize: bool, build: str, **scope: Any
    ) -> int:
        """Declare a projection; one with a scope of its own is the table's alone."""
        state = self._state
        state.begin()
        form = _mapping_of(declaration)
        name, edit = str(form.get("name")), add_projection_of(form)
        has_scope = build != "immediate" or any(one is not None for one in scope.values())
        if materialize or has_scope:
            state.check_written()
        if self._is_stored(name):
            raise InvalidInputError(
                "PROJSEG_PROJECTION_EXISTS",
                f"the table of '{state.definition.full_name}' has a projection '{name}'",
            )
        if not state.is_unwritten:  # what does not fit the table is refused before the edit
            spec = edit.apply(state.definition.spec)
            prepared(replace(state.definition, spec=spec), state.properties)
        state.edit_definition(edit)
        state.refresh()
        if state.is_unwritten:
            return state.snapshot.version
        if not has_scope:
            state.adopt()
        if not self._is_stored(name):  # the layout is another definition's, or it has a scope
            self._edits.add(form, materialize=False, build=build, **scope)
        if materialize:
            self._edits.materialize(name)
        return state.snapshot.version

    def drop(self, name: str) -> int:
        """Take a projection out."""
        state = self._state
        state.begin()
        edit, is_stored = drop_projection_of(name), self._is_stored(name)
        if edit.apply(state.definition.spec) != state.definition.spec:
            state.edit_definition(edit)
            state.refresh()
        elif not is_stored:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PROJECTION",
                f"neither '{state.definition.full_name}' nor its table declares projection "
                f"'{name}'",
            )
        return self._edits.drop(name) if is_stored else state.snapshot.version

    def _is_stored(self, name: str) -> bool:
        state = self._state
        return not state.is_unwritten and any(
            one.name == name for one in state.properties.projections
        )


def _typed(name: str, type: str | pa.DataType) -> dict[str, Any]:
    """Return the part of a definition that declares a column."""
    text = type if isinstance(type, str) else type_name(type)
    return {"columns": [{"name": name, "sqlType": text}]}


def _mapping_of(declaration: ProjectionLike) -> Mapping[str, Any]:
    """Return a declaration as a definition keeps it."""
    form = declaration_of(declaration)
    if isinstance(form, Mapping):
        return form
    found = {field.name: getattr(form, field.name) for field in fields(form)}
    return {
        key: value if isinstance(value, str) else list(value)
        for key, value in found.items()
        if value
    }
