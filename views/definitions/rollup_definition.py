"""From dimensions, metrics and a granularity to what a view stores, as in Druid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from projseg.algebra.aggregates.parse_aggregate import call_text
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.sql_words import quoted_name
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.query.request import Query
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import listed
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.views.definitions.definition import Definition, defined
from projseg.views.definitions.view_checks import bad_view, require_steady
from projseg.views.view_records import GROUPS


def define_rollup(
    dimensions: Sequence[str],
    metrics: Sequence[str | Mapping[str, Any]],
    granularity: str | None,
    properties: TableProperties,
) -> Definition:
    """Return the view of some dimensions, all metrics and a granularity, as Druid derives tables.

    Dimensions are columns, or expressions with aliases; metrics are aggregates as SQL, or Druid's
    objects of aggregators; the granularity, Druid's name or an ISO period, truncates the time
    column, which is left out without it.
    """
    time = properties.time_column
    if granularity is not None and time is None:
        raise bad_view(f"granularity '{granularity}' needs a time column, which the table has not")
    dimensions = listed("dimensions", dimensions, "PROJSEG_BAD_VIEW")
    metrics = listed("metrics", metrics, "PROJSEG_BAD_VIEW")
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
    require_steady(sql)
    return defined(sql, query, properties)


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


def derived_form(
    text: str | Mapping[str, Any] | Sequence[str], properties: TableProperties
) -> dict[str, Any]:
    """Return the arguments of `define_rollup` in a `derivativeDataSource`, Druid's JSON.

    A list of dimensions alone keeps the sums of all other numbers and the count of rows, by the
    table's granularity.
    """
    try:
        given = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise bad_view(f"a derivativeDataSource is JSON: {error}") from error
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return _of_dimensions(given, properties)
    spec = given.get("spec", given) if isinstance(given, Mapping) else None
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


def _of_dimensions(dimensions: list[str], properties: TableProperties) -> dict[str, Any]:
    """Return the dimensions of a table with all else that can be added up."""
    taken = {properties.time_column, *dimensions}
    sums = [
        f"sum({quoted_name(field.name)}) AS {quoted_name(field.name)}"
        for field in properties.schema
        if field.name not in taken and _is_number(field.type)
    ]
    metrics = [*sums, "count(*) AS count"]
    return {
        "dimensions": dimensions,
        "metrics": metrics,
        "granularity": properties.segment_granularity if properties.time_column else None,
    }


def _is_number(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type)
    )
