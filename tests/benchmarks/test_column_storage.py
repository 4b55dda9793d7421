"""Every column's bytes are found, and its encodings are named as SPEC.md names them."""

from __future__ import annotations

import re

from projseg.benchmarks.column_storage import measure_columns
from projseg.benchmarks.generator import EditStream
from projseg.segment_format.encodings.encoding_table import ENCODING_NAMES

_NAMES = "|".join(map(re.escape, ENCODING_NAMES.values()))


def test_columns_are_measured_in_both_formats(tmp_path):
    rows = EditStream(3000).table()
    columns = {column.column: column for column in measure_columns("edits", rows, tmp_path, 1)}
    assert list(columns) == rows.column_names
    for column in columns.values():
        assert column.segment_bytes > 0
        assert column.parquet_bytes > 0
        assert column.segment_decode_bytes_per_second > 0
        for encoding in column.encodings.split(", "):
            assert re.fullmatch(rf"((ids|values): )?({_NAMES})( \+ zstd)?", encoding), encoding
    (segment,) = (tmp_path / "rows").rglob("*.pseg")
    stored = sum(column.segment_bytes for column in columns.values())
    assert 0.8 * segment.stat().st_size < stored < segment.stat().st_size
    assert columns["price"].encodings == "decimal"
    assert columns["page"].encodings.startswith("ids: ")
