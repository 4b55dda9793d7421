"""What indexes spare: one key's rows of many segments, and conditions on texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.bench import Bench, measured
from projseg.benchmarks.scenarios.text_lookups import (
    ClickHouseTable,
    ParquetFiles,
    add_answers,
    add_texts,
)

_HOUR_US: Final = 3_600_000_000
_PIECE_HOURS: Final = 100
_LOADED_MAX: Final = 1000  # segments of the two tables whose loading is compared
_KEYS: Final = 15
_MERGED: Final = 100
_MULTIPLIER: Final = 0x9E3779B97F4A7C15


def run(bench: Bench) -> None:
    """Measure lookups of keys, conditions on texts, or both."""
    if "keys" in bench.names("parts"):
        _add_keys(bench)
    if "texts" in bench.names("parts"):
        add_texts(bench)


def _add_keys(bench: Bench) -> None:
    """Look keys up in a table of many segments, with the index, without, and in other engines."""
    count, rows = bench["segments"], bench["rows"]
    _load_both(bench, min(count, _LOADED_MAX))
    bench.progress(f"{count:,} segments")
    table = _written_table(bench.folder / "visits", count, rows, ())
    with measured() as built:
        table.add_index(projseg.Index("visits", "visit"), materialize=True)
    (index,) = table.indexes().to_pylist()
    bits = 8 * index["bloom_bytes"] / index["keys"]
    size = {"bytes": index["bloom_bytes"], "bits a key": bits, "files": index["files"]}
    bench.add(
        "old segments",
        f"{count:,} segments",
        "materialize_index",
        {"cpu s": built["cpu s"], **size},
    )
    drawn = np.random.default_rng(7).integers(0, count * rows, _KEYS + 1)
    keys = [_visit(int(number)) for number in drawn]
    for way, context, asked in (
        ("index", {}, keys),
        ("no index", {"noIndexes": True}, keys[:3]),
    ):
        _add_lookups(bench, way, partial(_rows_of, table, context=context), asked)
    _add_opened(bench, table, keys, count * rows)
    code = (
        "import projseg, json\n"
        f"t = projseg.Table({str(bench.folder / 'visits')!r})\n"
        f"print(json.dumps(t.query(columns=['user'], filter={_condition(keys[-1])!r}%s).num_rows))"
    )
    for way, said in (("index", ""), ("no index", ", context={'noIndexes': True}")):
        fresh = bench.in_new_process(code % said)
        spent = {"s": fresh.seconds, "cpu s": fresh.cpu_seconds}
        bench.add("a new process", "first lookup", way, spent)
    for name in bench.names("peers"):
        if name not in _PEERS:
            continue
        bench.progress(name)
        bench.peers.append(name)
        with measured() as spent:
            lookup = _PEERS[name](bench, count, rows)
        loading = {"cpu s": spent["cpu s"]}
        bench.add("loading of peers", f"{count:,} groups of rows", name, loading)
        _add_lookups(bench, name, lookup, keys)


def _load_both(bench: Bench, count: int) -> None:
    """Load a table with an index and one without."""
    taken = {}
    _written_table(bench.folder / "first", 2, bench["rows"], [projseg.Index("visits", "visit")])
    for way, indexes in (("no index", ()), ("index", [projseg.Index("visits", "visit")])):
        with measured() as spent:
            _written_table(bench.folder / way.replace(" ", "-"), count, bench["rows"], indexes)
        taken[way] = spent["cpu s"]
        bench.add("loading", f"{count:,} segments", way, {"cpu s": taken[way]})
    bench.add(
        "loading", f"{count:,} segments", "share", {"ratio": taken["index"] / taken["no index"]}
    )


def _written_table(location: Path, count: int, rows: int, indexes: Any) -> projseg.Table:
    """Make a table of `count` hours with `rows` rows each."""
    table = projseg.Table.create(
        location,
        {"time": "timestamp", "visit": "string", "user": "int"},
        time_column="time",
        segment_granularity="hour",
        indexes=list(indexes),
    )
    for piece in _pieces(count, rows):
        table.append(piece)
    return table


def _pieces(count: int, rows: int) -> Iterator[pa.Table]:
    """Yield the rows, some hours at a time; each visit is unlike all others."""
    for first in range(0, count, _PIECE_HOURS):
        end = min(first + _PIECE_HOURS, count)
        numbers = np.arange(first * rows, end * rows)
        generator = np.random.default_rng(first)
        times = numbers // rows * _HOUR_US + numbers % rows * 1000
        yield pa.table(
            {
                "time": pa.array(times, pa.timestamp("us", tz="UTC")),
                "visit": [_visit(int(number)) for number in numbers],
                "user": (generator.zipf(1.3, len(numbers)) % 1_000_000).astype(np.int32),
            }
        )


def _visit(number: int) -> str:
    return f"{number * _MULTIPLIER % 2**64:016x}"


def _condition(key: str) -> str:
    return f"visit = '{key}'"


def _rows_of(table: projseg.Table, key: str, context: dict[str, Any]) -> int:
    return len(table.query(columns=["user"], filter=_condition(key), context=context))


def _add_lookups(bench: Bench, way: str, lookup: Callable[[str], int], keys: list[str]) -> None:
    """Look keys up, each for the first time, after another one."""
    case = "a key of one segment", "another one asked before"
    found = add_answers(bench, *case, way, lookup, [*keys[1:], keys[0]])
    if set(found) != {1}:
        bench.problems.append(f"{way}: {found} rows of keys that are each in one")


def _add_opened(bench: Bench, table: projseg.Table, keys: list[str], row_count: int) -> None:
    """Count the segments that are opened for keys that are there, and for keys that are not."""

    def opened(condition: str) -> int:
        return table.explain(columns=["user"], filter=condition).figures.opened_segments

    absent = [_visit(row_count + number) for number in range(bench["absent"])]
    false = sum(opened(_condition(key)) for key in absent)
    rate = false / (len(absent) * bench["segments"])
    counted = {"false segments": false, "false rate": rate}
    bench.add("opened segments", f"{len(absent):,} absent keys", "index", counted)
    merged = [_visit(number * (row_count // _MERGED)) for number in range(_MERGED)]
    listed = ", ".join(f"'{key}'" for key in merged)
    found = {"opened": opened(f"visit IN ({listed})")}
    bench.add("opened segments", f"keys of a merge of {_MERGED}", "index", found)
    use = table.explain(columns=["user"], filter=_condition(keys[0])).indexes.to_pylist()[0]
    read = {"bytes": use["bytes"], "files": use["files"], "left": use["left"]}
    bench.add("Bloom files read", "a key", "index", read)


def _duckdb(bench: Bench, count: int, rows: int) -> Callable[[str], int]:
    """Write Parquet files with a Bloom filter for each 2,048 rows, and ask DuckDB."""
    # DuckDB writes filters for columns with dictionaries, so these may be as large as may be.
    options = (
        ", ROW_GROUP_SIZE 2048, DICTIONARY_SIZE_LIMIT 1000000, "
        "BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.001"
    )
    files = ParquetFiles(bench.folder / "parquet", _pieces(count, rows), options)
    described = (
        "SELECT count(bloom_filter_offset), count(*) FROM parquet_metadata(?) "
        "WHERE path_in_schema = 'visit'"
    )
    first = str(bench.folder / "parquet/0.parquet")
    ((with_filter, groups),) = files.connection.execute(described, [first]).fetchall()
    if with_filter < groups:
        bench.problems.append(f"duckdb: {with_filter} of {groups} groups of rows have a filter")
    return lambda key: len(files.select('"user"', _condition(key)))


def _clickhouse(bench: Bench, count: int, rows: int) -> Callable[[str], int]:
    """Fill a table with a Bloom index for each granule, and ask ClickHouse."""
    table = ClickHouseTable(
        bench.folder / "clickhouse",
        _pieces(count, rows),
        "time DateTime64(6, 'UTC'), visit String, user Int32, "
        "INDEX visits visit TYPE bloom_filter(0.001) GRANULARITY 1",
        f"SETTINGS index_granularity = {rows}",
    )
    return lambda key: len(table.select("user", _condition(key)))


_PEERS: Final = {"duckdb-parquet": _duckdb, "clickhouse": _clickhouse}
