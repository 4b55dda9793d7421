"""A pool over a table of an object store starts workers anew, and hands them the options."""

import os
from pathlib import Path

import pytest

import projseg
from projseg.errors import InvalidInputError


def test_a_pool_asks_a_table_of_an_object_store(store_place):
    location, options = str(store_place), store_place.options
    table = projseg.Table.create(
        location, {"x": "long"}, data={"x": [1, 2]}, storage_options=options
    )
    with projseg.QueryPool(table, workers=1) as pool:
        assert pool.query() == table.query()
        (pid,) = pool.worker_pids
        told = Path(f"/proc/{pid}/cmdline").read_text()
        assert not any(str(value) in told for value in options.values())
        table.append({"x": [3]})
        assert pool.query(aggregators="sum(x) AS x")["x"].to_pylist() == [6]
    assert not os.path.exists(f"/proc/{pid}")


def test_workers_of_an_object_store_are_not_forked(store_place):
    table = projseg.Table.create(
        str(store_place), {"x": "long"}, storage_options=store_place.options
    )
    with pytest.raises(InvalidInputError, match="use 'spawn'"):
        projseg.QueryPool(table, start_method="fork")
