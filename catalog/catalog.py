"""`Catalog`: definitions by name, and the tables that they are of.

| module | methods |
|---|---|
| `catalog` | create, register, merge, edit, rename, spec, exists |
| `definition_verbs` | columns, namespaces, tables, status, history, changes |
| `table_verbs` | table, metadata, apply, rebind |
| `information_schema` | sql |
| `external_verbs` | read, external |
| `definition_files` | export, load, register_warehouse |
| `catalog_maintenance` | drop, undrop, trash, gc, drop_namespace |
| `catalog_maintenance` | backup, restore, migrate, check, expire |
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from projseg.catalog.catalog_maintenance import Upkeep
from projseg.catalog.definition_files import DefinitionFiles
from projseg.catalog.definition_verbs import DefinitionVerbs, StatusVerbs
from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.external_verbs import ExternalVerbs
from projseg.catalog.information_schema import InformationSchema
from projseg.catalog.spec.spec_edits import merge_of
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import SpecLike, TableSpec
from projseg.catalog.staged_definitions import register_at
from projseg.catalog.store.store_contract import CatalogAdmin
from projseg.catalog.store.table_metadata import Action, NameLike, check_name, parse_name
from projseg.errors import CatalogConflictError, InvalidInputError
from projseg.table_layer.storage.store_location import StorageOptionsLike

ENVIRONMENT: Final = "PROJSEG_CATALOG"
_RANDOM: Final = random.SystemRandom()


class Catalog(
    InformationSchema, DefinitionVerbs, ExternalVerbs, DefinitionFiles, StatusVerbs, Upkeep
):
    """The definitions of a tenant in a SQLite file, in PostgreSQL, or behind a server.

    It is a context manager, and picklable without its connections; threads may share one.

    Parameters
    ----------
    uri : str or None
        A file, `sqlite:///path`, `postgresql://user@host/name`, or a server's address,
        `https://host`; None: what the environment names. The first edit makes a
        file; `init` fills an empty PostgreSQL database.
    warehouse : str or None
        The folder or prefix of managed tables; None: `warehouse` beside the file. A server
        places tables itself.
    tenant : str
        Whose definitions; nothing of another tenant is seen. Through a server: the token's.
    token : str or None
        For a server; None: that of the environment.
    user : str or None
        Who edits, for the history; it is not found out otherwise.
    refresh_seconds : float
        For how long a definition that was read may be used again; 0: each statement reads it.
    timeout : float
        Seconds to wait for a database that is locked or does not answer.
    external_roots : sequence of str
        Folders that definitions of files may name; none given: those of the environment.
    external_hosts : sequence of str
        Hosts that they may name, `host[:port]` for https or `http://host[:port]`; none given: those
        of the environment.
    storage_options : mapping or None
        Of the tables, as of `Table`.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT, PROJSEG_BAD_NAME.
    MissingPackageError
        If the packages of the extra `catalog` are not installed.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | None = None,
        *,
        warehouse: str | os.PathLike[str] | None = None,
        tenant: str = "default",
        token: str | None = None,
        user: str | None = None,
        refresh_seconds: float = 0,
        timeout: float = 10,
        external_roots: Sequence[str] = (),
        external_hosts: Sequence[str] = (),
        storage_options: StorageOptionsLike | None = None,
    ) -> None:
        given = uri if uri is not None else os.environ.get(ENVIRONMENT)
        if not given:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"no catalog was named; give its file or address, or set {ENVIRONMENT}",
            )
        self.allowed_places = AllowedPlaces.of(external_roots, external_hosts)
        self._open(
            os.fspath(given),
            warehouse=None if warehouse is None else os.fspath(warehouse),
            tenant=check_name(tenant),
            token=token,
            user=user,
            refresh_seconds=refresh_seconds,
            timeout=timeout,
            storage_options=storage_options,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Catalog {self.store.database!r}, tenant {self._tenant}>"

    @property
    def admin(self) -> CatalogAdmin:
        """Tenants, principals, tokens and grants of those who come through a server."""
        return self.store.access()

    def close(self) -> None:
        """Close the connections; the next use opens others."""
        self.store.database.close()

    def init(self) -> None:
        """Make the catalog in an empty database, or in a new file; one that is there stays.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        self.store.database.make()

    def create(
        self,
        name: NameLike,
        spec: SpecLike,
        action: Action = "new",
        version: int | None = None,
    ) -> int:
        """Write a definition as it is.

        Parameters
        ----------
        name : str or pair of str
            `"namespace.name"`, `"name"` in `default`, or the two as a pair.
        spec : mapping, JSON text or TableSpec
            The whole definition.
        action : str
            `new`; `ifNew`: an existing one stays; `replace`: it must exist; `force`: either.
        version : int or None
            The version that the definition to be replaced must have.

        Returns
        -------
        int
            The definition's version; 0 if an existing one stayed.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SPEC, PROJSEG_BAD_NAME, PROJSEG_TABLE_EXISTS, PROJSEG_UNKNOWN_TABLE,
            PROJSEG_UNKNOWN_NAMESPACE.
        CatalogConflictError
            PROJSEG_CATALOG_CONFLICT.
        CatalogError
            If the database cannot be used.
        """
        parsed, whole = parse_name(name), checked(TableSpec.of(spec))

        def location(definition: str) -> str | None:
            return self.places.new_location(parsed, definition) if whole.type == "table" else None

        return self._edited(
            lambda: self.store.put(parsed, whole, action, version, location=location)
        )

    def register(
        self, name: NameLike, location: str | os.PathLike[str], spec: SpecLike | None = None
    ) -> int:
        """Define a table at a location of one's own, whose files a drop never removes.

        Parameters
        ----------
        name : str or pair of str
            The new name.
        location : str or path
            Of the table, which need not be there yet.
        spec : mapping, JSON text, TableSpec or None
            None: one that declares nothing.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `create`; PROJSEG_BAD_LOCATION.
        """
        place = self.places.open(os.fspath(location)).location
        return register_at(self, name, place, {} if spec is None else spec, "new")

    def merge(self, name: NameLike, spec: SpecLike, version: int | None = None) -> int:
        """Merge a part of a spec into a definition.

        A property that is given replaces the stored one, null removes it, hidden columns are added
        to. Columns are matched by name and new ones go to the end.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        spec : mapping, JSON text or TableSpec
            The part.
        version : int or None
            The version that it is for; None: whichever is newest.

        Returns
        -------
        int
            The definition's version; what changes nothing keeps it.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_BAD_SPEC.
        CatalogConflictError, CatalogError
            As of `create`.
        """
        return self._change(name, merge_of(spec), version)

    def edit(
        self, name: NameLike, function: Callable[[TableSpec], SpecLike], retries: int = 20
    ) -> int:
        """Read a spec, apply a function, and write the result if nobody was faster.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        function : callable
            From the spec to another; called again after a conflict.
        retries : int
            How often.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `create`, and what the function raises.
        CatalogConflictError
            If others were faster each time.
        """
        for tries in range(retries + 1):
            found = self.store.load(parse_name(name))
            wanted = checked(TableSpec.of(function(found.spec)))
            try:
                return self.create(name, wanted, "replace", found.version)
            except CatalogConflictError:
                if tries == retries:
                    raise
            time.sleep(_RANDOM.uniform(0, min(1.0, 0.005 * 2**tries)))
        raise AssertionError("the last try returns or raises")

    def spec(self, name: NameLike) -> TableSpec:
        """Return what the user wrote.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        TableSpec
            `.to_json()` is its one form.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_BAD_NAME.
        CatalogError
            As of `create`.
        """
        return self.metadata(name).spec

    def exists(self, name: NameLike) -> bool:
        """Whether there is a definition of a name.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        bool
            Of those in the trash: False.

        Raises
        ------
        InvalidInputError, CatalogError
            PROJSEG_BAD_NAME; as of `spec`.
        """
        return self.store.find(parse_name(name)) is not None

    def rename(self, old: NameLike, new: NameLike) -> int:
        """Give a definition another name; its table stays where it is.

        Parameters
        ----------
        old, new : str or pair of str
            The present and the new name.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `create`.
        """
        return self._edited(lambda: self.store.rename(parse_name(old), parse_name(new)))
