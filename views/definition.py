"""From a SELECT, or dimensions and metrics, to what a view stores."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.call import call_text
from projseg.algebra.expressions.binding.bind import bind
from projseg.algebra.expressions.canonical import conjunction
from projseg.algebra.expressions.instant import may_depend_on_instant
from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.algebra.expressions.text.render import to_sql
from projseg.algebra.expressions.text.sql_words import quoted_name
from projseg.algebra.expressions.tree import Column
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.algebra.query.request import Query
from projseg.algebra.query.select_query import select_query
from projseg.algebra.query.select_statement import SelectStatement, parse_select
from projseg.algebra.query.time_bounds import split_time_bounds
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.interval import Interval
from projseg.errors import CorruptTableError, InvalidInputError, LimitExceededError, ProjsegError
from projseg.table_layer.columns.projection_names import (
    named_spec,
    stored_declaration,
    stored_spec,
)
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.views.view_records import GROUPS, VIEW_SQL_BYTES_MAX, ViewEntry

_RANDOM: Final = re.compile(
    r"\b(rand|random|randn|uuid|shuffle|randstr|monotonically_increasing_id|input_file_name"
    r"|spark_partition_id)\s*\(",
    re.IGNORECASE,
)
_NOW: Final = re.compile(
    r"\b(now|current_\w+|curdate|localtimestamp|unix_timestamp|today)\b", re.IGNORECASE
)


class Definition(msgspec.Struct, frozen=True):
    """What a view stores.

    Parameters
    ----------
    sql : str
        As written, or as dimensions and metrics mean.
    text, digest : str
        The canonical definition over stored names, and its hash.
    scope : Interval or None
        Only segments that lie wholly in it are covered; None: all.
    """

    sql: str
    text: str
    digest: str
    scope: Interval | None = None


def define(sql: str, properties: TableProperties) -> Definition:
    """Return what a SELECT over a table means as a view.

    Conditions that compare the time column with constants are the view's scope.

    Parameters
    ----------
    sql : str
        One SELECT with aggregates, GROUP BY or DISTINCT, over one table under whatever name.
    properties : TableProperties
        The table's.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_VIEW, PROJSEG_VIEW_NOT_DETERMINISTIC, and as of `Table.sql`.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL, PROJSEG_UNSUPPORTED_FUNCTION.
    """
    if not isinstance(sql, str):
        raise bad_view(f"a view is defined by a SELECT as text, found {sql!r}"[:200])
    byte_count = len(sql.encode("utf-8", "surrogatepass"))
    if byte_count > VIEW_SQL_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_EXPRESSION_TOO_LONG",
            f"a view's SELECT has {byte_count} bytes; {VIEW_SQL_BYTES_MAX} is the most",
        )
    _require_steady(sql)
    statement = parse_select(sql)
    _check_clauses(statement)
    schema = properties.schema
    query = select_query(statement, schema, properties.time_column).query
    if not query.group_by and not query.aggregators:
        raise bad_view(
            "a view stores groups, and this SELECT puts out rows: group them, or declare a "
            "projection of rows (columns and order_by)"
        )
    return _defined(sql, query, properties)


def define_rollup(
    dimensions: Sequence[str],
    metrics: Sequence[str | Mapping[str, Any]],
    granularity: str | None,
    properties: TableProperties,
) -> Definition:
    """Return the view of some dimensions, all metrics and a granularity, as Druid derives tables.

    Parameters
    ----------
    dimensions : sequence of str
        Columns, or expressions with aliases.
    metrics : sequence
        Aggregates as SQL, or Druid's objects of aggregators.
    granularity : str or None
        Druid's name or an ISO period, by which the time column is truncated; None: time is left
        out.
    properties : TableProperties
        The table's.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_VIEW, PROJSEG_BAD_GRANULARITY, and as of projections.
    """
    time = properties.time_column
    if granularity is not None and time is None:
        raise bad_view(f"granularity '{granularity}' needs a time column, which the table has not")
    if isinstance(dimensions, str) or isinstance(metrics, str | Mapping):
        raise bad_view("dimensions and metrics are lists")
    names = properties.schema.names
    keys = [quoted_name(one) if one in names else one for one in dimensions]
    if granularity is not None and time is not None and granularity.casefold() != "all":
        moment = quoted_name(time)
        floor = moment if granularity.casefold() == "none" else _floor(moment, granularity)
        keys.append(floor)
    calls = [one if isinstance(one, str) else _druid_call(one, properties) for one in metrics]
    query = Query(group_by=keys, aggregators=calls)
    grouping = f" GROUP BY {', '.join(map(_without_alias, keys))}" if keys else ""
    sql = " ".join(["SELECT", ", ".join([*keys, *calls]), f"FROM t{grouping}"])
    _require_steady(sql)
    return _defined(sql, query, properties)


def _floor(moment: str, granularity: str) -> str:
    period = Granularity.parse(granularity).period_text
    return f"timestamp_floor({moment}, '{period}')"


def _without_alias(text: str) -> str:
    tree = parse_sql(text)
    alias = tree.alias
    return quoted_name(alias) if alias else text


def _druid_call(metric: Mapping[str, Any], properties: TableProperties) -> str:
    """Return one of Druid's aggregators as SQL with its name."""
    declared = {"type": "aggregate", "name": GROUPS, "aggregators": [dict(metric)]}
    spec = parse_projection(declared, properties.schema, time_column=properties.time_column)
    (call, *_) = spec.aggregators
    return f"{call_text(call)} AS {quoted_name(call.name)}"


