"""Keeps a catalog table's options where Spark does not: in the metadata of its first column.

Spark 4.3 stores what CREATE TABLE's OPTIONS and LOCATION say but gives none of it to a Python
source when the table is read or inserted into. The schema it does give, metadata included. Only
CREATE TABLE leaves this mark (it alone passes a `provider`), so that a location does not travel in
the schema of ordinary DataFrames.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from projseg.spark_datasource.options import Options

_METADATA_KEY: Final = "projseg.options"
_CREATE_TABLE_KEY: Final = "provider"


def with_catalog_options(schema: StructType, given: Mapping[str, str]) -> StructType:
    """Return the schema, marked with the options where CREATE TABLE asks for it."""
    if _CREATE_TABLE_KEY not in {key.lower() for key in given} or not schema.fields:
        return schema
    options = Options(given)
    kept = {name: options.text(name) for name in options.given_names}
    first, *others = schema.fields
    marked = StructField(
        first.name, first.dataType, first.nullable, {_METADATA_KEY: json.dumps(kept)}
    )
    return StructType([marked, *others])


def merged_options(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options kept in the schema's mark, overridden by those of this statement."""
    kept: dict[str, str] = {}
    for field in schema.fields:
        text = (field.metadata or {}).get(_METADATA_KEY)
        if isinstance(text, str):
            kept = {str(key).lower(): str(value) for key, value in json.loads(text).items()}
            break
    return kept | {key.lower(): text for key, text in given.items()}
