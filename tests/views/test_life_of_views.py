"""Whatever is done to a table and its views, answers are those of its rows."""

import datetime as dt
from collections import Counter

import duckdb
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from scale import IS_NIGHTLY, IS_WHOLE_NIGHT, tries
from viewed_tables import (
    QUESTIONS,
    SCHEMA,
    START,
    VIEWS,
    answer,
    check_covers,
    in_duckdb,
    is_from_parts,
    new_viewed_table,
    row,
    rows,
)

from projseg import Table

ASKED = Counter()
DONE = Counter()

some_rows = st.lists(
    st.builds(
        row,
        st.integers(0, 80),
        st.integers(0, 59),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from([None, -3, 0, 1, 7, 2**40]),
        st.sampled_from([None, -150, 0, 99, 12345]),
    ),
    max_size=12,
)
conditions = st.sampled_from(
    ["k = 'a'", "g IS NULL", "n < 0", "time < TIMESTAMP '2024-02-28 03:00:00'", "price > 1.00"]
)


class Life(RuleBasedStateMachine):
    folder: str
    count = 0

    @initialize(several=some_rows)
    def create(self, several):
        Life.count += 1
        self.location = f"{self.folder}/{Life.count}"
        projections = [{"name": "p", "group_by": ["k", "g"], "aggregators": ["sum(n) AS n"]}]
        start = [row(hour, 5 * k, "abc"[k % 3], k, hour, 100) for hour in range(40) for k in (0, 1)]
        self.table = new_viewed_table(
            self.location, [*start, *several], projections=projections, segment_granularity="hour"
        )
        self.other = Table(self.location)
        self.content = rows([*start, *several])
        self.kept = {self.table.version: self.content}
        for place in (0, 1):
            self.table.create_view(f"v{place}", VIEWS[place])
        self._remember()

    def _remember(self):
        if self.table.version not in self.kept:
            for name in self._views():
                done = self.table.view(name).detail()["last_refresh"]
                DONE.update(subtracted=done["subtracted"], relabelled=done["relabelled"])
        self.kept[self.table.version] = self.content

    def _changed(self, sql):
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("given", self.content)
            connection.execute("CREATE TABLE t AS SELECT * FROM given")
            connection.execute(sql.replace("TIMESTAMP '", "TIMESTAMPTZ '"))
            found = connection.sql("SELECT * FROM t").to_arrow_table()
        self.content = found.cast(SCHEMA)
        self._remember()

    @rule(several=some_rows)
    def append(self, several):
        self.table.refresh().append(rows(several))
        self.content = pa.concat_tables([self.content, rows(several)])
        self._remember()

    @rule(several=some_rows)
    def append_by_another(self, several):
        self.other.refresh().append(rows(several))
        self.table.refresh()
        self.content = pa.concat_tables([self.content, rows(several)])
        self._remember()

    @rule(condition=conditions)
    def delete(self, condition):
        self.table.delete(condition)
        self._changed(f"DELETE FROM t WHERE {condition}")

    @rule(condition=conditions)
    def update(self, condition):
        self.table.update({"g": "coalesce(g, 0) + 1"}, filter=condition)
        self._changed(f"UPDATE t SET g = coalesce(g, 0) + 1 WHERE {condition}")

    @rule(several=some_rows, day=st.integers(0, 2))
    def overwrite(self, several, day):
        start = START + dt.timedelta(days=day)
        kept = [one for one in several if start <= one["time"] < start + dt.timedelta(days=1)]
        end = start + dt.timedelta(days=1)
        self.table.overwrite(rows(kept), interval=(start, end))
        self._changed(
            f"DELETE FROM t WHERE time >= TIMESTAMP '{start}' AND time < TIMESTAMP '{end}'"
        )
        self.content = pa.concat_tables([self.content, rows(kept)])
        self._remember()

    @rule(data=st.data())
    def restore(self, data):
        version = data.draw(st.sampled_from(sorted(self.kept)))
        content = self.kept[version]
        self.table.restore(version)
        self.content = content
        self._remember()

    @rule()
    def compact(self):
        self.table.compact()
        self._remember()

    @rule()
    def materialize(self):
        self.table.materialize_projection()
        self._remember()

    @rule()
    def vacuum(self):
        self.table.vacuum(0, dry_run=False, force=True)
        self.kept = {}
        self._remember()

    @rule(place=st.integers(0, len(VIEWS) - 1), refresh=st.sampled_from(["commit", "deferred"]))
    def create_view(self, place, refresh):
        self.table.create_view(f"v{place}", VIEWS[place], refresh=refresh, if_not_exists=True)
        self._remember()

    def _views(self):
        return self.table.refresh().views().column("name").to_pylist()

    @precondition(lambda self: self._views())
    @rule(data=st.data(), full=st.booleans())
    def refresh(self, data, full):
        view = self.table.view(data.draw(st.sampled_from(self._views())))
        if view.detail()["status"] == "ENABLED":
            view.refresh(full)

    @precondition(lambda self: self._views())
    @rule(data=st.data(), what=st.sampled_from(["enable", "disable", "drop"]))
    def alter(self, data, what):
        getattr(self.table.view(data.draw(st.sampled_from(self._views()))), what)()

    def teardown(self):
        if not hasattr(self, "table"):
            return
        check_covers(self.table)
        assert self.table.verify() == []
        for name in self._views():
            assert self.table.view(name).verify(deep=True) == []

    @rule(questions=st.lists(st.sampled_from(QUESTIONS), min_size=2, max_size=4))
    def ask(self, questions):
        for question in questions:
            self._ask(self.table, question, self.content)

    @rule(question=st.sampled_from(QUESTIONS))
    def ask_at_an_earlier_version(self, question):
        for version, content in list(self.kept.items())[-3:]:
            self._ask(Table(self.location, version=version), question, content)

    @rule(question=st.sampled_from(QUESTIONS))
    def ask_another(self, question):
        """What is pinned stays pinned, though others have refreshed the views since."""
        if self.other.version in self.kept:
            self._ask(self.other, question, self.kept[self.other.version])

    def _ask(self, table, question, content):
        wanted = in_duckdb(question, content)
        assert answer(table, question) == wanted, question
        assert answer(table, question, noViews=True) == wanted, question
        check_covers(table)
        ASKED[is_from_parts(table, question)] += 1


def test_answers_are_those_of_the_rows_through_all_of_a_life(tmp_path_factory):
    Life.folder = str(tmp_path_factory.mktemp("lives"))
    steps = settings(
        max_examples=tries(40, 3),
        stateful_step_count=40 if IS_NIGHTLY else 24,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    Life.TestCase.settings = steps
    Life.TestCase("runTest").runTest()
    if IS_WHOLE_NIGHT:
        assert ASKED[True] >= sum(ASKED.values()) / 2, ASKED
        assert min(DONE["subtracted"], DONE["relabelled"]) > 0, DONE
