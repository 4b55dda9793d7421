"""JSON files as Arrow batches in which times keep what their texts say of a zone.

pyarrow reads a text of whole seconds as a time without a zone, whether it names one or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from projseg.segment_format.types import TIMESTAMP, TIMESTAMP_NTZ

_HAS_ZONE: Final = r"[T ].*([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"


def open_json(
    open_stream: Callable[[], pa.NativeFile],
    advancing_stream: Callable[[], pa.NativeFile],
    block_bytes: int,
) -> pa.RecordBatchReader:
    """Read a file of one object a line; types are guessed from the first block.

    Parameters
    ----------
    open_stream : callable
        Opens the file, to look at its first block.
    advancing_stream : callable
        Opens it again, to read all of it.
    block_bytes : int
        Bytes of a block.

    Raises
    ------
    pa.ArrowInvalid
        If it is not JSON; while it is read, too, or where a later text has a zone and the first
        ones have none.
    """
    options = pyarrow.json.ReadOptions(block_size=block_bytes)
    found = pyarrow.json.open_json(open_stream(), read_options=options).schema
    times = [field.name for field in found if pa.types.is_timestamp(field.type)]
    texts = pa.schema([(name, pa.string()) for name in times])
    parsing = pyarrow.json.ParseOptions(explicit_schema=texts) if times else None
    reader = pyarrow.json.open_json(advancing_stream(), read_options=options, parse_options=parsing)
    if not times:
        return reader
    first = reader.read_next_batch()
    fields = [
        pa.field(field.name, _time_type(first.column(field.name))) if field.name in times else field
        for field in found
    ]
    return pa.RecordBatchReader.from_batches(pa.schema(fields), _typed(first, reader, fields))


def _time_type(texts: pa.Array) -> pa.DataType:
    """Return the type that all texts are of; text, where some have a zone and some have none."""
    have_zone = pc.unique(pc.match_substring_regex(texts, _HAS_ZONE).drop_null()).to_pylist()
    if len(have_zone) != 1:
        return pa.string()
    return TIMESTAMP if have_zone[0] else TIMESTAMP_NTZ


def _typed(
    first: pa.RecordBatch, rest: pa.RecordBatchReader, fields: list[pa.Field]
) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(fields)
    yield _cast(first, schema)
    for batch in rest:
        yield _cast(batch, schema)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
