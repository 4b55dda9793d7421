"""Edits of specs: parts merged into them, and columns moved, dropped, hidden and renamed.

A `SpecEdit` is one of them as a function, and as the request that asks a server for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, structs

from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import ColumnSpec, SpecLike, TableSpec, bad_spec, spec_bytes
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_key

PLACES: Final = ("first", "last", "before", "after")


@dataclass(frozen=True)
class SpecEdit:
    """One edit of a spec, and the operation of REST that does it, with its JSON body.

    `apply` makes the new spec of the newest one, or raises; `kind` is the history's name for it.
    """

    apply: Callable[[TableSpec], TableSpec]
    operation: str | None = None
    body: Any = None
    kind: str = "edit"


def merge_of(part: SpecLike) -> SpecEdit:
    """Return an edit that merges a part of a spec into the spec."""
    body = part.to_dict() if isinstance(part, TableSpec) else _decoded(part)
    return SpecEdit(lambda spec: merged(spec, body), "merge", body, "merge")


def move_of(column: str, where: str, anchor: str | None) -> SpecEdit:
    """Return an edit that moves a column to another place."""
    body = {"column": column, "where": where, "anchor": anchor}
    return SpecEdit(lambda spec: moved(spec, column, where, anchor), "move_column", body)


def drop_of(names: Iterable[str]) -> SpecEdit:
    """Return an edit that drops columns from the declared ones."""
    columns = _listed(names)
    return SpecEdit(lambda spec: without_columns(spec, columns), "drop_columns", columns)


def hide_of(hide: Iterable[str] = (), unhide: Iterable[str] = ()) -> SpecEdit:
    """Return an edit that hides columns, and shows hidden columns again."""
    body = {"hide": _listed(hide), "unhide": _listed(unhide)}
    return SpecEdit(lambda spec: with_hidden(spec, **body), "hide_columns", body)


def add_projection_of(declaration: Mapping[str, Any]) -> SpecEdit:
    """Return an edit that adds a projection to a layout.

    The edit raises PROJSEG_PROJECTION_EXISTS if the layout has a projection of that name.
    """
    name = str(declaration.get("name"))

    def added(spec: TableSpec) -> TableSpec:
        present, others = _projections(spec, name)
        if len(others) < len(present):
            raise InvalidInputError(
                "PROJSEG_PROJECTION_EXISTS", f"the definition has a projection '{name}' already"
            )
        return merged(spec, {"properties": {"projections": [*present, dict(declaration)]}})

    return SpecEdit(added)


def drop_projection_of(name: str) -> SpecEdit:
    """Return an edit that removes a projection from a layout, if it is there."""

    def dropped(spec: TableSpec) -> TableSpec:
        return merged(spec, {"properties": {"projections": _projections(spec, name)[1] or None}})

    return SpecEdit(dropped)


def _projections(spec: TableSpec, name: str) -> tuple[list[Any], list[Any]]:
    """Return the projections of a layout, and those of other names."""
    present = list(spec.to_dict()["properties"].get("projections", ()))
    folded = name_key(name)
    return present, [one for one in present if name_key(str(one.get("name"))) != folded]


def merged(spec: TableSpec, part: SpecLike) -> TableSpec:
    """Return a spec with a part of one merged into it.

    A given property replaces the stored one, and null removes it. Only `hiddenColumns` is
    different: the given names are added to the stored list. Columns of a table are matched by name:
    given attributes replace the stored ones, and new columns go to the end. The columns of an
    external definition are replaced as a whole.
    """
    given = part.to_dict() if isinstance(part, TableSpec) else _decoded(part)
    unknown = [key for key in given if key not in ("type", "properties", "columns")]
    if unknown:
        known = ("type", "properties", "columns")
        raise bad_spec(
            f"$.{unknown[0]}", f"there is no such field{did_you_mean(unknown[0], known)}"
        )
    if given.get("type", spec.type) != spec.type:
        raise bad_spec("$.type", f"the definition is of type {spec.type}, which does not change")
    found = spec.to_dict()
    properties = _object(given.get("properties", {}), "$.properties")
    hidden = properties.get("hiddenColumns")
    if isinstance(hidden, list):
        present = found["properties"].get("hiddenColumns", [])
        properties = {**properties, "hiddenColumns": _together(present, hidden)}
    kept = {**found["properties"], **properties}
    columns = given.get("columns", [])
    if not isinstance(columns, list):
        raise bad_spec("$.columns", "Expected `array`")
    if spec.type == "table":
        columns = _merged_columns(found["columns"], columns)
    elif "columns" not in given:
        columns = found["columns"]
    return checked(
        TableSpec.of(
            {
                "type": spec.type,
                "properties": {key: value for key, value in kept.items() if value is not None},
                "columns": columns,
            }
        )
    )


def _decoded(part: Mapping[str, Any] | str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(spec_bytes(part))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise bad_spec("$", str(error)[:500]) from error
    return _object(value, "$")


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_spec(path, "Expected `object`")
    return value


def _together(present: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    folded = {name_key(str(name)) for name in present}
    return [*present, *(name for name in given if name_key(str(name)) not in folded)]


def _merged_columns(present: list[dict[str, Any]], given: list[Any]) -> list[dict[str, Any]]:
    places = {name_key(column["name"]): place for place, column in enumerate(present)}
    found = [dict(column) for column in present]
    for number, column in enumerate(given):
        path = f"$.columns[{number}]"
        name = _object(column, path).get("name")
        if not isinstance(name, str):
            raise bad_spec(f"{path}.name", "Expected `str`")
        place = places.get(name_key(name))
        if place is None:
            places[name_key(name)] = len(found)
            found.append({key: value for key, value in column.items() if value is not None})
            continue
        both = {**found[place], **column, "name": found[place]["name"]}
        found[place] = {key: value for key, value in both.items() if value is not None}
    return found


def moved(spec: TableSpec, column: str, where: str, anchor: str | None) -> TableSpec:
    """Return a spec with a declared column in another place."""
    if where not in PLACES:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"'{where}' is none of {', '.join(PLACES)}{did_you_mean(str(where), PLACES)}",
        )
    moving = _declared_column(spec, column)
    rest = [one for one in spec.columns if one is not moving]
    if where in ("before", "after"):
        if anchor is None:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"'{where}' needs the column to put '{column}' beside"
            )
        beside = _declared_column(spec, anchor)
        if beside is moving:
            return spec
        place = rest.index(beside) + (where == "after")
    else:
        place = 0 if where == "first" else len(rest)
    return structs.replace(spec, columns=(*rest[:place], moving, *rest[place:]))


def without_columns(spec: TableSpec, names: Iterable[str]) -> TableSpec:
    """Return a spec that does not declare some columns; hidden ones stay hidden."""
    gone = [_declared_column(spec, name) for name in _listed(names)]
    for column in gone:
        _require_unused(spec, column.name)
    return checked(
        structs.replace(spec, columns=tuple(one for one in spec.columns if one not in gone))
    )


def with_hidden(spec: TableSpec, hide: Iterable[str] = (), unhide: Iterable[str] = ()) -> TableSpec:
    """Return a spec that hides some columns more, and others no longer; they need not exist."""
    shown = {name_key(name) for name in _listed(unhide)}
    present = spec.layout.hidden_columns or ()
    hidden = [name for name in _together(present, _listed(hide)) if name_key(name) not in shown]
    layout = structs.replace(spec.layout, hidden_columns=tuple(hidden) or UNSET)
    return checked(structs.replace(spec, properties=layout))


def with_renamed_column(spec: TableSpec, old: str, new: str) -> TableSpec:
    """Return a spec in which a column has another name, wherever a plain field names it."""
    folded, layout = name_key(old), spec.layout

    def other(name: str) -> str:
        return new if name_key(name) == folded else name

    time, keys, hidden = layout.time_column, layout.cluster_keys, layout.hidden_columns
    layout = structs.replace(
        layout,
        time_column=UNSET if time is UNSET else other(time),
        cluster_keys=UNSET
        if keys is UNSET
        else tuple(structs.replace(key, column=other(key.column)) for key in keys),
        hidden_columns=UNSET if hidden is UNSET else tuple(map(other, hidden)),
    )
    columns = tuple(structs.replace(one, name=other(one.name)) for one in spec.columns)
    properties = layout if spec.type == "table" else spec.properties
    return checked(structs.replace(spec, properties=properties, columns=columns))


def _declared_column(spec: TableSpec, name: str) -> ColumnSpec:
    """Return a declared column, found in any case."""
    for column in spec.columns:
        if name_key(column.name) == name_key(str(name)):
            return column
    near = did_you_mean(str(name), (column.name for column in spec.columns))
    raise InvalidInputError("PROJSEG_UNKNOWN_COLUMN", f"'{name}' is not a declared column{near}")


def _require_unused(spec: TableSpec, name: str) -> None:
    layout, folded = spec.layout, name_key(name)
    uses: list[tuple[str, Callable[[], bool]]] = [
        ("timeColumn", lambda: name_key(str(layout.time_column or "")) == folded),
        (
            "clusterKeys",
            lambda: any(name_key(key.column) == folded for key in layout.cluster_keys or ()),
        ),
        (
            "projections",
            lambda: any(_mentions(one, folded) for one in layout.projections or ()),
        ),
    ]
    for what, is_used in uses:
        if is_used():
            raise InvalidInputError(
                "PROJSEG_COLUMN_IN_USE",
                f"column '{name}' is named by the definition's {what}; take it out there first",
            )


def _mentions(projection: Mapping[str, Any], folded: str) -> bool:
    """Whether a projection's texts have a word; a text constant that has it counts too."""
    text = json.dumps({k: v for k, v in projection.items() if k != "name"}, ensure_ascii=False)
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text)
    plain = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in folded)
    return f" {plain} " in f" {words.casefold()} "


def _listed(names: Iterable[str]) -> list[str]:
    found = [names] if isinstance(names, str) else list(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"{name!r} is no name of a column")
    return found
