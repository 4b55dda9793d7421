"""Damaged Parquet files: the answer of all their rows as pyarrow decodes them, or an error."""

from contextlib import suppress

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_source import asked, code_of, comparable
from parquet_mutants import LAYOUTS, mutant, write_layout
from scale import IS_NIGHTLY

import projseg
from projseg import Projection
from projseg.errors import ProjsegError

GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
QUESTIONS = [
    GROUPS,
    "SELECT city, added, score, flag, page FROM t",
    "SELECT added FROM t WHERE added > 40",
    "SELECT count(*) AS n FROM t WHERE time >= TIMESTAMP '2015-11-21 00:00:00+00:00'",
    "SELECT min(added) AS a, max(added) AS b, count(day) AS c FROM t",
    "SELECT count(*) AS n FROM t WHERE day = DATE '2015-11-15'",
    "SELECT page, count(*) AS n, count(city) AS m FROM t WHERE city IS NULL GROUP BY page",
]
BY_CITY = Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])
MAY_BE = {
    "PROJSEG_BAD_EXPRESSION",
    "PROJSEG_BAD_SOURCE",
    "PROJSEG_SOURCE_CHANGED",
    "PROJSEG_UNKNOWN_COLUMN",
}


def readings_of(path):
    """All rows, decoded without a look at any bound; none where pyarrow refuses them.

    Where a page states more values than its row group has, a read of each row group and one of all
    of them differ.
    """
    found = []
    with suppress(pa.ArrowException, OSError, ValueError):
        found.append(pq.read_table(path, page_checksum_verification=True))
        found.append(pq.ParquetFile(path, page_checksum_verification=True).read())
    return found


def answer(table, text):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", table)
        return comparable(connection.execute(text).fetchall())


# Of 554 a part has a type that the schema has not, at which Arrow ended the process.
@pytest.mark.parametrize("first", range(0, 3000, 12) if IS_NIGHTLY else (0, 12, 552))
def test_damaged_files_answer_by_all_their_rows_or_not_at_all(first, tmp_path):
    for seed in range(first, first + 12):
        path = tmp_path / f"{seed}" / "a.parquet"
        path.parent.mkdir()
        layout = LAYOUTS[seed % len(LAYOUTS)]
        write_layout(path, layout)
        whole = pq.read_table(path)
        content, kind = mutant(path.read_bytes(), seed)
        path.write_bytes(content)
        ours = tmp_path / f"ours {seed}"
        try:
            table = projseg.Table.attach(
                ours,
                f"parquet:{path.parent}",
                time_column="time",
                projections=[BY_CITY] if seed // len(LAYOUTS) % 2 else [],
            )
        except ProjsegError as error:
            if error.code not in MAY_BE or ours.exists():
                raise
            continue
        held = readings_of(path)
        if kind == "pages" and "write_page_checksum" in layout:
            held = [whole]
        for text in QUESTIONS:
            try:
                found = asked(table, text)
            except ProjsegError as error:
                if error.code not in MAY_BE:
                    raise
                continue
            assert found in [answer(one, text) for one in held], (seed, kind, text)


@pytest.mark.parametrize("name", ["added", "day", "time"])
def test_bounds_that_rows_do_not_keep_are_refused(name, tmp_path):
    path = tmp_path / "source" / "a.parquet"
    path.parent.mkdir()
    write_layout(path, {"compression": "none"})
    rows = pq.read_table(path)
    group = pq.read_metadata(path).row_group(1)
    stated = group.column(rows.column_names.index(name)).statistics
    width = 8 if name == "time" else 4
    high = stated.max_raw.to_bytes(width, "little", signed=True)
    low = stated.min_raw.to_bytes(width, "little", signed=True)
    content = path.read_bytes()
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    footer = content[start:]
    assert high in footer
    path.write_bytes(content[:start] + footer.replace(high, low))

    def attach():
        projseg.Table.attach(tmp_path / "ours", f"parquet:{path}", time_column="time")

    assert code_of(attach) == "PROJSEG_BAD_SOURCE"


def test_a_page_that_is_not_the_one_its_checksum_is_of_is_refused(tmp_path):
    path = tmp_path / "source" / "a.parquet"
    path.parent.mkdir()
    table = pa.table({"n": pa.array(range(1000), pa.int64())})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    place = bytes(content).index((500).to_bytes(8, "little"))
    content[place] ^= 1
    path.write_bytes(content)

    def attach():
        projseg.Table.attach(tmp_path / "ours", f"parquet:{path}")

    assert code_of(attach) == "PROJSEG_SOURCE_CHANGED"
