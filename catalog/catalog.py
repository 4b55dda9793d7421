"""`Catalog`: definitions by name, and the tables that they are of.

| module | object, or functions | of the methods |
|---|---|---|
| `definitions` | `definitions` | create to rename, columns, lists, changes, namespaces, undrop |
| `catalog_tables` | tables by name | table, apply, rebind, expire, check |
| `information_schema` | `information_schema` | sql over the catalog itself |
| `table_status` | | status |
| `trash` | the trash | drop, trash, gc |
| `definition_files` | | export, load, register_warehouse |
| `external` | | read, external |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.catalog.catalog_tables import CatalogTables
from projseg.catalog.definition_files import (
    export_definitions,
    load_definitions,
    register_warehouse,
)
from projseg.catalog.definitions import Definitions
from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.external.source_parameters import given_spec, whole_spec
from projseg.catalog.external.source_reader import read_source
from projseg.catalog.information_schema import InformationSchema, table_of, view_named
from projseg.catalog.named_table import CatalogTable
from projseg.catalog.spec.spec_edits import drop_of, hide_of, merge_of, move_of
from projseg.catalog.spec.table_spec import SpecLike, TableSpec
from projseg.catalog.store.open_store import open_store
from projseg.catalog.store.store_contract import CatalogAdmin
from projseg.catalog.store.table_metadata import (
    Action,
    NameLike,
    TableMetadata,
    check_name,
    parse_name,
)
from projseg.catalog.table_places import TablePlaces
from projseg.catalog.table_status import table_status
from projseg.catalog.trash import Trash
from projseg.errors import InvalidInputError
from projseg.extras import require
from projseg.table_layer.storage.store_location import StorageOptionsLike

if TYPE_CHECKING:
    from projseg.doors.duckdb_tables import DuckDBTables
    from projseg.explain import Explain

ENVIRONMENT: Final = "PROJSEG_CATALOG"


class Catalog:
    """The definitions of a tenant in a SQLite file, in PostgreSQL, or behind a server.

    It is a context manager, and picklable without its connections; threads may share one.

    Parameters
    ----------
    uri : str or None
        A file, `sqlite:///path`, `postgresql://user@host/name`, or a server's address,
        `https://host`. None means the value of the environment variable `PROJSEG_CATALOG`. The
        first edit creates a file; `init` creates the tables in an empty PostgreSQL database.
    warehouse : str or None
        The folder or prefix of managed tables; None means the folder `warehouse` beside the file. A
        server chooses the places of tables itself.
    tenant : str
        The tenant whose definitions are read and edited; those of other tenants are invisible.
        Through a server, it is the token's tenant.
    token : str or None
        The token for a server; None means the token of the environment.
    user : str or None
        The name of the user for the history; projseg does not find it out by itself.
    refresh_seconds : float
        For how many seconds a definition that was read may be used again; with 0 each statement
        reads it.
    timeout : float
        Seconds to wait for a database that is locked or does not answer.
    external_roots : sequence of str
        Folders that definitions of files may use; if empty, the folders that the environment lists.
    external_hosts : sequence of str
        Hosts that definitions of files may use, `host[:port]` for https or `http://host[:port]`; if
        empty, the hosts that the environment lists.
    storage_options : mapping or None
        Options of the object store that the tables are in, as in `Table`.

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
        self._tenant = check_name(tenant)
        self.store = open_store(os.fspath(given), self._tenant, user, token, timeout)
        folder, path = None if warehouse is None else os.fspath(warehouse), self.store.database.path
        if folder is None and path is not None:
            folder = str(path.parent / "warehouse")
        self.places = TablePlaces(self.store, folder, storage_options)
        self.definitions = Definitions(self.store, self.places, refresh_seconds)
        self._tables = CatalogTables(self.definitions)
        self._trash = Trash(self.definitions)
        self.information_schema = InformationSchema(self.store, self._tables)

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

    def init(self) -> None:
        """Create the catalog in an empty database, or in a new file; an existing catalog stays.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        self.store.database.make()

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self.store.database.close()

    def flush(self) -> None:
        """Forget every definition that was read."""
        self.definitions.flush()

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
            What to do about a definition of that name: `new` fails if there is one, `ifNew` leaves
            it as it is, `replace` fails if there is none, `force` creates or replaces.
        version : int or None
            The version that the definition to be replaced must have.

        Returns
        -------
        int
            The definition's version, or 0 if `ifNew` left an existing definition as it is.

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
        return self.definitions.put(name, spec, action, version)

    def register(
        self, name: NameLike, location: str | os.PathLike[str], spec: SpecLike | None = None
    ) -> int:
        """Define a table at a given location; dropping the definition keeps its files.

        Parameters
        ----------
        name : str or pair of str
            The new name.
        location : str or path
            The location of the table, which need not exist yet.
        spec : mapping, JSON text, TableSpec or None
            The definition; None means one that declares nothing.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            What `create` raises; PROJSEG_BAD_LOCATION.
        """
        place = self.places.open(os.fspath(location)).location
        return self.definitions.register(name, place, spec)

    def merge(self, name: NameLike, spec: SpecLike, version: int | None = None) -> int:
        """Merge a part of a spec into a definition.

        A given property replaces the stored one, and null removes it. Only `hiddenColumns` is
        different: the given names are added to the stored list. Columns are matched by name, and
        new columns go to the end.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        spec : mapping, JSON text or TableSpec
            The part.
        version : int or None
            The version that the definition must have; None means any.

        Returns
        -------
        int
            The definition's version, which stays the same if nothing changes.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_BAD_SPEC.
        CatalogConflictError, CatalogError
            What `create` raises.
        """
        return self.definitions.change(name, merge_of(spec), version)

    def edit(
        self, name: NameLike, function: Callable[[TableSpec], SpecLike], retries: int = 20
    ) -> int:
        """Read a spec, apply a function, and write the result if nobody was faster.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        function : callable
            A function that gets the spec and returns the new spec; it is called again after a
            conflict.
        retries : int
            How often the edit is tried again after a conflict.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            What `create` raises, and what the function raises.
        CatalogConflictError
            If others were faster each time.
        """
        return self.definitions.rewrite(name, function, retries)

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
            What `create` raises.
        """
        return self.definitions.rename(old, new)

    def move_column(
        self, name: NameLike, column: str, where: str, anchor: str | None = None
    ) -> int:
        """Move a declared column.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        column : str
            Which.
        where : str
            The new place: `first`, `last`, `before` or `after`.
        anchor : str or None
            The column that it goes before or after.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, also if somebody dropped the column meanwhile;
            PROJSEG_BAD_ARGUMENT.
        CatalogError
            What `create` raises.
        """
        return self.definitions.change(name, move_of(column, where, anchor))

    def drop_columns(self, name: NameLike, columns: Iterable[str]) -> int:
        """Drop columns from the declaration; stored values stay, in columns at the end.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        columns : iterable of str
            The columns' names, in any case.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN; PROJSEG_COLUMN_IN_USE if the layout uses one of the columns.
        CatalogError
            What `create` raises.
        """
        return self.definitions.change(name, drop_of(columns))

    def hide_columns(self, name: NameLike, columns: Iterable[str]) -> int:
        """Hide columns of a table that is opened by name; by path they stay visible.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        columns : iterable of str
            The columns' names, in any case.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            PROJSEG_BAD_SPEC for the time column, and what `create` raises.
        """
        return self.definitions.change(name, hide_of(hide=columns))

    def unhide_columns(self, name: NameLike, columns: Iterable[str]) -> int:
        """Bring hidden columns back.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        columns : iterable of str
            The columns' names, in any case.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            What `create` raises.
        """
        return self.definitions.change(name, hide_of(unhide=columns))

    def spec(self, name: NameLike) -> TableSpec:
        """Return the spec that the user wrote.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        TableSpec
            The spec; its `to_json()` returns the canonical JSON text.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_BAD_NAME.
        CatalogError
            What `create` raises.
        """
        return self.metadata(name).spec

    def metadata(self, name: NameLike) -> TableMetadata:
        """Return a definition with its metadata in the catalog.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        TableMetadata
            id, version, location, state, spec and the like.

        Raises
        ------
        InvalidInputError, CatalogError
            What `spec` raises.
        """
        return self.store.load(parse_name(name))

    def exists(self, name: NameLike) -> bool:
        """Whether there is a definition of a name.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        bool
            Whether the definition exists; False for a definition in the trash.

        Raises
        ------
        InvalidInputError, CatalogError
            PROJSEG_BAD_NAME, and what `spec` raises.
        """
        return self.store.find(parse_name(name)) is not None

    def tables(
        self, namespace: str | None = None, like: str | None = None, type: str | None = None
    ) -> Iterator[TableMetadata]:
        """Yield the definitions in the order of their names.

        Parameters
        ----------
        namespace : str or None
            Only definitions of this namespace.
        like : str or None
            Only names that match this pattern of `*` and `?`, in any case.
        type : str or None
            Only definitions of this type.

        Returns
        -------
        iterator of TableMetadata
            The definitions, which are read page by page.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        return self.definitions.listed(namespace, like, type)

    def history(self, name: NameLike) -> pa.Table:
        """Return the changes of a definition that are kept, oldest first.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        pa.Table
            version, name (at that version), kind, at, by, spec (JSON text; null where the spec did
            not change).

        Raises
        ------
        InvalidInputError, CatalogError
            What `spec` raises.
        """
        return self.definitions.history(name)

    def changes(self, since: int = 0) -> pa.Table:
        """Return all changes of the tenant's definitions after a version, in order.

        Parameters
        ----------
        since : int
            The newest version that is known.

        Returns
        -------
        pa.Table
            As in `history`.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_VERSION if not all of these changes are kept any more: list the
            definitions anew.
        CatalogError
            What `create` raises.
        """
        return self.definitions.changes(since)

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces; `default` is always among them.

        Returns
        -------
        list of str
            The names, sorted without regard to case.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        return [found["name"] for found in self.store.namespaces()]

    def create_namespace(
        self,
        name: str,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Make a namespace.

        Parameters
        ----------
        name : str
            The new name.
        comment : str or None
            A description for people.
        properties : mapping of str to str, or None
            Properties of the user's own.

        Returns
        -------
        int
            The tenant's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_NAMESPACE_EXISTS, PROJSEG_BAD_NAME, PROJSEG_BAD_ARGUMENT.
        CatalogError
            What `create` raises.
        """
        return self.definitions.create_namespace(name, comment, properties)

    def drop_namespace(self, name: str, cascade: bool = False) -> int:
        """Drop a namespace, and with `cascade` its definitions; data stays.

        Parameters
        ----------
        name : str
            Which.
        cascade : bool
            Whether the namespace's definitions go to the trash; otherwise the namespace must be
            empty.

        Returns
        -------
        int
            The tenant's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_NAMESPACE, PROJSEG_NAMESPACE_NOT_EMPTY.
        CatalogError
            What `create` raises.
        """
        return self.definitions.drop_namespace(name, cascade)

    def sql(
        self,
        text: str,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        explain: bool = False,
    ) -> pa.Table | Explain:
        """Return the rows of one SELECT over a table that FROM names.

        Parameters
        ----------
        text : str
            As in `Table.sql`, with the name of a definition after FROM: `sales.edits`, or `edits`
            in `default`. `information_schema` has the views `schemata`, `tables`, `columns` and
            `projections`.
        context, args, explain
            As in `Table.sql`.

        Returns
        -------
        pa.Table or Explain
            As in `Table.sql`.

        Raises
        ------
        ProjsegError
            What `Table.sql` and `table` raise.
        """
        parts = table_of(text, args)
        view = view_named(parts)
        if view is not None:
            return self.information_schema.sql(view, text, context, args, explain=explain)
        table = self.table(parts)
        if explain:
            return table.sql(text, context=context, args=args, explain=True)
        return table.sql(text, context=context, args=args)

    def table(self, name: NameLike, version: int | None = None) -> CatalogTable:
        """Open a table by name: with the columns and the layout of its definition.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        version : int or None
            The table version to read; None means the newest, which may be written to.

        Returns
        -------
        CatalogTable
            An object with all methods of `Table`. A table that was never written has no rows.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE; PROJSEG_TABLE_REPLACED if another table lies at the location;
            PROJSEG_NOT_A_TABLE if a table that was there is gone, and what `Table` raises.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FEATURE for a definition of files from outside.
        CatalogError
            What `create` raises.
        """
        return self._tables.table(name, version)

    def read(
        self, name: NameLike, *, timezone: str = "UTC", **parameters: Any
    ) -> pa.RecordBatchReader:
        """Return the rows of any definition; rows of external files are read in bounded memory.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        timezone : str
            The time zone of times in files that are written without a zone.
        **parameters : object
            Values that a template leaves open, by the names of its properties: `files=["a.csv"]`,
            `filePattern="*.csv"`, `uris=[...]`. A connection also needs `format`, the format's own
            properties, and `schema`, which is the columns as DDL text.

        Returns
        -------
        pa.RecordBatchReader
            The declared columns in their types. An error in a file is raised while the file is
            read.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PARAMETER, PROJSEG_MISSING_PARAMETER, PROJSEG_OUTSIDE_ROOTS,
            PROJSEG_HOST_NOT_ALLOWED, PROJSEG_BAD_INPUT_FILE, PROJSEG_UNKNOWN_TABLE.
        EvaluationError
            If a value does not have the declared type; the message gives file, row and column.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FEATURE for definitions of type `spark`.
        CatalogError
            What `create` raises.
        """
        definition = self.definitions.recent(name)
        if definition.type == "table" and not parameters:
            return self.table(name).query().to_reader()
        spec = whole_spec(str(definition.full_name), definition.spec, parameters)
        return read_source(spec, self.allowed_places, timezone)

    def external(self, *, timezone: str = "UTC", **parameters: Any) -> pa.RecordBatchReader:
        """Return rows of external files, without a definition.

        Parameters
        ----------
        timezone : str
            As in `read`.
        **parameters : object
            `source` (`inline`, `files`, `http`), its properties, and `schema`.

        Returns
        -------
        pa.RecordBatchReader
            As in `read`.

        Raises
        ------
        ProjsegError
            What `read` raises.
        """
        return read_source(given_spec(parameters), self.allowed_places, timezone)

    def duckdb(self, names: Iterable[NameLike], connection: Any = None) -> DuckDBTables:
        """Return a connection of DuckDB in which tables are views under their names.

        Each question reads the newest version with the columns and layout of its definition; `sql`
        answers groups from projections, as in `projseg.duckdb`.

        Parameters
        ----------
        names : iterable of str or pair of str
            The definitions of tables.
        connection : duckdb.DuckDBPyConnection or None
            The connection in which the views are made, in a schema for each namespace; None means a
            new connection.

        Returns
        -------
        DuckDBTables
            The tables, for statements in DuckDB's SQL: `SELECT ... FROM sales.edits JOIN ...`.

        Raises
        ------
        MissingPackageError
            Without `duckdb`.
        ProjsegError
            What `table` raises.
        """
        require("duckdb", "Catalog.duckdb")
        # Imported here: most users of a catalog ask in Spark's SQL.
        from projseg.doors.duckdb_tables import DuckDBTables

        found = [self.table(name).definition.full_name for name in names]
        return DuckDBTables({(*name,): partial(self.table, name) for name in found}, connection)

    def status(self, name: NameLike | None = None, refresh: bool = False) -> pa.Table:
        """Return in how many segments of tables each projection is built.

        Parameters
        ----------
        name : str, pair of str, or None
            The definition; None means all tables.
        refresh : bool
            Open the tables and count anew; otherwise use the counts that commits by name record, at
            most once a minute.

        Returns
        -------
        pa.Table
            A row for each table, whose projection is null, and one for each projection: name,
            projection, table_version, status, segments (that hold it), missing, failed, rows,
            bytes, at. The status of a projection is ENABLED (in all segments), PARTIAL, DISABLED
            (in none) or FAILED; of a table ENABLED, FAILED if it could not be opened, and null if
            it was never written or counted.

        Raises
        ------
        InvalidInputError, CatalogError
            What `spec` raises.
        """
        found = self.store.listed(type="table") if name is None else [self.metadata(name)]
        return table_status(found, self._tables, refresh=refresh)

    def apply(self, name: NameLike, dry_run: bool = True) -> pa.Table:
        """Give a table the columns and the layout of its definition, without writing rows.

        With `dry_run`, only say what would change.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        dry_run : bool
            Only report what would be done.

        Returns
        -------
        pa.Table
            field, table (its present value) and definition (the new value), for each difference.

        Raises
        ------
        ProjsegError
            What `table` raises, and errors for columns or a layout that the table cannot have.
        """
        return self._tables.apply(name, dry_run)

    def rebind(self, name: NameLike) -> int:
        """Bind a definition to the table that lies at its location now.

        The table's columns are bound by name again. The table gets its layout from this definition,
        even if it followed another definition before.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        int
            The table's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_NOT_A_TABLE.
        CatalogError, CommitError
            What `create` and `append` raise.
        """
        return self._tables.rebind(name)

    def expire(self, name: NameLike, dry_run: bool = True) -> pa.Table:
        """Remove the segments whose rows are all older than the definition's `retention`.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        dry_run : bool
            Only list them, and remove nothing.

        Returns
        -------
        pa.Table
            file, max_time and rows of each segment that is removed.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SPEC if the definition has no retention, and what `table` raises.
        CatalogError, CommitError, StorageError
            What `append` raises.
        """
        return self._tables.expire(name, dry_run)

    def check(self) -> pa.Table:
        """Return the disagreements between definitions and their tables.

        Returns
        -------
        pa.Table
            name, code, problem.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        return self._tables.problems()

    def drop(
        self,
        name: NameLike,
        if_exists: bool = False,
        data: str = "keep",
        version: int | None = None,
    ) -> bool:
        """Drop a definition; for seven days `undrop` brings it back.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        if_exists : bool
            Whether a missing definition is not an error.
        data : str
            With `keep` the table's files stay; with `trash` the files of a managed table are
            removed together with the definition when it leaves the trash; with `now` they are
            removed at once. A registered table's files always stay.
        version : int or None
            The version that the definition must have.

        Returns
        -------
        bool
            Whether there was a definition.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_BAD_ARGUMENT.
        CatalogConflictError, CatalogError
            What `create` raises.
        """
        return self._trash.drop(name, if_exists, data, version)

    def undrop(self, name: NameLike, definition: str | None = None) -> int:
        """Bring the newest dropped definition of a name back, or one by its id.

        Parameters
        ----------
        name : str or pair of str
            The name that the definition had.
        definition : str or None
            The definition's id, which `trash` returns.

        Returns
        -------
        int
            Its version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_TABLE_EXISTS.
        CatalogError
            What `create` raises.
        """
        return self.definitions.undrop(name, definition)

    def trash(self) -> pa.Table:
        """Return the dropped definitions.

        Returns
        -------
        pa.Table
            id, name, due, removes_files.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        return self._trash.table()

    def gc(self, dry_run: bool = True) -> pa.Table:
        """Remove dropped definitions that are due, unfinished ones, and their files.

        Nothing is found by listing folders. Only locations that are recorded in a row, and that the
        catalog can compute again, are emptied, and only of files with projseg's names.

        Parameters
        ----------
        dry_run : bool
            Only list them, and remove nothing.

        Returns
        -------
        pa.Table
            id, name, location (null if files stay).

        Raises
        ------
        CatalogError, StorageError
            What `create` raises; call it again to continue.
        """
        return self._trash.empty(dry_run)

    def export(self, folder: str | os.PathLike[str]) -> int:
        """Write each definition as a JSON file.

        Parameters
        ----------
        folder : str or path
            The folder, which is created if it does not exist; other files in it stay.

        Returns
        -------
        int
            How many files.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        return export_definitions(self.store, folder)

    def load(
        self,
        definitions: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
        action: Action = "force",
    ) -> int:
        """Bring exported definitions back.

        Parameters
        ----------
        definitions : folder, or iterable of mappings
            What `export` wrote, or mappings `{"name": [namespace, name], "spec": …, "location":
            …}`. Missing namespaces are created.
        action : str
            As in `create`.

        Returns
        -------
        int
            How many definitions.

        Raises
        ------
        InvalidInputError, CatalogError
            What `create` and `register` raise; the definitions before the wrong one are loaded.
        """
        return load_definitions(self.definitions, definitions, action)

    def register_warehouse(self, folder: str | os.PathLike[str]) -> int:
        """Register the tables of a folder warehouse under their names.

        Parameters
        ----------
        folder : str or path
            A folder of namespace folders, which hold the folders of tables.

        Returns
        -------
        int
            How many tables.

        Raises
        ------
        InvalidInputError, CatalogError
            What `register` raises.
        """
        return register_warehouse(self.definitions, folder)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy a catalog that is a file, as it is at one moment.

        Parameters
        ----------
        path : str or path
            A new file.

        Raises
        ------
        InvalidInputError, UnsupportedFeatureError
            PROJSEG_BAD_ARGUMENT if something stands there; PROJSEG_UNSUPPORTED_STORAGE for
            PostgreSQL, which has `pg_dump`.
        """
        self.store.database.copy_to(Path(path))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Replace the whole catalog by a backup; edits since the backup are lost, rows are not.

        Parameters
        ----------
        path : str or path
            A file that `backup` wrote.

        Raises
        ------
        CatalogUnavailableError, UnsupportedFeatureError
            If it is no catalog; PROJSEG_UNSUPPORTED_STORAGE for PostgreSQL.
        """
        self.store.database.restore_from(Path(path))
        self.flush()

    def migrate(self) -> bool:
        """Migrate an older catalog to this release's schema.

        A catalog file is first copied beside itself.

        Returns
        -------
        bool
            Whether there was anything to do.

        Raises
        ------
        CatalogError
            What `create` raises.
        """
        return self.store.database.migrate()
