"""The same files in DuckDB, to compare answers and times with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from projseg.benchmarks.bench import same_answer
from projseg.catalog.external.input_files import kind_of
from projseg.cli.file_options import FileForm

_TYPES: Final = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_int32, "INTEGER"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "REAL"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_string, "VARCHAR"),
)


class DuckDBFiles:
    """Files as DuckDB reads them, with the types that the table has."""

    def __init__(self, paths: Sequence[str], form: FileForm, schema: pa.Schema) -> None:
        import duckdb

        self._engine = duckdb.connect()
        self._engine.execute("SET TimeZone = 'UTC'")
        self.source = _source(paths, form, schema)

    def ask(self, sql: str) -> tuple[pa.Table, float]:
        """Return an answer, and its milliseconds; raise what DuckDB raises."""
        start = time.perf_counter()
        found: pa.Table = self._engine.sql(sql).to_arrow_table()
        return found, (time.perf_counter() - start) * 1000

    def close(self) -> None:
        """Close the connection."""
        self._engine.close()


def is_installed() -> bool:
    """Whether DuckDB can be imported."""
    return find_spec("duckdb") is not None


def agree(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether two answers are the same rows in any order; doubles up to rounding."""
    if ours.num_columns != theirs.num_columns or len(ours) != len(theirs):
        return False
    names = [f"c{place}" for place in range(ours.num_columns)]
    plain = ours.replace_schema_metadata(None).rename_columns(names)
    types = [_doubles(field.type) for field in plain.schema]
    wanted = pa.schema(zip(names, types, strict=True))
    try:
        columns = [column.cast(kind) for column, kind in zip(theirs.columns, types, strict=True)]
        own = [column.cast(kind) for column, kind in zip(plain.columns, types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return same_answer(
        pa.Table.from_arrays(own, schema=wanted), pa.Table.from_arrays(columns, schema=wanted)
    )


def _doubles(kind: pa.DataType) -> pa.DataType:
    """Return the type in which answers are compared: means of decimals differ in digits."""
    return pa.float64() if pa.types.is_decimal(kind) or pa.types.is_floating(kind) else kind


def _source(paths: Sequence[str], form: FileForm, schema: pa.Schema) -> str:
    """Return what FROM names: DuckDB's function that reads the files, or raise ValueError."""
    kinds = {kind_of(path, form.kind)[0] for path in paths}
    if len(kinds) > 1:
        raise ValueError("files of several kinds")
    (kind,) = kinds
    listed = f"[{', '.join(map(_text, paths))}]"
    if kind == "parquet":
        return f"read_parquet({listed})"
    if form.texts.renames or form.texts.excluded or form.texts.encoding:
        raise ValueError("columns or texts that only the import changes")
    columns = ", ".join(f"{_text(field.name)}: {_text(_type(field.type))}" for field in schema)
    if kind == "json":
        return f"read_json({listed}, columns={{{columns}}})"
    texts = form.texts
    delimiter = texts.delimiter or ("\t" if kind == "tsv" else ",")
    nulls = texts.nulls or pyarrow.csv.ConvertOptions().null_values
    return (
        f"read_csv({listed}, columns={{{columns}}}, header={str(texts.has_header).lower()}, "
        f"delim={_text(delimiter)}, quote={_text(texts.quote)}, auto_detect=false, "
        f"nullstr=[{', '.join(map(_text, nulls))}])"
    )


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    for is_kind, name in _TYPES:
        if is_kind(kind):
            return name
    raise ValueError(f"a column of {kind}")


def _text(value: Any) -> str:
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"
