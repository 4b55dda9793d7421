"""A folder of Parquet files changes at random; every answer is what DuckDB finds in it then."""

import numpy as np
import pytest
from foreign_source import Folder, comparable, drawn_question, stats_of
from scale import IS_NIGHTLY, tries

import projseg
from projseg import Index, Projection
from projseg.errors import ProjsegError

STEPS = 30
MAY_CHANGE = {"PROJSEG_SOURCE_CHANGED", "PROJSEG_SOURCE_GONE"}
PROJECTIONS = [
    Projection("by_city", ["city"], ["sum(added) AS added", "count(*) AS rows"]),
    Projection(
        "by_hour",
        ["date_trunc('HOUR', time) AS hour", "city", "flag"],
        ["sum(added) AS added", "count(*) AS rows", "min(added) AS least", "count(city) AS named"],
    ),
    Projection("by_page", ["page", "day"], ["sum(added) AS added", "count(*) AS rows"]),
    Projection("sorted", columns=["time", "city", "added", "page"], order_by=["city", "added"]),
]


def asked(table, text):
    """Return an answer, or the code of its error."""
    try:
        found = table.sql(text)
    except ProjsegError as error:
        if error.code in MAY_CHANGE:
            return error.code
        raise
    return comparable([tuple(row.values()) for row in found.to_pylist()])


@pytest.mark.parametrize("seed", range(tries(500) if IS_NIGHTLY else 2))
def test_every_answer_is_of_the_files_that_are_there(seed, tmp_path):
    random = np.random.default_rng([seed, 20261128])
    folder = Folder(tmp_path / "source", random)
    for _ in range(3):
        folder.add()
    chosen = [one for one in PROJECTIONS if random.integers(3)]
    table = projseg.Table.attach(
        tmp_path / "ours",
        f"parquet:{folder.place}/**/*.parquet",
        time_column="time",
        projections=chosen,
        indexes=[Index("pages", "page")] if random.integers(2) else [],
        target_segment_rows=int(random.choice([200, 400, 10_000])),
    )
    pinned, promised = table, {}
    for _ in range(STEPS):
        step = str(random.choice(Folder.STEPS))
        getattr(folder, step)()
        before = stats_of(folder.place)
        is_synchronised = step == "overwrite_in_place" or random.integers(3) == 0
        if is_synchronised:
            table.sync(verify=step == "overwrite_in_place")
        fresh = projseg.Table(tmp_path / "ours")
        assert fresh.source.files == len(folder.files)
        if is_synchronised:
            assert fresh.source.files_without_companion == 0
        known = set(fresh.schema.names) & folder.names()
        for _ in range(3):
            text = drawn_question(random, known)
            found = asked(fresh, text)
            if is_synchronised or not isinstance(found, str):
                assert found == folder.ask(text), (step, text, str(fresh.explain(text)))
        for text, answer in promised.items():
            found = asked(pinned, text)
            assert found == answer or isinstance(found, str), (step, text)
        if random.integers(4) == 0:
            texts = [drawn_question(random, known) for _ in range(2)]
            pinned = fresh.newest()
            promised = {text: asked(pinned, text) for text in texts}
            promised = {text: one for text, one in promised.items() if not isinstance(one, str)}
        assert stats_of(folder.place) == before, step
    table.sync()
    assert [str(one) for one in projseg.Table(tmp_path / "ours").verify(deep=True)] == []
