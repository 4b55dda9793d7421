"""Damaged Parquet files: the answer of all their rows as pyarrow decodes them, or an error."""

from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from shutil import rmtree

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_source import asked, code_of, comparable
from parquet_mutants import LAYOUTS, footer_mutant, mutant, write_layout
from scale import IS_NIGHTLY, tries

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
    for read in (pq.read_table, lambda *a, **kw: pq.ParquetFile(*a, **kw).read()):
        with suppress(pa.ArrowException, OSError, ValueError):
            found.append(read(path, page_checksum_verification=True))
    return found


def answer(table, text):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", table)
        return comparable(connection.execute(text).fetchall())


def check_damaged(folder, layout, projections, damage):
    """Compare the answers over a file of a layout that `damage` returns otherwise; count errors."""
    path = folder / "source" / "a.parquet"
    path.parent.mkdir(parents=True)
    write_layout(path, layout)
    whole = pq.read_table(path)
    content, kind = damage(path.read_bytes())
    path.write_bytes(content)
    ours = folder / "ours"
    try:
        table = projseg.Table.attach(
            ours, f"parquet:{path.parent}", time_column="time", projections=projections
        )
    except ProjsegError as error:
        if error.code not in MAY_BE or ours.exists():
            raise
        return len(QUESTIONS)
    held = readings_of(path)
    if kind == "pages" and "write_page_checksum" in layout:
        held = [whole]
    refused = 0
    for text in QUESTIONS:
        try:
            found = asked(table, text)
        except ProjsegError as error:
            if error.code not in MAY_BE:
                raise
            refused += 1
            continue
        assert found in [answer(one, text) for one in held], (kind, text)
    return refused


# Arrow ended the process at parts that are not of their schema: in 554, 1866 and 2148; in 2055 an
# index is beyond one of two dictionaries.
@pytest.mark.parametrize(
    "first", range(0, 3000, 12) if IS_NIGHTLY else (0, 12, 552, 1860, 2052, 2148)
)
def test_damaged_files_answer_by_all_their_rows_or_not_at_all(first, tmp_path):
    for seed in range(first, first + 12):
        projections = [BY_CITY] if seed // len(LAYOUTS) % 2 else []
        layout = LAYOUTS[seed % len(LAYOUTS)]
        check_damaged(tmp_path / f"{seed}", layout, projections, partial(mutant, seed=seed))


def check_footers(folder, seeds):
    """Return how many questions over files with other footers were refused, and how many not."""
    refused = 0
    for seed in seeds:
        place = folder / f"{seed}"
        layout = {**LAYOUTS[seed % len(LAYOUTS)], "write_page_index": seed % 2 == 0}
        try:
            refused += check_damaged(
                place,
                layout,
                [],
                lambda content, seed=seed: (footer_mutant(content, seed), "parts"),
            )
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        rmtree(place)
    return refused, len(seeds) * len(QUESTIONS) - refused


def test_no_footer_ends_the_process(tmp_path):
    seeds = range(tries(5000, by_day=40))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        refused, answered = pool.submit(check_footers, tmp_path, seeds).result()
    assert min(refused, answered) > len(seeds)


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
