"""Datasets and fresh readers where there is more than one process, a store, or a busy writer."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import projseg

duckdb = pytest.importorskip("duckdb")
ROWS = pa.table({"k": ["a", "b", "c", None] * 500, "n": pa.array(range(2000), pa.int64())})
ASKED = "SELECT k, count(*) AS c, sum(n) AS s FROM t GROUP BY k ORDER BY k"


def made(place, options=None):
    return projseg.Table.create(
        place,
        ROWS.schema,
        projections=[projseg.Projection("by_k", ["k"], ["count(*)", "sum(n)"])],
        data=ROWS,
        storage_options=options,
    )


def answers(dataset):
    """What tools read of a dataset."""
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        return (
            dataset.count_rows(pc.field("k") == "a"),
            dataset.to_table(columns=["n"], filter=pc.field("n") < 7)["n"].to_pylist(),
            connection.sql("SELECT sum(n) FROM t WHERE k = 'b'").fetchall(),
        )


WANTED = (500, list(range(7)), [(sum(range(1, 2000, 4)),)])


def test_a_dataset_of_an_object_store(store_place):
    table = made(store_place / "t", store_place.options)
    assert answers(table.dataset()) == WANTED
    tables = projseg.duckdb({"t": table})
    assert tables.sql(ASKED).column("c").to_pylist() == [500] * 4
    table.append(ROWS.slice(0, 3))
    assert table.dataset().count_rows() == 2003


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_dataset_in_another_process(tmp_path, method):
    dataset = made(tmp_path / "t").dataset()
    assert answers(dataset) == WANTED
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
        assert list(pool.map(answers, [dataset] * 3)) == [WANTED] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_goes_on_with_a_dataset_that_is_being_read(tmp_path):
    dataset = made(tmp_path / "t").dataset()
    reader = dataset.scanner(columns=["n"]).to_reader()
    reader.read_next_batch()
    child = os.fork()
    if child == 0:
        found = dataset.count_rows(pc.field("k") == "a")
        rows = dataset.to_table(columns=["n"], filter=pc.field("n") < 7).num_rows
        os._exit(0 if (found, rows) == (500, 7) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert dataset.to_table().num_rows == 2000


def test_a_dataset_beside_a_pool(tmp_path):
    table = made(tmp_path / "t")
    with projseg.QueryPool(table, workers=2) as pool:
        dataset = table.dataset()
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(pool.sql, "SELECT count(*) AS c FROM t") for _ in range(4)]
            read = [threads.submit(answers, dataset) for _ in range(4)]
            assert [one.result()["c"].to_pylist() for one in asked] == [[2000]] * 4
            assert [one.result() for one in read] == [WANTED] * 4


def test_readers_of_an_age_beside_a_busy_writer(tmp_path):
    """Each answer is of one version, and no reader goes back to an earlier one."""
    table = projseg.Table.create(tmp_path / "t", {"n": "bigint"}, data={"n": [1]})
    served = projseg.Table(tmp_path / "t", max_age=0)
    tables = projseg.duckdb({"t": projseg.Table(tmp_path / "t")}, max_age=0)
    pool = projseg.QueryPool(table, workers=1, max_age=0)
    is_over, wrong = threading.Event(), []
    both = "SELECT count(*) AS c, sum(n) AS s, max(n) AS m FROM t"
    mixed = "SELECT (SELECT count(*) FROM t) AS c, sum(n) AS s, max(n) AS m FROM (FROM t)"
    ways = [
        lambda: served.sql(both),
        lambda: tables.sql(both),
        lambda: tables.sql(mixed),
        lambda: pool.sql(both),
    ]

    def read(ask):
        before = 0
        while not is_over.is_set():
            (row,) = ask().to_pylist()
            count = row["c"]
            if (row["s"], row["m"]) != (count * (count + 1) // 2, count) or count < before:
                wrong.append(row)
            before = count

    with pool, concurrent.futures.ThreadPoolExecutor(len(ways)) as threads:
        readers = [threads.submit(read, ask) for ask in ways]
        try:
            for number in range(2, 25):
                table.append({"n": [number]})
        finally:
            is_over.set()
        for one in readers:
            one.result()
        assert wrong == []
        assert [ask()["c"].to_pylist() for ask in ways] == [[24]] * 4
