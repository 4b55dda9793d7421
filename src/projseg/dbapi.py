"""Tables by Python's interface of databases (PEP 249); read-only.

`connect(place)` opens a table, a folder of tables or a catalog. Errors are the classes of the
interface, with our `code`; an answer is also there as Arrow (`Cursor.fetch_arrow_table`).
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
from sqlglot import tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.errors import (
    CatalogUnavailableError,
    CorruptionError,
    EvaluationError,
    InvalidInputError,
    LimitExceededError,
    PermissionDeniedError,
    ProjsegError,
    QueryTimeoutError,
    StorageError,
    UnsupportedFeatureError,
)
from projseg.memory.door import through
from projseg.table import Table, is_table
from projseg.table.sql import sql
from projseg.table.table_version import current_version, state_of

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog

apilevel = "2.0"
threadsafety = 2
paramstyle = "named"

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # the interface names it
    """Return the local date of a time in seconds."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of a time in seconds."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Return the local date and time of a time in seconds."""
    return Timestamp(*time.localtime(ticks)[:6])


class Warning(Exception):  # the interface names it
    """Never raised by projseg."""


class Error(Exception):
    """Base of the interface's errors.

    Parameters
    ----------
    message : str
        What was asked, what was found and what to do.
    code : str or None
        The code of a ProjsegError.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class InterfaceError(Error):
    """A connection or a cursor is used against the interface."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value of the rows cannot be computed."""


class OperationalError(DatabaseError):
    """Files cannot be read, or a limit is passed."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class InternalError(DatabaseError):
    """A part was called against its contract."""


class ProgrammingError(DatabaseError):
    """A statement or a name is wrong."""


class NotSupportedError(DatabaseError):
    """A statement needs a feature that is not supported."""


class _TypeObject:
    """Types of a description that are alike."""

    def __init__(self, *tests: Callable[[pa.DataType], bool]) -> None:
        self._tests = tests

    def __eq__(self, other: object) -> bool:
        if isinstance(other, pa.DataType):
            return any(test(other) for test in self._tests)
        return self is other

    def __hash__(self) -> int:
        return id(self)


STRING = _TypeObject(pa.types.is_string, pa.types.is_large_string)
BINARY = _TypeObject(pa.types.is_binary, pa.types.is_large_binary)
NUMBER = _TypeObject(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
DATETIME = _TypeObject(pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
ROWID = _TypeObject()

_CLASSES: Final[tuple[tuple[type[ProjsegError], type[DatabaseError]], ...]] = (
    (UnsupportedFeatureError, NotSupportedError),
    (InvalidInputError, ProgrammingError),
    (EvaluationError, DataError),
    (StorageError, OperationalError),
    (CorruptionError, OperationalError),
    (LimitExceededError, OperationalError),
    (QueryTimeoutError, OperationalError),
    (CatalogUnavailableError, OperationalError),
    (PermissionDeniedError, OperationalError),
)
_FETCHED: Final = 10_000  # rows that become Python's values at once


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise the interface's classes for ours."""
    try:
        yield
    except ProjsegError as error:
        kind = next((own for ours, own in _CLASSES if isinstance(error, ours)), DatabaseError)
        raise kind(str(error), error.code) from error


