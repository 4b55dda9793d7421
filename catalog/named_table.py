"""`CatalogTable`: a table by the name that a catalog gives it, and changes of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from msgspec.structs import replace

from projseg.catalog.named_rows import NamedRows
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
from projseg.input_rows import RowsLike
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import type_name

if TYPE_CHECKING:
    from projseg.algebra.expressions.sql_parameters import ArgumentsLike
    from projseg.algebra.query.request import IntervalLike
    from projseg.maintenance.row_changes.delete_and_update import Corrected


class CatalogTable(NamedRows):
    """A table at one version, by the name that a catalog gives it; made by `Catalog.table`.

    It has all methods of `Table`. Queries and conditions see the declared columns; `append`,
    `overwrite`, `merge` and `update` write as the definition says, and changes of columns are made
    in the table and then in the definition.
    """

    def merge(
        self,
        data: RowsLike,
        on: Sequence[str],
        when_matched: Literal["update", "delete", "ignore"] = "update",
        when_not_matched: Literal["insert", "ignore"] = "insert",
        *,
        dry_run: bool = False,
    ) -> Corrected:
        """Update or delete the rows whose keys are in `data`, and insert the others of `data`.

        Parameters
        ----------
        data, on, when_matched, when_not_matched, dry_run
            As of `Table.merge`; keys are columns that are stored in their declared type.
        """
        self._begin()
        self._require_written()
        rows = self._rows(data)
        keys = [on] if isinstance(on, str) else list(on)
        declared = self._declared_of(self.properties).columns
        by_name, stored = {name_key(one.name): one for one in declared}, []
        for key in keys:
            column = by_name.get(name_key(str(key)))
            own = None if column is None else self._own_type(column)
            if column is not None and own is not None and type_name(own) != column.type:
                raise InvalidInputError(
                    "PROJSEG_DECLARED_TYPE",
                    f"key '{key}' is declared as {column.type} and stored as {type_name(own)}; "
                    "merge by columns that are stored in their declared type",
                )
            stored.append(str(key) if column is None else column.stored or str(key))
        return super().merge(rows, stored, when_matched, when_not_matched, dry_run=dry_run)

    def update(
        self,
        values: Mapping[str, str],
        filter: str | None = None,
        interval: IntervalLike | None = None,
        *,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        dry_run: bool = False,
    ) -> Corrected:
        """Set columns of the rows of an interval for which a condition is true, in one commit."""
        self._begin()
        self._require_written()
        declared = self._declared_of(self.properties).columns
        unstored = {name_key(one.name) for one in declared if one.stored is None}
        if isinstance(values, Mapping) and unstored & {name_key(str(name)) for name in values}:
            self.adopt()
        return super().update(
            values, filter, interval, args=args, timezone=timezone, dry_run=dry_run
        )

    def add_column(self, name: str, type: str | pa.DataType) -> int:
        """Declare a column, which is null until it is written; returns the table's version."""
        if any(name_key(known) == name_key(str(name)) for known in self.schema.names):
            raise InvalidInputError(
                "PROJSEG_COLUMN_EXISTS", f"'{self._named.full_name}' has column '{name}'"
            )
        text = type if isinstance(type, str) else type_name(type)
        self._catalog.merge(self._named.full_name, {"columns": [{"name": name, "sqlType": text}]})
        return self.refresh().version

    def rename_column(self, old: str, new: str) -> int:
        """Give a column another name in the table and in the definition."""
        return self._change_column(
            old,
            lambda stored: super(CatalogTable, self).rename_column(stored, new),
            SpecEdit(lambda spec: with_renamed_column(spec, old, new)),
        )

    def drop_column(self, name: str) -> int:
        """Take a column out of the table and out of the definition; its values are gone."""
        return self._change_column(
            name,
            lambda stored: super(CatalogTable, self).drop_column(stored),
            drop_of([name]),
        )

    def widen_column(self, name: str, type: str | pa.DataType) -> int:
        """Give a column a wider type in the table, and declare it."""
        text = type if isinstance(type, str) else type_name(type)
        part = {"columns": [{"name": name, "sqlType": text}]}
        return self._change_column(
            name,
            lambda stored: super(CatalogTable, self).widen_column(stored, type),
            SpecEdit(lambda spec: merged(spec, part)),
        )

    def add_projection(
        self,
        declaration: ProjectionLike,
        materialize: bool = False,
        build: str = "immediate",
        *,
        interval: IntervalLike | None = None,
        retain: str | None = None,
        max_row_ratio: float | None = None,
        max_bytes_ratio: float | None = None,
    ) -> int:
        """Declare a projection in the definition and in the table."""
        self._begin()
        form = _mapping_of(declaration)
        name, edit = str(form.get("name")), add_projection_of(form)
        scope = {
            "interval": interval,
            "retain": retain,
            "max_row_ratio": max_row_ratio,
            "max_bytes_ratio": max_bytes_ratio,
        }
        has_scope = build != "immediate" or any(one is not None for one in scope.values())
        if materialize or has_scope:
            self._require_written()
        if self._has_projection(name):
            raise InvalidInputError(
                "PROJSEG_PROJECTION_EXISTS",
                f"the table of '{self._named.full_name}' has a projection '{name}'",
            )
        if not self.is_unwritten:  # what does not fit the table is refused before the edit
            prepared(replace(self._named, spec=edit.apply(self._named.spec)), self.properties)
        self._catalog.store.change(self._named.full_name, edit)
        self._catalog.flush()
        self.refresh()
        if self.is_unwritten:
            return self.version
        if not has_scope:
            self.adopt()
        if not self._has_projection(name):  # the layout is another definition's, or it has a scope
            super().add_projection(form, False, build, **scope)  # type: ignore[arg-type]
        if materialize:
            self.materialize_projection(name)
        return self.version

    def drop_projection(self, name: str) -> int:
        """Take a projection out of the definition and out of the table."""
        self._begin()
        edit, is_stored = drop_projection_of(name), self._has_projection(name)
        if edit.apply(self._named.spec) != self._named.spec:
            self._catalog.store.change(self._named.full_name, edit)
            self._catalog.flush()
            self.refresh()
        elif not is_stored:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PROJECTION",
                f"neither '{self._named.full_name}' nor its table declares projection '{name}'",
            )
        return super().drop_projection(name) if is_stored else self.version

    def _has_projection(self, name: str) -> bool:
        return not self.is_unwritten and any(
            one.name == name for one in self.properties.projections
        )

    def _change_column(
        self,
        name: str,
        change: Callable[[str], int],
        edit: SpecEdit,
    ) -> int:
        """Change a column of the table, then of the definition; repeated, it completes itself."""
        self._begin()
        definition = self._named
        is_declared = any(
            name_key(one.name) == name_key(str(name)) for one in definition.spec.columns
        )
        if is_declared:
            edit.apply(definition.spec)  # refused before the table is changed
        declared = self._declared_of(self.properties)
        column = next(
            (one for one in declared.columns if name_key(one.name) == name_key(str(name))), None
        )
        stored = str(name) if column is None else column.stored
        if stored is not None and not self.is_unwritten:
            change(stored)
        if is_declared:
            self._catalog.store.change(definition.full_name, edit)
            self._catalog.flush()
        self.refresh()
        return self.version


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
