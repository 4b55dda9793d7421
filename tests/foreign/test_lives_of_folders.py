"""A folder of Parquet files changes at random; every answer is what DuckDB finds in it then."""

import numpy as np
import pytest
from foreign_source import Folder, comparable, drawn_question, stats_of
from scale import IS_NIGHTLY, tries

import projseg
from projseg import Index, Projection
from projseg.errors import ProjsegError

STEPS = 30 if IS_NIGHTLY else 12
VIEW = "SELECT city, flag, sum(added) AS added, count(*) AS rows FROM t GROUP BY city, flag"
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


class Life:
    """A folder, and a table over it, from step to step."""

    def __init__(self, seed, place):
        self.random = random = np.random.default_rng([seed, 20261128])
        self.ours = place / "ours"
        self.folder = Folder(place / "source", random)
        for _ in range(3):
            self.folder.add()
        self.table = projseg.Table.attach(
            self.ours,
            f"parquet:{self.folder.place}/**/*.parquet",
            time_column="time",
            projections=[one for one in PROJECTIONS if random.integers(3)],
            indexes=[Index("pages", "page")] if random.integers(2) else [],
            target_segment_rows=int(random.choice([200, 400, 10_000])),
        )
        self.has_view = bool(random.integers(2))
        if self.has_view:
            self.table.create_view("flags", VIEW)
        self.pinned, self.promised = self.table, {}

    def step(self):
        step = str(self.random.choice(Folder.STEPS))
        getattr(self.folder, step)()
        before = stats_of(self.folder.place)
        # A file with the size, time and inode of another is only told from it by its footer.
        needs_footers = step in ("overwrite_in_place", "roll_back")
        is_synchronised = needs_footers or self.random.integers(3) == 0
        if is_synchronised:
            self.table.sync(verify=needs_footers)
        fresh = projseg.Table(self.ours)
        assert fresh.source.files == len(self.folder.files)
        assert not is_synchronised or fresh.source.files_without_companion == 0
        if self.has_view and self.random.integers(4) == 0:
            fresh.view("flags").refresh()
        self.ask(fresh, step, is_synchronised)
        self.ask_pinned(fresh, step)
        assert stats_of(self.folder.place) == before, step

    def ask(self, fresh, step, is_synchronised):
        known = set(fresh.schema.names) & self.folder.names()
        for _ in range(3):
            text = drawn_question(self.random, known)
            found = asked(fresh, text)
            if is_synchronised or not isinstance(found, str):
                expected = self.folder.ask(text)
                assert found == expected, (step, text, str(fresh.explain(text)))

    def ask_pinned(self, fresh, step):
        for text, answer in self.promised.items():
            found = asked(self.pinned, text)
            assert found == answer or isinstance(found, str), (step, text)
        if self.random.integers(4) == 0:
            known = set(fresh.schema.names) & self.folder.names()
            texts = [drawn_question(self.random, known) for _ in range(2)]
            self.pinned = fresh.newest()
            answers = {text: asked(self.pinned, text) for text in texts}
            self.promised = {k: one for k, one in answers.items() if not isinstance(one, str)}


@pytest.mark.parametrize("seed", range(tries(500, 2)))
def test_every_answer_is_of_the_files_that_are_there(seed, tmp_path):
    life = Life(seed, tmp_path)
    for _ in range(STEPS):
        life.step()
    life.table.sync()
    assert [str(one) for one in projseg.Table(life.ours).verify(deep=True)] == []