class Cursor:
    """Runs one statement at a time, and returns its rows; made by `Connection.cursor`.

    Parameters
    ----------
    connection : Connection
        The connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._is_closed = False
        self._table: pa.Table | None = None
        self._place = 0
        self._rows: list[tuple[Any, ...]] = []
        self._rows_start = 0

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Name and type (an Arrow type, equal to `NUMBER` and so on) of each output."""
        if self._table is None:
            return None
        return [(one.name, one.type, None, None, None, None, None) for one in self._table.schema]

    @property
    def rowcount(self) -> int:
        """The number of rows of the answer; -1 before there is one."""
        return -1 if self._table is None else int(self._table.num_rows)

    def execute(
        self, operation: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> Self:
        """Ask a statement, and return this cursor.

        Parameters
        ----------
        operation : str
            A SELECT, or another statement that `projseg.sql` takes.
        parameters : mapping of str to value, sequence of values, or None
            The values for `:name`, or for `?`.
        """
        self._check()
        with _own_errors(), through("dbapi"):
            connection = self.connection
            self._table = connection._rows(operation, parameters or None)  # noqa: SLF001
        self._place, self._rows = 0, []
        return self

    def executemany(self, operation: str, seq_of_parameters: Any) -> None:
        """Refuse: it would repeat a statement that changes rows, and nothing is written."""
        raise NotSupportedError("executemany: tables are read-only here; ask by execute")

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last one."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return at most `size` further rows; None means `arraysize`."""
        table = self._answer()
        end = min(self._place + (self.arraysize if size is None else size), table.num_rows)
        found: list[tuple[Any, ...]] = []
        while self._place < end:
            if not self._rows or self._place >= self._rows_start + len(self._rows):
                part = table.slice(self._place, _FETCHED)
                values = [column.to_pylist() for column in part.columns]
                self._rows_start = self._place
                self._rows = list(zip(*values, strict=True)) or [()] * part.num_rows
            first = self._place - self._rows_start
            taken = self._rows[first : first + end - self._place]
            found += taken
            self._place += len(taken)
        return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the remaining rows."""
        return self.fetchmany(self._answer().num_rows)

    def fetch_arrow_table(self) -> pa.Table:
        """Return all rows of the answer as an Arrow table."""
        return self._answer()

    def close(self) -> None:
        """Close the cursor and release the answer."""
        self._is_closed, self._table, self._rows = True, None, []

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing: values already have types."""

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """Do nothing: values are never cut."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        self.connection._check()  # noqa: SLF001 - of this module's class
        if self._is_closed:
            raise InterfaceError("the cursor is closed; make another by connection.cursor()")

    def _answer(self) -> pa.Table:
        self._check()
        if self._table is None:
            raise InterfaceError("the cursor has no answer; call execute first")
        return self._table


class Connection:
    """Tables to query; made by `connect`. Each statement sees the tables' newest versions.

    Parameters
    ----------
    tables : mapping of str to Table, or Catalog
        The tables by their names.
    engine : str
        projseg or duckdb.
    """

    def __init__(self, tables: Mapping[str, Table] | Catalog, engine: str) -> None:
        self._tables, self._is_closed = tables, False
        self._engine = _in_duckdb(tables) if engine == "duckdb" else None

    @property
    def tables(self) -> dict[tuple[str, str], pa.Schema]:
        """The columns of each table, by schema (`default` in a folder) and name."""
        self._check()
        with _own_errors():
            if isinstance(self._tables, Mapping):
                found = self._tables.items()
                return {("default", name): state_of(one).current().schema for name, one in found}
            names = [one.full_name for one in self._tables.tables(type="table")]
            return {(name[0], name[1]): self._tables.table(name).schema for name in names}

    @property
    def schemas(self) -> list[str]:
        """The names of schemas."""
        self._check()
        with _own_errors():
            return ["default"] if isinstance(self._tables, Mapping) else self._tables.namespaces()

    def cursor(self) -> Cursor:
        """Return a cursor."""
        self._check()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: nothing is written."""
        self._check()

    def rollback(self) -> None:
        """Do nothing: nothing is written."""
        self._check()

    def close(self) -> None:
        """Close the connection and its cursors."""
        self._is_closed = True
        if self._engine is not None:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._is_closed:
            raise InterfaceError("the connection is closed; open another by connect()")

    def _rows(self, text: str, parameters: Mapping[str, Any] | Sequence[Any] | None) -> pa.Table:
        if self._engine is not None:
            return _of_duckdb(self._engine, text, parameters)
        if isinstance(self._tables, Mapping):
            tables = {name: current_version(one) for name, one in self._tables.items()}
            return sql(text, tables, args=parameters)
        return self._tables.sql(text, args=parameters)


def connect(
    place: str | os.PathLike[str] | Catalog,
    *,
    tables: Sequence[str] | None = None,
    engine: str = "projseg",
    max_age: float = 0,
) -> Connection:
    """Open a table, a folder of tables or a catalog for reading.

    Parameters
    ----------
    place : str, path or Catalog
        The table, folder or catalog. A table gets the name of its folder; of a folder, all its
        tables are opened.
    tables : sequence of str or None
        The tables of a folder, and their names; None means all tables that are there now.
    engine : str
        `projseg`, for Spark's SQL, or `duckdb`, for DuckDB's with answers from projections: one
        SELECT at a time, in UTC, without access to files.
    max_age : float
        Seconds for which a table's version may be used before a statement looks for a newer one.

    Returns
    -------
    Connection
        The connection, which threads may share.

    Raises
    ------
    Error
        A class of this module, for a ProjsegError.
    """
    if engine not in ("projseg", "duckdb"):
        raise InterfaceError(f"engine is 'projseg' or 'duckdb', not {engine!r}")
    with _own_errors():
        if isinstance(place, str | os.PathLike):
            return Connection(_tables_in(os.fspath(place), tables, max_age), engine)
        return Connection(place, engine)


def _tables_in(place: str, names: Sequence[str] | None, max_age: float) -> dict[str, Table]:
    if names is None and is_table(place):
        return {place.rstrip("/").rpartition("/")[2]: Table(place, max_age=max_age)}
    if names is None:
        folder = Path(place)
        inner = sorted(folder.iterdir()) if folder.is_dir() else []
        names = [one.name for one in inner if is_table(one)]
        if not names:
            raise InvalidInputError(
                "PROJSEG_NOT_A_TABLE", f"{place} is no table, and no folder that has one"
            )
    return {name: Table(f"{place.rstrip('/')}/{name}", max_age=max_age) for name in names}


def _in_duckdb(tables: Mapping[str, Table] | Catalog) -> Any:
    """Return tables in a connection of DuckDB that reads nothing else."""
    from projseg.doors.duckdb_tables import duckdb

    if isinstance(tables, Mapping):
        opened = duckdb(tables)
    else:
        opened = tables.duckdb([one.full_name for one in tables.tables(type="table")])
    for setting in (
        "TimeZone = 'UTC'",
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        opened.connection.execute(f"SET {setting}")
    return opened


def _of_duckdb(
    engine: Any, text: str, parameters: Mapping[str, Any] | Sequence[Any] | None
) -> pa.Table:
    import duckdb

    try:
        if isinstance(parameters, Mapping):
            text = _with_dollars(text, parameters)
        kinds = [str(one.type).rpartition(".")[2] for one in engine.extract_statements(text)]
        if kinds != ["SELECT"]:
            raise NotSupportedError(
                f"a statement is one SELECT, found {', '.join(kinds) or 'none'}: tables are "
                "read-only here"
            )
        return engine.sql(text, parameters)
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        raise ProgrammingError(str(error)) from error
    except duckdb.DataError as error:
        raise DataError(str(error)) from error
    except duckdb.NotSupportedError as error:
        raise NotSupportedError(str(error)) from error
    except duckdb.Error as error:
        raise OperationalError(str(error)) from error


def _with_dollars(text: str, parameters: Mapping[str, Any]) -> str:
    """Return a statement with `$name` for each `:name` that a parameter is called."""
    try:
        tokens = tokenize(text, read="duckdb")
    except SqlglotError:
        return text  # DuckDB says what is wrong
    pieces, done = [], 0
    for token, after in pairwise(tokens):
        if token.token_type == TokenType.COLON and after.text in parameters:
            pieces.append(f"{text[done : token.start]}$")
            done = token.end + 1
    return "".join([*pieces, text[done:]])
