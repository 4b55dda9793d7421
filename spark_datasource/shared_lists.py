"""The lists that Spark's extension reads from its jar, made from the records that Python reads."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.query.context import STEERING
from projseg.segment_format.logical_types import normal_type, type_name
from projseg.spark_datasource.option_table import HINT_PREFIX
from projseg.spark_datasource.statement_list import FORMS, REPLIES
from projseg.table_layer.metadata_tables import offered_by


def shared_lists() -> str:
    """Return the lists as JSON."""
    lists = {
        "metadata": offered_by("t.name"),
        "statements": [{"operation": operation, "form": form} for operation, form in FORMS],
        "replies": {operation: ddl_of(columns) for operation, columns in REPLIES.items()},
        "functions": [
            call.listed(spelling.name)
            for function in FUNCTIONS.values()
            for spelling in function.spellings
            for call in spelling.catalyst
        ],
        "aggregates": [
            call.listed(name, is_approximate=not {"hll", "theta"}.isdisjoint(function.primitives))
            for name, function in AGGREGATES.items()
            for call in function.catalyst
        ],
        "hintPrefix": HINT_PREFIX,
        "steering": [_steering(name) for name in STEERING],
    }
    return json.dumps(lists, indent=1)


def _steering(name: str) -> dict[str, Any]:
    steering = STEERING[name]
    return {
        "key": steering.key,
        "about": steering.about,
        "takes": steering.form.takes,
        "setting": (steering.setting or steering.key) if steering.about else None,
        "hint": steering.hint or None,
        "meaning": steering.meaning,
        "pattern": steering.form.pattern or None,
        "expected": steering.form.expected,
    }


def ddl_of(schema: pa.Schema) -> str:
    """Return columns as Spark's DDL."""
    return ", ".join(f"`{field.name}` {_ddl_of_type(field.type)}" for field in schema)


def _ddl_of_type(type_: pa.DataType) -> str:
    if pa.types.is_map(type_):
        return f"map<{_ddl_of_type(type_.key_type)},{_ddl_of_type(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"array<{_ddl_of_type(type_.value_type)}>"
    return type_name(normal_type(type_))
