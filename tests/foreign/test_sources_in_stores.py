"""Sources in an object store, whose files are known by their ETags."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_source import asked, rows
from store_places import store_at

import projseg
from projseg import Projection
from projseg.errors import ProjsegError

GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
ROWS = "SELECT city, added FROM t WHERE added > 0"


def put(store, name, table):
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=100)
    store.put(name, content.getvalue())
    return table


@pytest.fixture
def twin(tmp_path):
    """Answers of the same rows in a table of their own."""
    numbers = iter(range(1000))

    def answer(text, *tables):
        place = tmp_path / f"twin {next(numbers)}"
        return asked(projseg.Table.create(place, data=pa.concat_tables(tables)), text)

    return answer


@pytest.mark.parametrize("is_ours_in_the_store", [False, True])
def test_a_source_in_a_store_is_followed(store_place, tmp_path, twin, is_ours_in_the_store):
    store = store_at(f"{store_place.url}/lake", store_place.options)
    random = np.random.default_rng(1)
    first = put(store, "a/1.parquet", rows(random, 300))
    second = put(store, "b/2.parquet", rows(random, 200))
    ours = f"{store_place.url}/ours" if is_ours_in_the_store else tmp_path / "ours"
    given = {"source_options": store_place.options}
    if is_ours_in_the_store:
        given["storage_options"] = store_place.options
    table = projseg.Table.attach(
        ours,
        f"parquet:{store_place.url}/lake/**/*.parquet",
        time_column="time",
        projections=[Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])],
        **given,
    )
    for text in (GROUPS, ROWS):
        assert asked(table, text) == twin(text, first, second)
    third = put(store, "c/3.parquet", rows(random, 100))
    fresh = projseg.Table(ours, **given)
    assert fresh.source.files_without_companion == 1
    for text in (GROUPS, ROWS):
        assert asked(fresh, text) == twin(text, first, second, third)
    fresh.sync()
    other = put(store, "a/1.parquet", rows(random, 300))
    with pytest.raises(ProjsegError) as caught:
        fresh.sql("SELECT max(score), max(day) FROM t WHERE flag GROUP BY page")
    assert caught.value.code == "PROJSEG_SOURCE_CHANGED"
    fresh = fresh.newest()
    for text in (GROUPS, ROWS):
        assert asked(fresh, text) == twin(text, other, second, third)
    store.delete("b/2.parquet")
    assert fresh.sync().files_dropped == 1
    for text in (GROUPS, ROWS):
        assert asked(fresh, text) == twin(text, other, third)
    assert "secret" not in str(fresh.detail()) + str(fresh.source)
