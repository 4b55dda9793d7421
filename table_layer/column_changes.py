"""Change a table's columns: compute the new declaration, or refuse the change with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

import msgspec
import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.projection.renamed_projection import mentioned_columns, renamed
from projseg.errors import InvalidInputError, ProjsegError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_directory import may_widen
from projseg.table_layer.indexed_columns import indexes_reading
from projseg.table_layer.metadata.stored_columns import (
    ColumnDeclaration,
    Forms,
    StoredColumns,
    new_stored_name,
)
from projseg.table_layer.metadata.table_properties import (
    ProjectionDeclaration,
    TableProperties,
    check_properties,
    columns_of,
    schema_of_columns,
)
from projseg.table_layer.renamed_columns import stored_spec

WIDENINGS: Final = (
    "an integer to a wider one, to a decimal of scale 0 that holds it or, up to int, to double; "
    "float to double; a decimal to one with more digits and the same scale"
)


class ColumnChanges(msgspec.Struct, frozen=True):
    """Changes of columns, made in this order.

    Names are renamed from present to new ones, columns are dropped, then have wider types; a new
    column that the table has in the same type stays.
    """

    rename: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()
    widen: tuple[ColumnDeclaration, ...] = ()
    add: tuple[ColumnDeclaration, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Every column's name that is mentioned, new ones too."""
        declared = (*self.widen, *self.add)
        return frozenset((*sum(self.rename, ()), *self.drop, *(c.name for c in declared)))


NO_CHANGES: Final = ColumnChanges()


class NewColumns(msgspec.Struct, frozen=True):
    """Columns in place of all that a table has; those of equal name and type are the same."""

    columns: Forms


def find_column(properties: TableProperties, given: str) -> str:
    """Return the name of a column, which may be given in another case, as in Spark."""
    names = [column.name for column in properties.columns]
    for name in (given, *names):
        if name in names and isinstance(given, str) and name_key(name) == name_key(given):
            return name
    raise InvalidInputError(
        "PROJSEG_UNKNOWN_COLUMN",
        f"'{given}' is not a column of the table{did_you_mean(str(given), names)}; its columns are "
        f"{', '.join(names[:12])}{', ...' if len(names) > 12 else ''}",
    )


def with_changes(
    properties: TableProperties, changes: ColumnChanges | NewColumns
) -> TableProperties:
    """Return what a table declares after its columns were changed."""
    columns = _Columns(properties)
    if isinstance(changes, NewColumns):
        columns.replace(changes.columns)
    else:
        for old, new in changes.rename:
            columns.rename(old, new)
        for name in changes.drop:
            columns.drop(name)
        for column in changes.widen:
            columns.widen(column)
        for column in changes.add:
            columns.add(column)
    changed = columns.properties
    check_properties(changed)
    return changed


def merged_columns(properties: TableProperties, schema: pa.Schema) -> ColumnChanges:
    """Return the changes by which a table holds rows of a schema: wider and further columns.

    Columns are matched by name, as Spark does regardless of case. What does not fit is left to the
    check of the rows.
    """
    known = {name_key(column.name): column for column in properties.columns}
    widen, add = [], []
    for column in columns_of(schema):
        present = known.get(name_key(column.name))
        if present is None:
            add.append(column)
        elif may_widen(parse_type_name(present.type), parse_type_name(column.type)):
            widen.append(ColumnDeclaration(present.name, column.type))
    return ColumnChanges(widen=tuple(widen), add=tuple(add))


def projections_reading(properties: TableProperties, names: Sequence[str]) -> list[str]:
    """Return the names of the declared projections that read any of some columns."""
    return _mentioning(properties, names, _Columns(properties).stored)


