"""Definitions as JSON files, for configuration as code, and the tables of a folder warehouse."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from projseg.catalog.definitions import Definitions
from projseg.catalog.spec.table_spec import SPEC_BYTES_MAX
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import Action, parse_name
from projseg.errors import InvalidInputError
from projseg.table_layer.metadata.versions_and_tags import holds_table

_FILE_NAME: Final = ".json"


def export_definitions(store: Store, folder: str | os.PathLike[str]) -> int:
    """Write each definition as a JSON file; return how many."""
    target, count = Path(folder), 0
    target.mkdir(parents=True, exist_ok=True)
    for found in store.listed():
        content: dict[str, Any] = {"name": [found.namespace, found.name]}
        if not found.managed:
            content["location"] = found.location
        content["spec"] = found.spec.to_dict()
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        (target / f"{found.full_name.text}{_FILE_NAME}").write_text(text, encoding="utf-8")
        count += 1
    return count


def load_definitions(
    definitions: Definitions,
    exported: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    action: Action,
) -> int:
    """Bring exported definitions back; return how many."""
    if isinstance(exported, str | os.PathLike):
        exported = _files(_folder(exported))
    count, store = 0, definitions.store
    if store.database.is_missing:
        store.database.make()
    for content in exported:
        name, place = parse_name(content["name"]), content.get("location")
        known = {one["name"].casefold() for one in store.namespaces()}
        if name.namespace.casefold() not in known:
            store.put_namespace(name.namespace, None, None)
        if place is None:
            definitions.put(name, content["spec"], action)
        else:
            definitions.register(name, str(place), content["spec"], action)
        count += 1
    return count


def register_warehouse(definitions: Definitions, folder: str | os.PathLike[str]) -> int:
    """Register the tables of a folder warehouse under their names; return how many."""
    places = (
        place
        for place in sorted(_folder(folder).glob("*/*"))
        if not place.name.startswith(".") and place.is_dir() and holds_table(place)
    )
    found = (
        {"name": [one.parent.name, one.name], "location": str(one.absolute()), "spec": {}}
        for one in places
    )
    return load_definitions(definitions, found, "ifNew")


def _files(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.glob(f"*{_FILE_NAME}")):
        if path.stat().st_size > 2 * SPEC_BYTES_MAX:
            raise InvalidInputError("PROJSEG_BAD_SPEC", f"{path} is too large for a definition")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if not {"name", "spec"} <= set(content) <= {"name", "spec", "location"}:
                raise ValueError("it has other fields than name, spec and location")
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInputError(
                "PROJSEG_BAD_SPEC", f"{path} is no exported definition: {error}"
            ) from error
        yield content


def _folder(path: str | os.PathLike[str]) -> Path:
    found = Path(path)
    if not found.is_dir():
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"{found} is no folder")
    return found
