"""What a Spark user calls: `projseg.register`, `projseg.read` and `projseg.write`.

Only public DataFrame methods are used, so the same calls work over Spark Connect.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql_functions

from projseg.algebra.aggregates.call import AggregateCall, bind_aggregate
from projseg.algebra.expressions.bind import split_list
from projseg.algebra.time.interval import Interval
from projseg.declarations import ProjectionDeclared, declaration_of
from projseg.errors import InvalidInputError, ProjsegError, did_you_mean
from projseg.projection import Projection
from projseg.spark_datasource.combining import PART_PREFIX, CombinedAggregate, combine
from projseg.spark_datasource.datasource import ProjsegDataSource
from projseg.spark_datasource.options import OPTIONS
from projseg.spark_datasource.schemas import stored_schema
from projseg.spark_datasource.session_zone import SESSION_ZONE
from projseg.spark_datasource.told_errors import told_error
from projseg.table_version import IntervalLike

Expressions = str | Sequence[str]
Location = str | os.PathLike[str]

_SAVE_MODES: Final = ("error", "ignore", "append", "overwrite")


def register(spark: SparkSession) -> None:
    """Make `format("projseg")` known to a session.

    An installed projseg is found without this; a session that was running when it was installed,
    or a machine where another `pyspark_*` package is broken, needs it.

    Parameters
    ----------
    spark : SparkSession
        The session.
    """
    spark.dataSource.register(ProjsegDataSource)


def read(
    spark: SparkSession,
    location: Location,
    *,
    group_by: Expressions = (),
    aggregators: Expressions = (),
    filter: str | None = None,
    interval: IntervalLike | None = None,
    columns: Expressions | None = None,
    granularity: str | None = None,
    context: Mapping[str, Any] | None = None,
    version: int | None = None,
) -> DataFrame:
    """Return a query's final rows as a DataFrame whose work Spark divides among its tasks.

    Each task answers for its segments, from projections where they fit, and Spark merges: sums of
    sums, unions of sketches. An aggregate that finished values cannot merge exactly, such as
    `count(DISTINCT x)`, makes one task answer the whole query.

    Parameters
    ----------
    spark : SparkSession
        The session.
    location : str or path
        The table.
    group_by, aggregators, filter, interval, columns
        As of `Table.query`. Neither `group_by` nor `aggregators` nor `granularity`: rows of the
        table.
    granularity : str or None
        Adds the floored time column first, as the option of that name.
    context : mapping or None
        As of `Table.query`; `timezone` is the session's unless given.
    version : int or None
        The table version; None: the newest.

    Returns
    -------
    DataFrame
        Nothing is read before Spark runs it.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError
        If an aggregate is not understood; what else is wrong is told when Spark plans the read.
    """
    asked: dict[str, Any] = {
        "groupBy": _listed(group_by),
        "filter": filter,
        "interval": _interval_text(interval),
        "columns": None if columns is None else _listed(columns),
        "granularity": granularity,
        "versionAsOf": version,
    }
    asked |= {"timezone": spark.conf.get(SESSION_ZONE)} | dict(context or {})
    texts = _listed(aggregators)
    is_row_scan = not (texts or asked["groupBy"] or granularity)
    if is_row_scan:
        return _load(spark, location, asked)
    rows = _load(spark, location, {"versionAsOf": version})
    combined = _combined(rows, texts, str(asked["timezone"]))
    if combined is None:
        return _load(spark, location, asked | {"aggregators": texts})
    parts = [part for _, split in combined for part in split.parts]
    partial = _load(
        spark, location, asked | {"aggregators": parts or None, "aggregation": "partial"}
    )
    return _merged(partial, combined)


def write(df: DataFrame, location: Location, mode: str = "error", **options: Any) -> None:
    """Write a DataFrame to a table, made if it is not there.

    Spark itself refuses the modes `error` and `ignore` for sources written in Python.

    Parameters
    ----------
    df : DataFrame
        The rows.
    location : str or path
        The table.
    mode : str
        `error`: refuse where there is a table; `ignore`: do nothing then; `append`; `overwrite`.
    **options
        The options of a write, in `camelCase` or `snake_case`; lists as they are, and projections
        as `Projection`, mapping or JSON, one or several. `timezone` is the session's unless given.

    Raises
    ------
    InvalidInputError
        PROJSEG_TABLE_EXISTS, PROJSEG_BAD_OPTION, PROJSEG_UNKNOWN_OPTION, PROJSEG_SCHEMA_MISMATCH.
    ProjsegError
        What else the writer refuses, as of `Table.append` and `Table.create`.
    """
    if mode not in _SAVE_MODES:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"mode '{mode}' is not one of {', '.join(_SAVE_MODES)}"
            + did_you_mean(mode, _SAVE_MODES),
        )
    if mode in ("error", "ignore"):
        # Left to the writer: only it sees the table, and only a commit can decide it for good.
        options["ifExists"] = mode
        mode = "append"
    options = {"timezone": df.sparkSession.conf.get(SESSION_ZONE)} | options
    writer = df.write.format(ProjsegDataSource.name()).mode(mode)
    for given, value in options.items():
        name = _option_name(given)
        if value is not None:
            text = _projections_text(value) if name == "projections" else _option_text(value)
            writer = writer.option(name, text)
    _make_own_session(df.sparkSession)
    try:
        writer.save(os.fspath(location))
    except Exception as error:
        told = told_error(str(error))
        if told is None:
            raise
        raise told from error


def _make_own_session(session: SparkSession) -> None:
    """Make a session the calling thread's: a write that runs without one looks no format up.

    Of all public calls only the making of a frame does so; that of no rows runs nothing.
    """
    session.createDataFrame([], "nothing int")


def _combined(
    rows: DataFrame, texts: Sequence[str], timezone: str
) -> list[tuple[AggregateCall, CombinedAggregate]] | None:
    """Return each aggregate with how it is divided, or None if one of them cannot be.

    A text that does not bind counts as one that cannot: the source, which knows the whole table,
    then answers it or says what is wrong with it.
    """
    schema = stored_schema(rows.schema)
    combined = []
    for index, text in enumerate(texts):
        try:
            call = bind_aggregate(text, schema, timezone=timezone)
        except ProjsegError:
            return None
        split = combine(call, index)
        if split is None:
            return None
        combined.append((call, split))
    return combined


def _merged(
    partial: DataFrame, combined: list[tuple[AggregateCall, CombinedAggregate]]
) -> DataFrame:
    """Return the groups of all tasks as one row each."""
    keys = [
        sql_functions.col(_quoted(name))
        for name in partial.columns
        if not name.startswith(PART_PREFIX)
    ]
    unions = [sql_functions.expr(split.union).alias(call.name) for call, split in combined]
    if not unions:
        return partial.select(*keys).distinct()
    return partial.groupBy(*keys).agg(*unions)


def _load(spark: SparkSession, location: Location, options: Mapping[str, Any]) -> DataFrame:
    reader = spark.read.format(ProjsegDataSource.name())
    for name, value in options.items():
        if value is not None and value != ():
            reader = reader.option(name, _option_text(value))
    return reader.load(os.fspath(location))


def _option_name(name: str) -> str:
    """Return an option's documented name, also for its `snake_case`."""
    by_folded = {option.name.lower(): option.name for option in OPTIONS}
    return by_folded.get(name.replace("_", "").lower(), name)


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return json.dumps(list(value))
    return str(value)


def _projections_text(given: ProjectionDeclared | Iterable[ProjectionDeclared]) -> str:
    """Return declarations of any form, one or several, as the JSON that the option takes."""
    if isinstance(given, str):
        return given
    many = [given] if isinstance(given, Projection | Mapping) else given
    return json.dumps([_declaration_json(one) for one in many])


def _declaration_json(given: ProjectionDeclared) -> Mapping[str, Any]:
    declaration = declaration_of(given)
    return asdict(declaration) if isinstance(declaration, Projection) else declaration


def _interval_text(interval: IntervalLike | None) -> str | None:
    if interval is None or isinstance(interval, str | Interval):
        return None if interval is None else str(interval)
    return "/".join(part if isinstance(part, str) else part.isoformat() for part in interval)


def _listed(texts: Expressions) -> tuple[str, ...]:
    return tuple(split_list(texts) if isinstance(texts, str) else texts)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