class _Columns:
    """The columns of a table while they are changed."""

    def __init__(self, properties: TableProperties) -> None:
        self.properties = properties

    @property
    def stored(self) -> StoredColumns:
        """The stored names of the columns."""
        stored = self.properties.stored_columns
        if stored is not UNSET:
            return stored
        return StoredColumns(tuple((column,) for column in self.properties.columns))

    def rename(self, old: str, new: str) -> None:
        """Give a column another name; its stored names stay."""
        properties = self.properties
        old = find_column(properties, old)
        self._require_new(new, besides=old)

        def other(name: str) -> str:
            return new if name == old else name

        time = properties.time_column
        columns = [replace(column, name=other(column.name)) for column in properties.columns]
        self.properties = replace(
            properties,
            time_column=None if time is None else other(time),
            cluster_by=tuple(map(other, properties.cluster_by)),
        )
        self._set(columns, self.stored.columns, self.stored.retired)

    def drop(self, name: str) -> None:
        """Take a column out; no stored name that it had is given again."""
        name = find_column(self.properties, name)
        self._require_unused([name], "dropped")
        self._remove([name])

    def widen(self, column: ColumnDeclaration) -> None:
        """Give a column a wider type and, for new segments, another stored name."""
        properties, stored = self.properties, self.stored
        name = find_column(properties, column.name)
        index = [known.name for known in properties.columns].index(name)
        narrow = properties.columns[index].type
        if narrow == column.type:
            return
        if not may_widen(parse_type_name(narrow), parse_type_name(column.type)):
            raise InvalidInputError(
                "PROJSEG_CANNOT_WIDEN",
                f"column '{name}' is {narrow} and cannot become {column.type}, which does not hold "
                f"every value of it; a column may be widened from {WIDENINGS}",
            )
        form = ColumnDeclaration(self._free_name(name), column.type)
        columns, forms = list(properties.columns), list(stored.columns)
        columns[index] = ColumnDeclaration(name, column.type)
        before = forms[index][-1].name
        forms[index] = (*forms[index], form)
        widened = StoredColumns(tuple(forms), stored.retired)
        self.properties = replace(
            properties,
            projections=_over(properties, {before: form.name}, widened.newest, name),
        )
        self._set(columns, forms, stored.retired)

    def add(self, column: ColumnDeclaration) -> None:
        """Append a column; segments that are there lack it."""
        self._require_new(column.name, kept=column)
        if column in self.properties.columns:
            return
        form = ColumnDeclaration(self._free_name(column.name), column.type)
        stored = self.stored
        columns = [*self.properties.columns, column]
        self._set(columns, [*stored.columns, (form,)], stored.retired)

    def replace(self, columns: Forms) -> None:
        """Put columns in place of all others; no segment that is there stays listed."""
        kept = [column for column in self.properties.columns if column in columns]
        gone = [c.name for c in self.properties.columns if c not in kept]
        self._require_unused(gone, "replaced", but_for={column.name for column in columns})
        self._remove(gone)
        for column in columns:
            self.add(column)
        order = {column.name: place for place, column in enumerate(columns)}
        pairs = zip(self.properties.columns, self.stored.columns, strict=True)
        # Narrower forms were in segments that the new rows replace.
        sorted_pairs = sorted(pairs, key=lambda pair: order[pair[0].name])
        older = [form for _, forms in sorted_pairs for form in forms[:-1]]
        retired = (*self.stored.retired, *older)
        self._set([c for c, _ in sorted_pairs], [f[-1:] for _, f in sorted_pairs], retired)

    def _remove(self, names: Sequence[str]) -> None:
        stored = self.stored
        pairs = list(zip(self.properties.columns, stored.columns, strict=True))
        gone = [form for column, forms in pairs if column.name in names for form in forms]
        kept = [(column, forms) for column, forms in pairs if column.name not in names]
        self._set([c for c, _ in kept], [f for _, f in kept], (*stored.retired, *gone))

    def _set(
        self, columns: Iterable[ColumnDeclaration], forms: Iterable[Forms], retired: Forms
    ) -> None:
        """State the columns; stored names only where they say something."""
        declared, stored = tuple(columns), StoredColumns(tuple(forms), retired)
        is_plain = not retired and stored.columns == tuple((column,) for column in declared)
        self.properties = replace(
            self.properties, columns=declared, stored_columns=UNSET if is_plain else stored
        )

    def _free_name(self, wanted: str) -> str:
        return new_stored_name(wanted, [form.name for form in self.stored.every])

    def _require_new(
        self, name: str, *, besides: str | None = None, kept: ColumnDeclaration | None = None
    ) -> None:
        if not isinstance(name, str):
            raise InvalidInputError("PROJSEG_BAD_NAME", f"a column's name is {name!r}; give a text")
        for column in self.properties.columns:
            if name_key(column.name) == name_key(name) and column.name != besides:
                if column == kept:
                    continue
                raise InvalidInputError(
                    "PROJSEG_COLUMN_EXISTS",
                    f"the table has column '{column.name}' as {column.type}; choose another name "
                    f"than '{name}', or drop that column first",
                )

    def _require_unused(self, names: Sequence[str], what: str, but_for: Iterable[str] = ()) -> None:
        properties = self.properties
        for name in names:
            uses = [
                use
                for use, used in (
                    ("the time column", [properties.time_column]),
                    ("a column that rows are sorted by", properties.cluster_by),
                )
                if name in used and name not in but_for
            ]
            if uses:
                _in_use(f"'{name}' is {uses[0]} and cannot be {what}")
        indexes = indexes_reading(properties.declared_indexes, names, properties)
        if indexes:
            _in_use(
                f"{_listed('column', names)} cannot be {what}, because "
                f"{_listed('index', indexes, plural='es')} read{'s' * (len(indexes) == 1)} it; "
                "drop what reads it first, with drop_index"
            )
        mentioning = _mentioning(properties, names, self.stored)
        if mentioning:
            _in_use(
                f"{_listed('column', names)} cannot be {what}, because "
                f"{_listed('projection', mentioning)} read{'s' * (len(mentioning) == 1)} "
                "it; drop what reads it first, with drop_projection"
            )


def _mentioning(
    properties: TableProperties, names: Sequence[str], stored: StoredColumns
) -> list[str]:
    """Return the names of the declared projections that read any of some columns."""
    pairs = zip(properties.columns, stored.columns, strict=True)
    ids = {form.name for column, forms in pairs if column.name in names for form in forms}
    return [
        declared.name for declared in properties.projections if ids & _read(declared, properties)
    ]


def _read(declared: ProjectionDeclaration, properties: TableProperties) -> frozenset[str]:
    return mentioned_columns(stored_spec(declared.name, declared.definition, properties))


def _over(
    properties: TableProperties, names: dict[str, str], columns: Forms, widened: str
) -> tuple[ProjectionDeclaration, ...]:
    """Return the declared projections over columns of which one has another stored name."""
    schema, found, refused = schema_of_columns(columns), [], []
    for declared in properties.projections:
        spec = stored_spec(declared.name, declared.definition, properties)
        if not mentioned_columns(spec) & names.keys():
            found.append(declared)
            continue
        try:
            spec = renamed(spec, names, schema)
        except ProjsegError:
            refused.append(declared.name)
            continue
        found.append(ProjectionDeclaration(spec.name, spec.definition_hash, spec.definition))
    if refused:
        _in_use(
            f"'{widened}' cannot be widened, because {_listed('projection', refused)} cannot read "
            "the wider type; drop what reads it first, with drop_projection"
        )
    return tuple(found)


def _listed(what: str, names: Sequence[str], plural: str = "s") -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"{what}{plural * (len(names) > 1)} {quoted}"


def _in_use(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_COLUMN_IN_USE", problem)
