"""What all replies of the engine process are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.table import Table

Reply = tuple[dict[str, Any], bytes]
"""JSON, and the bytes of an Arrow stream of rows, or none."""

VERSION: Final = pa.schema([("version", pa.int64())])
PROPERTIES: Final = pa.schema([("property", pa.string()), ("value", pa.string())])


def arrow_stream(found: pa.Table) -> bytes:
    """Return rows as an Arrow stream, without metadata of the schema."""
    sink = pa.BufferOutputStream()
    plain = found.replace_schema_metadata(None)
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def rows(found: list[dict[str, Any]], schema: pa.Schema) -> Reply:
    """Return the reply of rows of a schema; what a row does not say is null."""
    return {}, arrow_stream(pa.Table.from_pylist(found, schema))


def shown(found: pa.Table, names: Sequence[str]) -> Reply:
    """Return the reply of some columns of a metadata table, whose lists are shown as text."""
    columns = [found[name] for name in names]
    texts = [
        pc.fill_null(pc.binary_join(one, ", "), "") if pa.types.is_list(one.type) else one
        for one in columns
    ]
    return {}, arrow_stream(pa.table(texts, names=list(names)))


def properties_of(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a row's values that are not null, as rows of `PROPERTIES`."""
    found = [(key, value) for key, value in row.items() if value is not None]
    return [{"property": key, "value": str(value)} for key, value in found]


def table_of(request: Mapping[str, Any]) -> Table:
    """Return the newest version of the table that a request names."""
    return Table(request["location"], storage_options=request.get("storage_options"))
