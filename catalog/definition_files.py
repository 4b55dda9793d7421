"""`DefinitionFiles`: definitions as JSON files, and the tables of a folder warehouse."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from projseg.catalog.spec.table_spec import SPEC_BYTES_MAX
from projseg.catalog.staged_definitions import register_at
from projseg.catalog.store.table_metadata import Action, parse_name
from projseg.catalog.table_verbs import TableVerbs
from projseg.errors import InvalidInputError
from projseg.table_layer.metadata.versions_and_tags import holds_table

_FILE_NAME: Final = ".json"


class DefinitionFiles(TableVerbs):
    """A catalog's definitions as files: configuration as code, and a backup for any release."""

    def export(self, folder: str | os.PathLike[str]) -> int:
        """Write each definition as a JSON file.

        Parameters
        ----------
        folder : str or path
            It is made if it is not there; files of other names stay.

        Returns
        -------
        int
            How many files.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        target, count = Path(folder), 0
        target.mkdir(parents=True, exist_ok=True)
        for found in self.store.listed():
            content: dict[str, Any] = {"name": [found.namespace, found.name]}
            if not found.managed:
                content["location"] = found.location
            content["spec"] = found.spec.to_dict()
            text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
            (target / f"{found.full_name.text}{_FILE_NAME}").write_text(text, encoding="utf-8")
            count += 1
        return count

    def load(
        self,
        definitions: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
        action: Action = "force",
    ) -> int:
        """Bring exported definitions back.

        Parameters
        ----------
        definitions : folder, or iterable of mappings
            Of `export`: `{"name": [namespace, name], "spec": …, "location": …}`. Namespaces that
            are missing are made.
        action : str
            As of `create`.

        Returns
        -------
        int
            How many definitions.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `create` and `register`; the definitions before the one that is wrong are there.
        """
        if isinstance(definitions, str | os.PathLike):
            found: Iterable[Mapping[str, Any]] = _files(_folder(definitions))
        else:
            found = definitions
        count = 0
        if self.store.database.is_missing:
            self.store.database.make()
        for content in found:
            self._load(content, action)
            count += 1
        return count

    def _load(self, content: Mapping[str, Any], action: Action) -> None:
        name, place = parse_name(content["name"]), content.get("location")
        known = {one["name"].casefold() for one in self.store.namespaces()}
        if name.namespace.casefold() not in known:
            self.store.put_namespace(name.namespace, None, None)
        if place is None:
            self._as_catalog().create(name, content["spec"], action)
        else:
            register_at(self._as_catalog(), name, str(place), content["spec"], action)

    def register_warehouse(self, folder: str | os.PathLike[str]) -> int:
        """Register the tables of a folder warehouse under their names.

        Parameters
        ----------
        folder : str or path
            Of folders of namespaces, which hold folders of tables.

        Returns
        -------
        int
            How many tables.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `register`.
        """
        count = 0
        for place in sorted(_folder(folder).glob("*/*")):
            if place.name.startswith(".") or not place.is_dir() or not holds_table(place):
                continue
            content = {
                "name": [place.parent.name, place.name],
                "location": str(place.absolute()),
                "spec": {},
            }
            count += self.load([content], "ifNew")
        return count


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
