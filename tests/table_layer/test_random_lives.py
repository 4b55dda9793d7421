"""Random lives of a table against plain Python: every version answers as its rows say, for ever."""

import shutil
import tempfile
from collections import defaultdict

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from life_tables import answers, new_table, rows
from scale import IS_NIGHTLY

import projseg

DECLARATIONS = {
    "a": [
        "SELECT channel, sum(added) AS added, count(*) AS n, max(page) AS page GROUP BY ALL",
        "SELECT channel, robot, sum(added) AS added, count(*) AS n, max(page) AS page GROUP BY ALL",
    ],
    "b": [
        "SELECT date_trunc('HOUR', time) AS hour, robot, sum(price) AS price, count(*) AS n "
        "GROUP BY ALL",
        "SELECT page, robot, min(added) AS least, count(*) AS n GROUP BY ALL",
    ],
    "c": [
        "SELECT date_trunc('HOUR', time) AS hour, channel, robot, sum(added) AS added, "
        "count(*) AS n, max(page) AS page GROUP BY ALL",
        "SELECT 60 / added AS ratio, count(*) AS n GROUP BY ALL",
    ],
}
DAYS = st.integers(0, 3)
NAMES = st.sampled_from(sorted(DECLARATIONS))
SCOPES = st.sampled_from(
    [
        {},
        {"build": "deferred"},
        {"interval": "2024-05-02/2024-05-04"},
        {"max_row_ratio": 0.4},
        {"materialize": True},
    ]
)


def day(number):
    return f"2024-05-{number + 1:02}/P1D"


class Life(RuleBasedStateMachine):
    """A table, and the rows that it should have by day."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.table = new_table(f"{self.folder}/t", target_segment_rows=60)
        self.days = defaultdict(list)
        self.declared = {}
        self.written = 0
        self.versions = {0: {}}

    def next_rows(self, number, count):
        self.written += count
        return rows(number, count=count, first=self.written)

    @rule(number=DAYS, count=st.integers(1, 30))
    def append(self, number, count):
        batch = self.next_rows(number, count)
        self.table.append(batch)
        self.days[number].append(batch)

    @rule(first=DAYS, second=DAYS)
    def append_to_two_days(self, first, second):
        one, other = self.next_rows(first, 5), self.next_rows(second, 5)
        self.table.append(pa.concat_tables([one, other]))
        self.days[first].append(one)
        self.days[second].append(other)

    @rule(number=DAYS, count=st.integers(1, 20))
    def overwrite(self, number, count):
        batch = self.next_rows(number, count)
        self.table.overwrite(batch, interval=day(number))
        self.days[number] = [batch]

    @rule(name=NAMES, which=st.integers(0, 1), scope=SCOPES)
    def add_projection(self, name, which, scope):
        if self.declared.setdefault(name, which) == which:
            self.table.add_projection({"name": name, "sql": DECLARATIONS[name][which]}, **scope)

    @rule(name=NAMES)
    def drop_projection(self, name):
        if self.declared.pop(name, None) is not None:
            self.table.drop_projection(name)

    @rule(number=DAYS)
    def materialise_a_day(self, number):
        self.table.materialize_projection(interval=day(number))

    @rule()
    def materialise(self):
        self.table.materialize_projection()
        assert self.table.materialize_projection().segments == 0

    @rule(most=st.sampled_from([None, 10, 40]))
    def compact(self, most):
        self.table.compact(target_segment_rows=most)
        assert self.table.compact(dry_run=True, target_segment_rows=most).num_rows == 0

    @invariant()
    def answers_are_those_of_the_rows(self):
        wanted = expected(self.days)
        assert answers(self.table) == wanted
        assert answers(self.table, noProjections=True) == wanted
        self.versions[self.table.version] = wanted

    def teardown(self):
        for version, wanted in self.versions.items():
            assert answers(projseg.Table(self.table.location, version=version)) == (
                wanted or expected({})
            )
        assert self.table.verify(deep=True) == []
        shutil.rmtree(self.folder)


def expected(days):
    """The answers to `life_tables.ASKED`, in plain Python."""
    by_channel, by_hour, by_page = defaultdict(list), defaultdict(list), defaultdict(list)
    for batches in days.values():
        for batch in batches:
            for row in batch.to_pylist():
                hour = row["time"].replace(minute=0, second=0, microsecond=0)
                by_channel[(row["channel"],)].append(row)
                by_hour[hour, row["robot"]].append(row)
                if not row["robot"]:
                    by_page[(row["page"],)].append(row)
    return {
        "channel": {
            key: (_of(sum, found, "added"), len(found), max(row["page"] for row in found))
            for key, found in by_channel.items()
        },
        "hour": {
            key: (len(found), float(f"{sum(row['price'] for row in found):.12g}"))
            for key, found in by_hour.items()
        },
        "page": {key: (len(found), _of(min, found, "added")) for key, found in by_page.items()},
    }


def _of(function, found, name):
    known = [row[name] for row in found if row[name] is not None]
    return function(known) if known else None


def test_random_lives():
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=2_000 if IS_NIGHTLY else 12,
            stateful_step_count=30 if IS_NIGHTLY else 12,
        ),
    )
