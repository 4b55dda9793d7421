"""SQLAlchemy's dialect: `projseg:///folder`, `projseg+catalog:///catalog.db`; read-only.

`?engine=duckdb` sends statements in DuckDB's SQL. An address of a file has three slashes for a
relative path and four for an absolute one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import types
from sqlalchemy.engine import default
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.compiler import GenericTypeCompiler, IdentifierPreparer

_KINDS: Final[tuple[tuple[Callable[[pa.DataType], bool], Any], ...]] = (
    (pa.types.is_boolean, types.Boolean()),
    (pa.types.is_int64, types.BigInteger()),
    (pa.types.is_integer, types.Integer()),
    (pa.types.is_floating, types.Float()),
    (pa.types.is_string, types.String()),
    (pa.types.is_binary, types.LargeBinary()),
    (pa.types.is_date, types.Date()),
    (pa.types.is_timestamp, types.TIMESTAMP(timezone=True)),
)


class _SparkTypes(GenericTypeCompiler):
    """Names of types in a CAST, as Spark's SQL has them."""

    def visit_VARCHAR(self, type_: Any, **words: Any) -> str:
        return "STRING"

    visit_TEXT = visit_CHAR = visit_NVARCHAR = visit_CLOB = visit_VARCHAR

    def visit_FLOAT(self, type_: Any, **words: Any) -> str:
        return "DOUBLE"

    def visit_DATETIME(self, type_: Any, **words: Any) -> str:
        return "TIMESTAMP"


class ProjsegDialect(default.DefaultDialect):
    """Tables of a folder, or of a catalog, to be read through SQLAlchemy."""

    name = "projseg"
    driver = "dbapi"
    default_schema_name = "default"
    default_paramstyle = "named"
    type_compiler_cls = _SparkTypes
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_alter = False
    supports_sane_rowcount = False
    insert_returning = False
    postfetch_lastrowid = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module that connects."""
        from projseg import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return what `projseg.dbapi.connect` is called with."""
        words = dict(url.query)
        if words.get("engine") == "duckdb":
            self.identifier_preparer = IdentifierPreparer(self)
            self.type_compiler_instance = GenericTypeCompiler(self)
        else:
            self.identifier_preparer = IdentifierPreparer(self, initial_quote="`", escape_quote="`")
        if "max_age" in words:
            words["max_age"] = float(words["max_age"])  # type: ignore[assignment,arg-type]
        return [self._place(url)], words

    def _place(self, url: URL) -> Any:
        return url.database or "."

    def initialize(self, connection: Any) -> None:
        """Ask nothing: a table is read by what its manifest says."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether a connection is open."""
        dbapi_connection.cursor()
        return True

    def get_schema_names(self, connection: Any, **words: Any) -> list[str]:
        """Return the names of schemas."""
        return list(_own(connection).schemas)

    def get_table_names(
        self,
        connection: Any,
        schema: str | None = None,
        **words: Any,
    ) -> list[str]:
        """Return the names of tables in a schema."""
        wanted = schema or self.default_schema_name
        return [name for space, name in _own(connection).tables if space == wanted]

    def get_view_names(self, connection: Any, schema: str | None = None, **words: Any) -> list[str]:
        """Return nothing: there are no views."""
        return []

    def has_table(
        self,
        connection: Any,
        table_name: str,
        schema: str | None = None,
        **words: Any,
    ) -> bool:
        """Whether there is a table of a name."""
        return table_name in self.get_table_names(connection, schema)

    def get_columns(
        self,
        connection: Any,
        table_name: str,
        schema: str | None = None,
        **words: Any,
    ) -> list[Any]:
        """Return the columns of a table."""
        tables: Mapping[tuple[str, str], pa.Schema] = _own(connection).tables
        found = tables.get((schema or self.default_schema_name, table_name))
        if found is None:
            raise NoSuchTableError(table_name)
        return [
            {"name": one.name, "type": _type_of(one.type), "nullable": True, "default": None}
            for one in found
        ]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **words: Any
    ) -> Any:
        """Return no key: rows have none."""
        return {"constrained_columns": [], "name": None}

    def _none(
        self, connection: Any, table_name: str, schema: str | None = None, **words: Any
    ) -> Any:
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _none

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **words: Any
    ) -> Any:
        """Return no comment."""
        return {"text": None}


class CatalogDialect(ProjsegDialect):
    """Tables of a catalog in a SQLite file, or behind a server."""

    driver = "catalog"
    supports_statement_cache = True

    def _place(self, url: URL) -> Any:
        from projseg.catalog.catalog import Catalog

        if url.host is None:
            return Catalog(url.database)
        port = "" if url.port is None else f":{url.port}"
        return Catalog(f"http://{url.host}{port}/{url.database or ''}", token=url.password)


def _own(connection: Any) -> Any:
    """Return our connection below SQLAlchemy's."""
    return connection.connection.dbapi_connection


def _type_of(kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return types.Numeric(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return types.TIMESTAMP()
    return next((own for test, own in _KINDS if test(kind)), types.NullType())
