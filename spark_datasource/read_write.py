"""The functions for Spark users: `projseg.register`, `projseg.read` and `projseg.write`.

Only public DataFrame methods are used, so the same calls work over Spark Connect.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final, Unpack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql_functions

from projseg.algebra.aggregates.group_by import has_grouping_sets
from projseg.algebra.aggregates.parse_aggregate import bind_aggregate
from projseg.algebra.aggregates.state_columns import MergeableAggregate, mergeable
from projseg.algebra.expressions.sql_parameters import bound_to
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.query.query_parts import QueryParts, query_of, with_query_parts
from projseg.algebra.query.request import Expressions, Query, arguments_of, with_named_parameters
from projseg.declarations import Index, Projection, ProjectionLike, declaration_of
from projseg.errors import InvalidInputError, ProjsegError, did_you_mean
from projseg.maintenance.spark_errors import error_of
from projseg.spark_datasource.datasource import ProjsegDataSource
from projseg.spark_datasource.option_table import OPTIONS
from projseg.spark_datasource.options import STORAGE_PREFIX
from projseg.spark_datasource.schemas import SESSION_ZONE, stored_schema
from projseg.table_layer.storage.store_location import StorageOptions, StorageOptionsLike

LocationLike = str | os.PathLike[str]

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


@with_query_parts
def read(
    spark: SparkSession,
    location: LocationLike,
    *,
    group_by: Expressions | Query = (),
    aggregators: Expressions = (),
    filter: str | None = None,
    granularity: str | None = None,
    version: int | None = None,
    storage_options: StorageOptionsLike | None = None,
    **parts: Unpack[QueryParts],
) -> DataFrame:
    """Return a query's final rows as a DataFrame whose work Spark divides among its tasks.

    Each task answers for its segments, from projections where they fit, and Spark merges: sums of
    sums, unions of sketches. An aggregate whose states Spark cannot merge exactly, such as
    `count(DISTINCT x)`, makes one task answer the whole query; so do HAVING, ORDER BY and LIMIT.

    Parameters
    ----------
    spark : SparkSession
        The session.
    location : str or path
        The table.
    group_by, aggregators, filter
        As in `Table.query`; `group_by` may be the whole `Query`. Without `group_by`, `aggregators`
        and `granularity`, the rows of the table are returned.
    interval, having, order_by, limit, columns, context, args, joins
        As in `Table.query`; the context's `timezone` is the session's zone unless given.
    granularity : str or None
        The granularity by which time is grouped first, as the option `granularity` does.
    version : int or None
        The table version; None means the newest.
    storage_options : mapping or None
        As in `Table`; the options are passed on as options `storage.<key>` of the read.

    Returns
    -------
    DataFrame
        The query's rows; nothing is read before Spark runs the query.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError
        If an aggregate is not understood. Other errors are raised when Spark plans the read.
    """
    query = query_of(
        group_by,
        aggregators=aggregators,
        filter=filter,
        granularity=granularity,
        **parts,
    )
    if query.query_context.timezone is None:
        query = query.in_zone(str(spark.conf.get(SESSION_ZONE)))
    load = partial(_load, spark, location, version, StorageOptions(storage_options))
    merging = None if query.is_row_scan else _merging(load, query)
    if merging is None:
        return load(query)
    return _merged(load(replace(query, aggregation="partial")), merging)


def write(
    df: DataFrame,
    location: LocationLike,
    mode: str = "error",
    storage_options: StorageOptionsLike | None = None,
    **options: Any,
) -> None:
    """Write a DataFrame to a table, which is created if it does not exist.

    Spark itself refuses the modes `error` and `ignore` for sources written in Python.

    Parameters
    ----------
    df : DataFrame
        The rows.
    location : str or path
        The table.
    mode : str
        What to do if there is a table: `error` refuses, `ignore` writes nothing, `append` adds the
        rows, `overwrite` replaces the table's rows.
    storage_options : mapping or None
        As in `Table`; the options are passed on as options `storage.<key>` of the write.
    **options
        The options of a write, in `camelCase` or `snake_case`; lists as they are, and projections
        as `Projection`, mapping or JSON, one or several. `timezone` is the session's unless given.

    Raises
    ------
    InvalidInputError
        PROJSEG_TABLE_EXISTS, PROJSEG_BAD_OPTION, PROJSEG_UNKNOWN_OPTION, PROJSEG_SCHEMA_MISMATCH.
    ProjsegError
        What `Table.append` and `Table.create` raise.
    """
    if mode not in _SAVE_MODES:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"mode '{mode}' is not one of {', '.join(_SAVE_MODES)}"
            + did_you_mean(mode, _SAVE_MODES),
        )
    if mode in ("error", "ignore"):
        # The writer decides this: only a commit can tell whether there is a table.
        options["ifExists"] = mode
        mode = "append"
    options = {"timezone": df.sparkSession.conf.get(SESSION_ZONE)} | options
    writer = df.write.format(ProjsegDataSource.name()).mode(mode)
    for given, value in options.items():
        name = _option_name(given)
        if value is not None:
            of_objects = name in ("projections", "indexes")
            text = _declarations_text(value) if of_objects else _option_text(value)
            writer = writer.option(name, text)
    writer = writer.options(**_stored_options(storage_options))
    _make_own_session(df.sparkSession)
    try:
        writer.save(os.fspath(location))
    except Exception as error:
        found = error_of(error)
        if found is None:
            raise
        raise found from error


def _make_own_session(session: SparkSession) -> None:
    """Make a session the calling thread's own: without one, a write cannot look up the format.

    Creating a DataFrame is the only public call that does it; one without rows runs no job.
    """
    session.createDataFrame([], "nothing int")


def _merging(load: Callable[[Query], DataFrame], query: Query) -> list[MergeableAggregate] | None:
    """Return how the states of each aggregate are merged, or None if tasks cannot share the query.

    A query that does not bind is left to one task: the source, which knows the whole table, answers
    it or says what is wrong with it.
    """
    if query.having or query.order_by or query.limit is not None:
        return None
    if has_grouping_sets(query.group_by):
        return None
    schema = stored_schema(load(Query()).schema)
    try:
        named = with_named_parameters(query)
        with bound_to(arguments_of(named)):
            calls = [
                bind_aggregate(text, schema, timezone=query.query_context.zone)
                for text in named.aggregators
            ]
        return [mergeable(call) for call in calls]
    except ProjsegError:
        return None


def _merged(partial: DataFrame, merging: list[MergeableAggregate]) -> DataFrame:
    """Return the groups of all tasks as one row each."""
    states = {state.name for one in merging for state in one.states}
    keys = [sql_functions.col(backquoted(name)) for name in partial.columns if name not in states]
    values = [sql_functions.expr(one.value).alias(one.name) for one in merging]
    if not values:
        return partial.select(*keys).distinct()
    return partial.groupBy(*keys).agg(*values)


def _load(
    spark: SparkSession,
    location: LocationLike,
    version: int | None,
    storage_options: StorageOptions,
    query: Query,
) -> DataFrame:
    reader = spark.read.format(ProjsegDataSource.name()).option("query", query.to_json())
    reader = reader.options(**_stored_options(storage_options))
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(os.fspath(location))


def _stored_options(given: StorageOptionsLike | None) -> dict[str, str]:
    """Return storage options under the names that Spark hands on."""
    return {STORAGE_PREFIX + key: value for key, value in StorageOptions(given).items()}


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


def _declarations_text(given: Any) -> str:
    """Return declarations of any form, one or several, as the JSON that the option takes."""
    if isinstance(given, str):
        return given
    many = [given] if isinstance(given, Projection | Index | Mapping) else given
    return json.dumps([_declaration_json(one) for one in many])


def _declaration_json(given: ProjectionLike | Index) -> Mapping[str, Any]:
    if isinstance(given, Index):
        return asdict(given)
    declaration = declaration_of(given)
    return asdict(declaration) if isinstance(declaration, Projection) else declaration
