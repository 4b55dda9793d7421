"""Random lives of a table against plain Python: every version answers as its rows say, for ever."""

import shutil
import tempfile
import uuid
from collections import defaultdict
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from life_tables import SCHEMA, answers, keyed, new_table, rows
from scale import IS_NIGHTLY, tries
from store_places import environment_of

import projseg
from projseg.errors import ProjectionNotUsableError

DECLARATIONS = {
    "a": [
        "SELECT channel, sum(added) AS added, count(*) AS n, max(page) AS page, "
        "count(added) AS known GROUP BY ALL",
        "SELECT channel, robot, sum(added) AS added, count(*) AS n, max(page) AS page, "
        "count(added) AS known GROUP BY ALL",
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
DECLARATIONS["d"] = [DECLARATIONS["a"][0], DECLARATIONS["b"][0]]  # one definition, two names
CONDITIONS = {
    "added < 0": lambda row: row["added"] is not None and row["added"] < 0,
    "NOT (channel = '#1')": lambda row: row["channel"] not in (None, "#1"),
    "robot AND page > 'page 2'": lambda row: row["robot"] and row["page"] > "page 2",
    "added IS NULL OR price = 1.5": lambda row: row["added"] is None or row["price"] == 1.5,
    "true": lambda row: True,
}
CHANGES = {
    "added": ("added + 1", lambda row: None if row["added"] is None else row["added"] + 1),
    "channel": ("concat('#', page)", lambda row: f"#{row['page']}"),
    "robot": ("NOT robot", lambda row: not row["robot"]),
}
TAKEN_BACK = {"group_by": "channel", "aggregators": "sum(added), count(*)"}
"""What projection "a" answers, whether rows are hidden or not."""

MEANT = st.sampled_from(sorted(CONDITIONS))
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

    # Seen in all lives: by these, deletion vectors were exercised, and projections freed of rows.
    hidden_rows, freed_answers = 0, 0

    def __init__(self):
        super().__init__()
        self.table = new_table(
            self.new_location(),
            target_segment_rows=60,
            projections=[{"name": "a", "sql": DECLARATIONS["a"][0]}],
            properties={"maxDeletedRatio": "0.6"},
        )
        self.days = defaultdict(list)
        self.declared = {"a": 0}
        self.written = 0
        self.versions = {0: {}}
        self.contents = {0: ({}, {"a": 0})}
        self.tagged = set()

    def new_location(self):
        """Return where a table may be made."""
        self.folder = tempfile.mkdtemp()
        return f"{self.folder}/t"

    def next_rows(self, number, count):
        self.written += count
        return rows(number, count=count, first=self.written)

    @initialize()
    def hide_a_row(self):
        """Begin with a deletion vector, whatever follows."""
        self.append(0, 30)
        self.change_few(0, updates=False)

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

    def changed(self, number, change):
        """Replace rows by what `change` returns of them, None for none; count those it meant."""
        count = 0
        for at in self.days if number is None else [number]:
            batches = []
            for batch in self.days[at]:
                found = [(row, change(row)) for row in batch.to_pylist()]
                count += sum(new is not row for row, new in found)
                left = [new for _, new in found if new is not None]
                batches.append(pa.Table.from_pylist(left, SCHEMA))
            self.days[at] = batches
        return count

    @rule(number=st.none() | DAYS, meant=MEANT)
    def delete(self, number, meant):
        done = self.table.delete(meant, None if number is None else day(number))
        count = self.changed(number, lambda row: None if CONDITIONS[meant](row) else row)
        assert done.deleted_rows == count

    @rule(page=st.integers(0, 22), updates=st.booleans())
    def change_few(self, page, updates):
        """Change the rows of one page, so few of a segment that a vector hides them."""
        meant = f"page = 'page {page}'"
        if updates:
            done = self.table.update({"robot": "NOT robot"}, meant)
        else:
            done = self.table.delete(meant)

        def changed(row):
            if row["page"] != f"page {page}":
                return row
            return {**row, "robot": not row["robot"]} if updates else None

        assert done.updated_rows + done.deleted_rows == self.changed(None, changed)

    @rule(number=st.none() | DAYS, meant=MEANT, column=st.sampled_from(sorted(CHANGES)))
    def update(self, number, meant, column):
        text, value = CHANGES[column]
        done = self.table.update({column: text}, meant, None if number is None else day(number))
        count = self.changed(
            number, lambda row: {**row, column: value(row)} if CONDITIONS[meant](row) else row
        )
        assert done.updated_rows == count

    @rule(pages=st.sets(st.integers(0, 22), min_size=1, max_size=5), deletes=st.booleans())
    def merge(self, pages, deletes):
        keys = [f"page {page}" for page in sorted(pages)]
        if deletes:
            self.table.merge({"page": keys}, ["page"], "delete", "ignore")
            self.changed(None, lambda row: None if row["page"] in keys else row)
        else:
            added = list(range(len(keys)))
            data = {"page": keys, "added": added}
            self.table.merge(data, ["page"], when_not_matched="ignore")
            new = dict(zip(keys, added, strict=True))
            self.changed(
                None, lambda row: {**row, "added": new[row["page"]]} if row["page"] in new else row
            )

    @rule(verb=st.sampled_from(["add", "widen", "rename", "drop"]))
    def change_a_column(self, verb):
        """Change a column of no values, so that stored names come and go between segments."""
        side = next((name for name in self.table.schema.names if name.startswith("side")), None)
        if side is None:
            self.table.add_column("side", "int")
        elif verb == "widen":
            self.table.widen_column(side, "bigint")
        elif verb == "rename":
            self.table.rename_column(side, "side" if side != "side" else "side 2")
        elif verb == "drop":
            self.table.drop_column(side)

    @rule(data=st.data())
    def restore(self, data):
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.table.restore(version)
        days, declared = self.contents[version]
        self.days = defaultdict(list, {number: list(batches) for number, batches in days.items()})
        self.declared = dict(declared)

    @rule(data=st.data())
    def tag(self, data):
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self.table.tag(f"t{self.table.version}", version)
        self.tagged.add(version)

    @rule()
    def vacuum(self):
        newest = self.table.version
        if self.table.vacuum(0, dry_run=False, force=True).version is not None:
            self.versions = {
                version: wanted
                for version, wanted in self.versions.items()
                if version >= newest or version in self.tagged
            }

    @invariant()
    def answers_are_those_of_the_rows(self):
        wanted = expected(self.days)
        hidden = sum(entry.deleted_row_count for entry in self.table.snapshot.segments)
        Life.hidden_rows += hidden
        with suppress(ProjectionNotUsableError):
            served = self.table.query(**TAKEN_BACK, context={"forceProjections": True})
            assert keyed(served, 1) == {key: sums[:2] for key, sums in wanted["channel"].items()}
            Life.freed_answers += hidden > 0
        assert answers(self.table) == wanted
        assert answers(self.table, noProjections=True) == wanted
        version = self.table.version
        self.versions[version] = wanted
        days = {number: list(batches) for number, batches in self.days.items()}
        self.contents[version] = (days, dict(self.declared))

    def teardown(self):
        for version, wanted in self.versions.items():
            assert answers(projseg.Table(self.table.location, version=version)) == (
                wanted or expected({})
            )
        assert self.table.verify(deep=True) == []
        self.remove()

    def remove(self):
        """Remove the table."""
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
            max_examples=tries(120, 6),
            stateful_step_count=30 if IS_NIGHTLY else 12,
        ),
    )
    assert Life.hidden_rows > 0
    assert Life.freed_answers > 0


@pytest.mark.folder
@pytest.mark.parametrize(
    ("examples", "steps"), [(2, 15), pytest.param(100, 25, marks=pytest.mark.slow)]
)
def test_random_lives_in_a_store(store_server, monkeypatch, examples, steps):
    for name, value in environment_of(store_server.options()).items():
        monkeypatch.setenv(name, value)

    class StoreLife(Life):
        def new_location(self):
            return f"s3://tables/{uuid.uuid4().hex}"

        def remove(self):
            """Leave it to the server, which forgets all tables."""

    run_state_machine_as_test(
        StoreLife, settings=settings(max_examples=examples, stateful_step_count=steps)
    )
