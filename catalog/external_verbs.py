"""`ExternalVerbs`: rows of files, web servers and inline data, by definition or without one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.external.source_parameters import given_spec, whole_spec
from projseg.catalog.external.source_reader import read_source
from projseg.catalog.store.table_metadata import NameLike, parse_name
from projseg.catalog.table_verbs import TableVerbs
from projseg.extras import require

if TYPE_CHECKING:
    from projseg.doors.duckdb_tables import DuckDBTables


class ExternalVerbs(TableVerbs):
    """A catalog's definitions of files from outside, read with the rights of this process."""

    allowed_places: AllowedPlaces

    def read(
        self, name: NameLike, *, timezone: str = "UTC", **parameters: Any
    ) -> pa.RecordBatchReader:
        """Return the rows of any definition; those of files from outside in bounded memory.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        timezone : str
            Of times in files that are written without a zone.
        **parameters : object
            What a template leaves open, by the names of its properties: `files=["a.csv"]`,
            `filePattern="*.csv"`, `uris=[...]`. Of a connection also `format`, what belongs to it,
            and `schema`, columns as DDL text.

        Returns
        -------
        pa.RecordBatchReader
            The declared columns in their types. An error in a file comes while it is read.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PARAMETER, PROJSEG_MISSING_PARAMETER, PROJSEG_OUTSIDE_ROOTS,
            PROJSEG_HOST_NOT_ALLOWED, PROJSEG_BAD_INPUT_FILE, PROJSEG_UNKNOWN_TABLE.
        EvaluationError
            A value is not one of its type; the message names file, row and column.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FEATURE for definitions of type `spark`.
        CatalogError
            As of `create`.
        """
        definition = self._definition(parse_name(name))
        if definition.type == "table" and not parameters:
            return self.table(name).query().to_reader()
        full_name = str(definition.full_name)
        return read_source(
            whole_spec(full_name, definition.spec, parameters), self.allowed_places, timezone
        )

    def external(self, *, timezone: str = "UTC", **parameters: Any) -> pa.RecordBatchReader:
        """Return rows of files from outside, without a definition.

        Parameters
        ----------
        timezone : str
            As of `read`.
        **parameters : object
            `source` (`inline`, `files`, `http`), its properties, and `schema`.

        Returns
        -------
        pa.RecordBatchReader
            As of `read`.

        Raises
        ------
        ProjsegError
            As of `read`.
        """
        return read_source(given_spec(parameters), self.allowed_places, timezone)

    def duckdb(self, names: Iterable[NameLike], connection: Any = None) -> DuckDBTables:
        """Return a connection of DuckDB in which tables are views under their names.

        Each question reads the newest version as its definition says; `sql` answers groups from
        projections, as of `projseg.duckdb`.

        Parameters
        ----------
        names : iterable of str or pair of str
            The definitions of tables.
        connection : duckdb.DuckDBPyConnection or None
            Where the views are made, in a schema for each namespace; None: a new one.

        Returns
        -------
        DuckDBTables
            For DuckDB's SQL: `SELECT ... FROM sales.edits JOIN ...`.

        Raises
        ------
        MissingPackageError
            Without `duckdb`.
        ProjsegError
            As of `table`.
        """
        require("duckdb", "Catalog.duckdb")
        # Imported here: most users of a catalog ask in Spark's SQL.
        from projseg.doors.duckdb_tables import DuckDBTables

        found = [self.table(name).definition.full_name for name in names]
        return DuckDBTables({(*name,): partial(self.table, name) for name in found}, connection)
