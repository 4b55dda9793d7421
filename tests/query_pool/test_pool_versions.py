"""A pool reads the version that its table's object is at, whoever changes the table."""

import shutil
import subprocess
import sys

import pytest

import projseg
from projseg.errors import InvalidInputError

APPEND = """
import sys, projseg
projseg.Table(sys.argv[1]).append({"x": [10, 20]})
"""


@pytest.fixture
def table(tmp_path):
    return projseg.Table.create(tmp_path / "t", {"x": "long"}, data={"x": [1, 2, 3]})


def total_of(pool):
    return pool.query(aggregators="sum(x) AS x")["x"][0].as_py()


def test_versions_that_others_write_are_read_after_a_refresh(table):
    with projseg.QueryPool(table.location, workers=2) as pool:
        subprocess.run([sys.executable, "-c", APPEND, table.location], check=True)
        assert {total_of(pool) for _ in range(4)} == {6}
        assert pool.refresh() is pool
        assert {total_of(pool) for _ in range(4)} == {36}
        assert pool.sql("SELECT sum(x) AS x FROM t VERSION AS OF 0")["x"].to_pylist() == [6]
        assert total_of(pool) == 36


def test_what_is_written_through_the_tables_object_is_read_at_once(table):
    with projseg.QueryPool(table, workers=2) as pool:
        table.append({"x": [4]})
        assert {total_of(pool) for _ in range(4)} == {10}
        table.add_column("y", "string")
        assert pool.query(columns="y", limit=1)["y"].to_pylist() == [None]
        table.delete("x = 4")
        assert {total_of(pool) for _ in range(4)} == {6}


def test_a_version_that_was_pinned_stays(table):
    table.append({"x": [4]})
    with projseg.QueryPool(projseg.Table(table.location, version=0), workers=1) as pool:
        assert total_of(pool) == 6


def test_a_question_keeps_the_version_at_which_it_was_asked(table):
    with projseg.QueryPool(table, workers=1) as pool:
        asked = [pool.submit(aggregators="sum(x) AS x") for _ in range(20)]
        table.append({"x": [4]})
        assert {one.result()["x"][0].as_py() for one in asked} == {6}


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_another_table_in_the_same_place_is_not_mistaken_for_it(method, table):
    """What a worker has read it may still answer; what it has not is refused."""
    table.append({"x": [4]})
    with projseg.QueryPool(table, workers=1, start_method=method) as pool:
        assert total_of(pool) == 10
        table.append({"x": [5]})
        shutil.rmtree(table.location)
        with pytest.raises(InvalidInputError) as refused:
            total_of(pool)
        assert refused.value.code == "PROJSEG_NOT_A_TABLE"
        other = projseg.Table.create(table.location, {"x": "long"}, data={"x": [7]})
        other.append({"x": [8]})
        other.append({"x": [9]})
        with pytest.raises(InvalidInputError, match="made anew") as refused:
            total_of(pool)
        assert refused.value.code == "PROJSEG_UNKNOWN_VERSION"
        assert total_of(pool.refresh()) == 24
