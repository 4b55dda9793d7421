"""`duckdb`: tables in a connection of DuckDB, whose groups are answered from projections."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from projseg.doors.duckdb_scope import (
    DifferentMeaningError,
    Session,
    argument_family,
    folded,
)
from projseg.doors.duckdb_select import GroupedSelect, quoted_name
from projseg.doors.duckdb_statement import (
    FoundSelect,
    Statement,
    read_statement,
    values_by_name,
)
from projseg.errors import InvalidInputError, ProjsegError
from projseg.extras import require
from projseg.memory.door import through
from projseg.table.sql import sql
from projseg.table.table_state import check_max_age
from projseg.table.table_version import TableVersion, current_version

if TYPE_CHECKING:
    from projseg.table import Table

Arguments = Sequence[Any] | Mapping[str, Any]
_KEPT: Final = 256  # statements of which it is known how they are answered
_SETTINGS: Final = (
    "timezone", "default_null_order", "null_order", "default_order", "default_collation",
    "arrow_large_buffer_size", "arrow_lossless_conversion", "arrow_output_version",
    "produce_arrow_string_view",
)  # fmt: skip
"""What decides the meaning of a statement, and the types of its answer."""
_UTC: Final = ("utc", "etc/utc")
_EXPLAINED: Final = pa.schema(
    [
        ("table", pa.string()),
        ("answered", pa.string()),
        ("statement", pa.string()),
        ("columns", pa.string()),
        ("filter", pa.string()),
        ("sources", pa.map_(pa.string(), pa.int64())),
        ("reason", pa.string()),
    ]
)


class _Replaced(NamedTuple):
    """A SELECT that a question answers, with DuckDB's types of the question's outputs.

    `text` is the SELECT over the answer that stands in its place.
    """

    found: FoundSelect
    grouped: GroupedSelect
    types: list[str]
    text: str


class _Prepared(NamedTuple):
    """A statement and its SELECTs that questions answer.

    `schema` is what the answer of the only question is cast to, if that is the statement's.
    """

    statement: Statement
    replaced: tuple[_Replaced, ...]
    schema: pa.Schema | None


class DuckDBTables:
    """Tables in a connection of DuckDB; `projseg.duckdb` and `Catalog.duckdb` return it.

    Attributes that are not listed here are the connection's, such as `execute` and `close`.
    Statements that use them see the tables at the versions that were the newest when the attribute
    was read.

    Parameters
    ----------
    opened : mapping of (str or None, str) to function
        By schema and name, a function that returns the version of the table to query now.
    connection : duckdb.DuckDBPyConnection or None
        The connection in which the tables are registered; None means a new one.
    """

    def __init__(
        self,
        opened: Mapping[tuple[str | None, str], Callable[[], TableVersion]],
        connection: Any = None,
    ) -> None:
        require("duckdb", "projseg.duckdb")
        import duckdb as engine

        self._connection = connection or engine.connect()
        self._is_shared = connection is not None  # somebody else may change its settings
        self._session: dict[str, Any] | None = None  # its settings, if they are known
        self._opened = {
            ".".join(folded(part) for part in name if part is not None): (name, newest)
            for name, newest in opened.items()
        }
        if len(self._opened) < len(opened):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"two of the names {list(opened)} differ only in case"
            )
        self._lock = RLock()
        self._versions: dict[str, TableVersion] = {}
        self._prepared_by_text: dict[Any, _Prepared | DifferentMeaningError] = {}
        known = {str(one[0]).lower() for one in self._rows("SELECT name FROM duckdb_settings()")}
        self._settings = tuple(name for name in _SETTINGS if name in known)
        self._look()

    @property
    def connection(self) -> Any:
        """The connection of DuckDB; statements that use it directly read rows."""
        self._is_shared = True
        return self._connection

    def sql(self, text: str, args: Arguments | None = None) -> pa.Table:
        """Return the answer of a statement in DuckDB's SQL, with DuckDB's types and meaning.

        A SELECT in the statement that groups rows of these tables, or adds them up, is answered
        from projections where all its expressions have the same meaning in both engines. DuckDB
        does the rest, over these answers and over rows of the columns that it needs. One statement
        sees one version of each table.

        Parameters
        ----------
        text : str
            A statement.
        args : sequence of values, mapping of str to value, or None
            The values for `?`, `$1` or `$name`.

        Returns
        -------
        pa.Table
            The rows; a statement without rows gives an empty table.

        Raises
        ------
        ProjsegError
            If a table's newest version cannot be read. All other errors are DuckDB's; if rows
            cannot be read, DuckDB's error has the text of projseg's.
        """
        with through("duckdb"):
            return self._answered(text, args)

    def _answered(self, text: str, args: Arguments | None) -> pa.Table:
        values = values_by_name(args or ())
        with self._lock:
            versions = self._look()
            prepared = self._prepared(text, args or (), versions)
            if isinstance(prepared, DifferentMeaningError) or not prepared.replaced:
                return self._own(text, args)
            if prepared.schema is None:
                return self._over_answers(prepared, values, versions) or self._own(text, args)
        try:
            answer = _group_answer(prepared.replaced[0].grouped, values, versions)
            columns = zip(answer.columns, prepared.schema, strict=False)
            cast = [column.cast(field.type) for column, field in columns]
            return pa.Table.from_arrays(cast, schema=prepared.schema)
        except (ProjsegError, pa.ArrowInvalid):
            # An overflow, or too many groups: DuckDB has an answer, or an error of its own.
            return self._own(text, args)

    def explain(self, text: str, args: Arguments | None = None) -> pa.Table:
        """Return how each table of a statement is read, without an answer.

        Parameters
        ----------
        text, args
            As in `sql`.

        Returns
        -------
        pa.Table
            A row for each table of each SELECT: table, answered (`groups`: from projections where
            they fit; `rows`: DuckDB reads rows), statement (the question that is asked), sources
            (of the question, with how often each is read), columns and filter (that DuckDB hands
            over; where one table is read by rows), reason (why no question is asked).

        Raises
        ------
        ProjsegError
            What `sql` raises.
        """
        with self._lock:
            versions = self._look()
            prepared = self._prepared(text, args or (), versions)
            if isinstance(prepared, DifferentMeaningError):
                words = text.lower()
                named = [key for key in self._opened if key.rpartition(".")[2].lower() in words]
                found = [_read_row(key, str(prepared)) for key in named]
            else:
                values = values_by_name(args or ())
                found = [
                    row
                    for one in prepared.statement.selects
                    for row in _explained(one, values, versions)
                ]
            handed = self._handed_over(text, args)
        by_rows = [row for row in found if row["answered"] == "rows"]
        if len(by_rows) == 1 and len(handed) == 1 and len(found) == 1:
            by_rows[0] |= handed[0]
        return pa.Table.from_pylist(found, _EXPLAINED)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        with self._lock:
            self._look()
            self._is_shared = True
        return getattr(self._connection, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._connection)})

    # ---- versions

    def _look(self) -> dict[str, TableVersion]:
        """Register the tables whose version is not the newest, and return all."""
        for key, (name, newest) in self._opened.items():
            version, known = newest(), self._versions.get(key)
            if known is not None and _is_same(version, known):
                continue
            schema, own = name
            if schema is None:
                self._connection.register(own, version.dataset())
            else:
                hidden = f"projseg {key}"
                self._connection.register(hidden, version.dataset())
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted_name(schema)}")
                view = f"{quoted_name(schema)}.{quoted_name(own)}"
                self._connection.execute(
                    f"CREATE OR REPLACE VIEW {view} AS FROM {quoted_name(hidden)}"
                )
            self._versions[key] = version
        return dict(self._versions)

    # ---- statements

    def _prepared(
        self, text: str, arguments: Arguments, versions: Mapping[str, TableVersion]
    ) -> _Prepared | DifferentMeaningError:
        """Return how a statement is answered; the reason if nothing of it is by questions."""
        if self._session is None or self._is_shared:
            asked = ", ".join(f"current_setting('{name}')" for name in self._settings)
            self._session = dict(zip(self._settings, self._rows(f"SELECT {asked}")[0], strict=True))
        settings = self._session
        schemas = {key: version.schema for key, version in versions.items()}
        values = values_by_name(arguments)
        families = tuple((name, argument_family(value)) for name, value in values.items())
        key = (
            text, isinstance(arguments, Mapping), families, tuple(settings.values()),
            tuple(schemas.values()),
        )  # fmt: skip
        if key not in self._prepared_by_text:
            if len(self._prepared_by_text) >= _KEPT:
                self._prepared_by_text.clear()
            try:
                found = self._newly_prepared(text, arguments, schemas, settings)
            except DifferentMeaningError as error:
                found = error
            self._prepared_by_text[key] = found
        return self._prepared_by_text[key]

    def _newly_prepared(
        self,
        text: str,
        arguments: Arguments,
        schemas: Mapping[str, pa.Schema],
        settings: Mapping[str, Any],
    ) -> _Prepared | DifferentMeaningError:
        import duckdb as engine

        if settings["default_collation"]:
            raise DifferentMeaningError("the session has a default collation")
        session = Session(
            {},
            is_utc=str(settings["timezone"]).lower() in _UTC,
            has_usual_order=str(settings["default_null_order"]).upper() == "NULLS_LAST"
            and str(settings["default_order"]).upper().startswith("ASC"),
        )
        statement = read_statement(text, arguments, schemas, session)
        values = values_by_name(arguments)
        try:
            replaced = tuple(
                self._replacement(place, one, one.grouped, values)
                for place, one in enumerate(statement.selects)
                if one.grouped is not None
            )
            schema = None
            if statement.is_one_select and replaced and replaced[0].grouped.outer is None:
                empty = replaced[0].text.replace(_answer_name(0), _nothing(replaced[0].types))
                schema = self._connection.sql(f"{empty} LIMIT 0").to_arrow_table().schema
        except engine.Error as error:
            # A statement that DuckDB refuses: it says so itself.
            raise DifferentMeaningError(str(error)[:200]) from error
        return _Prepared(statement, replaced, schema)

    def _replacement(
        self, place: int, found: FoundSelect, grouped: GroupedSelect, values: Mapping[str, Any]
    ) -> _Replaced:
        """Return the SELECT over an answer that stands in a statement's place."""
        names = [row[0] for row in self._described(found.text, values)]
        types = [row[1] for row in self._described(grouped.typed, values)]
        cast = ", ".join(f"CAST(__{n} AS {kind}) AS __{n}" for n, kind in enumerate(types))
        groups = f"(SELECT {cast} FROM {_answer_name(place)})"
        outputs, behind = grouped.outer or (
            tuple(f"__{n}" for n in range(grouped.width)),
            "",
        )
        listed = ", ".join(
            f"{output} AS {quoted_name(name)}" for output, name in zip(outputs, names, strict=True)
        )
        distinct = "DISTINCT " if grouped.is_distinct else ""
        return _Replaced(
            found, grouped, types, f"SELECT {distinct}{listed} FROM {groups} AS __{behind}"
        )

    def _over_answers(
        self, prepared: _Prepared, values: Mapping[str, Any], versions: Mapping[str, TableVersion]
    ) -> pa.Table | None:
        """Return DuckDB's result over answers; None if it or a question has none."""
        import duckdb as engine

        text, done, pieces, registered = prepared.statement.text, 0, [], []
        try:
            for place, one in enumerate(prepared.replaced):
                name = _answer_name(place)[1:-1]
                self._connection.register(name, _group_answer(one.grouped, values, versions))
                registered.append(name)
                pieces.append(f"{text[done : one.found.start]}{one.text}")
                done = one.found.end
            whole = "".join([*pieces, text[done:]])
            return self._own(whole, _used(whole, values))
        except (ProjsegError, engine.Error):
            return None
        finally:
            for name in registered:
                self._connection.unregister(name)

    def _own(self, text: str, arguments: Arguments | None) -> pa.Table:
        """Return DuckDB's answer."""
        with self._lock:
            self._session = None  # the statement may be a SET
            found = self._connection.sql(text, params=arguments or None)
            return pa.table({}) if found is None else found.to_arrow_table()

    def _described(self, text: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._rows(f"DESCRIBE {text}", _used(text, values))

    def _rows(self, text: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(text, values or None).fetchall()
        return found

    def _handed_over(self, text: str, arguments: Arguments | None) -> list[dict[str, str | None]]:
        """Return the columns and the filter of each scan of Arrow's data in DuckDB's plan."""
        import duckdb as engine

        try:
            plan = self._connection.execute(f"EXPLAIN (FORMAT json) {text}", arguments or None)
            waiting = json.loads(plan.fetchall()[0][1])
        except (engine.Error, ValueError, IndexError):
            return []
        scans = []
        while waiting:
            one = waiting.pop()
            waiting += one["children"]
            if "ARROW_SCAN" in one["name"]:
                extra = one["extra_info"]
                columns, condition = extra.get("Projections"), extra.get("Filters")
                scans.append(
                    {"columns": _joined(columns, ", "), "filter": _joined(condition, " AND ")}
                )
        return scans


def duckdb(
    tables: Mapping[str, Table] | Table, connection: Any = None, max_age: float | None = None
) -> DuckDBTables:
    """Return a connection of DuckDB in which tables stand under their names.

    Its `sql` answers groups from projections; see `DuckDBTables.sql`.

    Parameters
    ----------
    tables : mapping of str to Table, or Table
        The tables by their names; `schema.name` is a view in that schema. A table alone has the
        name of its folder.
    connection : duckdb.DuckDBPyConnection or None
        The connection in which the tables are registered; None means a new one.
    max_age : float or None
        If the last look is longer ago than this number of seconds, a statement first looks for
        newer versions. None means the `max_age` with which each table was opened.

    Returns
    -------
    DuckDBTables
        With `sql`, `explain` and `connection`.

    Raises
    ------
    MissingPackageError
        PROJSEG_MISSING_PACKAGE without DuckDB.
    InvalidInputError
        PROJSEG_BAD_ARGUMENT if a value is no table, or two names differ only in case.
    """
    check_max_age(max_age)
    named = tables if isinstance(tables, Mapping) else {_folder(tables): tables}
    opened: dict[tuple[str | None, str], Callable[[], TableVersion]] = {}
    for name, table in named.items():
        if not isinstance(table, TableVersion):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"'{name}' is {table!r:.100}; give a projseg Table"
            )
        schema, dot, own = name.partition(".")
        parts = (schema, own) if dot else (None, name)
        opened[parts] = partial(current_version, table, max_age)
    return DuckDBTables(opened, connection)


def _group_answer(
    grouped: GroupedSelect, values: Mapping[str, Any], versions: Mapping[str, TableVersion]
) -> pa.Table:
    """Return the answer of a question."""
    found: pa.Table = _question(grouped, values, versions)()
    return found


def _question(
    grouped: GroupedSelect, values: Mapping[str, Any], versions: Mapping[str, TableVersion]
) -> Any:
    """Return the function that answers a question, or explains it."""
    tables = {name: versions[key] for name, key in grouped.tables.items()}
    given = {name: values[name] for name in grouped.arguments} or None
    if len(tables) == 1:  # the table itself plans a question of other values as before
        return partial(next(iter(tables.values())).sql, grouped.question, args=given)
    return partial(sql, grouped.question, tables, args=given)


def _explained(
    found: FoundSelect, values: Mapping[str, Any], versions: Mapping[str, TableVersion]
) -> list[dict[str, Any]]:
    """Return a row for each table that a SELECT names."""
    grouped = found.grouped
    if grouped is None:
        return [_read_row(key, found.reason) for key in found.tables]
    try:
        plan = _question(grouped, values, versions)(explain=True)
    except ProjsegError as error:
        return [_read_row(key, error.message) for key in found.tables]
    about = {"answered": "groups", "statement": grouped.question, "sources": plan.sources}
    return [{"table": key} | about for key in dict.fromkeys(grouped.tables.values())]


def _read_row(key: str, reason: str) -> dict[str, Any]:
    return {"table": key, "answered": "rows", "reason": reason}


def _used(text: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of the parameters that a text has; DuckDB refuses others."""
    names = set(re.findall(r"\$(\w+)", text))
    return {name: value for name, value in values.items() if name in names} or None


def _answer_name(place: int) -> str:
    return f'"projseg answer {place}"'


def _joined(texts: list[str] | str | None, between: str) -> str | None:
    return between.join(texts) if isinstance(texts, list) else texts


def _nothing(types: Sequence[str]) -> str:
    """Return a SELECT of one row of nulls in an answer's types, for DuckDB to learn them from."""
    nulls = (f"CAST(NULL AS {kind}) AS __{n}" for n, kind in enumerate(types))
    return f"(SELECT {', '.join(nulls)})"


def _is_same(one: TableVersion, other: TableVersion) -> bool:
    """Whether two objects are one version of a table with the same columns."""
    files = (one.snapshot.file.write_id, other.snapshot.file.write_id)
    is_same_place = one.location == other.location and one.version == other.version
    return is_same_place and files[0] == files[1] and one.schema == other.schema


def _folder(table: Any) -> str:
    """Return the name of a table's folder."""
    location = str(getattr(table, "location", "t"))
    return location.rstrip("/").rpartition("/")[2]