def derived_form(text: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `define_rollup` in Druid's `derivativeDataSource` JSON.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_VIEW.
    """
    try:
        given = json.loads(text) if isinstance(text, str) else dict(text)
    except (ValueError, RecursionError) as error:
        raise bad_view(f"a derivativeDataSource is JSON: {error}") from error
    spec = given.get("spec", given) if isinstance(given, dict) else None
    if not isinstance(spec, dict) or "dimensionsSpec" not in spec:
        raise bad_view("a derivativeDataSource has dimensionsSpec and metricsSpec")
    listed = spec["dimensionsSpec"]
    dimensions = listed.get("dimensions", []) if isinstance(listed, dict) else []
    names = [one.get("name") if isinstance(one, dict) else one for one in dimensions]
    metrics = spec.get("metricsSpec", [])
    if not all(isinstance(name, str) for name in names) or not isinstance(metrics, list):
        raise bad_view("dimensions of a derivativeDataSource have names, and metrics are a list")
    granularity = spec.get("granularitySpec", {}).get("queryGranularity")
    return {"dimensions": names, "metrics": metrics, "granularity": granularity}


def _check_clauses(statement: SelectStatement) -> None:
    refused = {
        "HAVING": statement.having,
        "ORDER BY": statement.order_by,
        "LIMIT": statement.limit is not None,
        "OFFSET": statement.offset,
        "a SELECT in FROM": statement.source is not None,
        "VERSION AS OF or TIMESTAMP AS OF": statement.table.is_versioned,
        "a hint": statement.hints,
    }
    for what, is_there in refused.items():
        if is_there:
            raise bad_view(
                f"{what} has no place in the definition of a view, which is kept as groups of all "
                "rows: leave it to the queries, which are answered from the view"
            )


def _require_steady(sql: str) -> None:
    found = _RANDOM.search(sql) or (_NOW.search(sql) if may_depend_on_instant(sql) else None)
    if found is not None:
        raise InvalidInputError(
            "PROJSEG_VIEW_NOT_DETERMINISTIC",
            f"a view stores what is the same whenever it is asked, and its SELECT calls "
            f"{found[0].rstrip('( ')}: leave it to the queries, or write a constant",
        )


def _defined(sql: str, query: Query, properties: TableProperties) -> Definition:
    schema, time = properties.schema, properties.time_column
    condition = None if query.filter is None else bind(query.filter, schema)
    scope, rest = split_time_bounds(condition, time, schema)
    kept = conjunction(rest)
    declared = {
        "name": GROUPS,
        "group_by": list(query.group_by),
        "aggregators": list(query.aggregators),
        "where": None if kept is None else to_sql(kept),
    }
    try:
        spec = parse_projection(declared, schema, time_column=time)
        more = _counts(spec)
        if more:
            declared["aggregators"] = [*list(query.aggregators), *more]
            spec = parse_projection(declared, schema, time_column=time)
    except InvalidInputError as error:
        if error.code != "PROJSEG_BAD_PROJECTION":
            raise
        raise bad_view(error.message.replace(f"projection '{GROUPS}'", "the view")) from error
    stored = stored_declaration(spec, properties)
    return Definition(sql, stored.definition, stored.definition_hash, scope)


def _counts(spec: ProjectionSpec) -> list[str]:
    """Return the counts that a view needs beside its aggregates, and lacks."""
    known = {primitive.text for primitive in spec.primitives}
    texts = {"count(*)": None}
    for primitive in spec.primitives:
        if primitive.function == "sum":
            text = primitive.text.replace("sum(", "count(", 1)
            texts[text] = None
    missing = [text for text in texts if text not in known]
    return [f"{text} AS `count#{place}`" for place, text in enumerate(missing)]


def view_spec(view: ViewEntry, properties: TableProperties) -> ProjectionSpec | str:
    """Return what a view stores under a table's present names; a text says why it is of no use.

    Raises
    ------
    CorruptTableError
        If its definition cannot be read, or has another hash.
    """
    if stored_groups_spec(view, properties).definition_hash != view.definition_hash:
        raise CorruptTableError(
            "PROJSEG_BAD_DEFINITION",
            f"view '{view.name}' has another definition than its hash says; make it anew",
        )
    try:
        spec = named_spec(GROUPS, view.definition, properties)
    except ProjsegError as error:
        return error.message
    if isinstance(spec, str):
        return spec
    return replace(spec, name=f"view:{view.name}", table_name=GROUPS)


def stored_groups_spec(view: ViewEntry, properties: TableProperties) -> ProjectionSpec:
    """Return what a view stores over stored names."""
    return stored_spec(GROUPS, view.definition, properties)


def renewed(view: ViewEntry, properties: TableProperties) -> tuple[str, str]:
    """Return a view's definition and hash over the names under which new segments store columns.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_VIEW if a column was dropped, or widened so that an aggregate is of no use.
    """
    spec = named_spec(GROUPS, view.definition, properties)
    if isinstance(spec, str):
        raise bad_view(f"view '{view.name}': {spec}; make it anew")
    if len(spec.aggregators) != len(stored_groups_spec(view, properties).aggregators):
        raise bad_view(f"view '{view.name}': a column was widened; make it anew")
    plain = replace(spec, stored=None, name=GROUPS)
    declared = stored_declaration(plain, properties)
    return declared.definition, declared.definition_hash


def mentioned(definition: str, schema: pa.Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the stored names that groups and filter read, and those that aggregates read."""
    spec = from_definition(definition, schema)
    trees = [named.expression for named in spec.grouping]
    trees += [] if spec.filter is None else [spec.filter]
    groups = {node.name for tree in trees for node in tree.walk() if isinstance(node, Column)}
    calls = [tree for call in spec.aggregators for tree in (*call.arguments, call.filter) if tree]
    states = {node.name for tree in calls for node in tree.walk() if isinstance(node, Column)}
    return tuple(sorted(groups)), tuple(sorted(states))


def bad_view(problem: str) -> InvalidInputError:
    """Return the error of a definition or an option that no view can have."""
    return InvalidInputError("PROJSEG_BAD_VIEW", problem)
