"""What was removed is in no file after a compaction and a vacuum, unless a tag is told to keep it.

Random lives write values of which each is a marker, and remove rows, columns and projections. A
reader made from SPEC.md alone then searches every file: its bytes, each page decompressed, each
dictionary and value decoded, manifests and snapshots.
"""

import json
import random
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from searched_files import NUMBER_MIN, markers_by_file

import projseg
from projseg.segment_format.footer import parse_tail
from projseg.segment_format.indexes.bloom_file import BLOOM_TAIL_MAGIC, BloomFile

START = datetime(2024, 5, 1, tzinfo=UTC)
COLUMNS = {
    "name": pa.string(),
    "mail": pa.string(),
    "code": pa.int64(),
    "notes": pa.list_(pa.string()),
    "raw": pa.binary(),
}
INDEXES = [
    projseg.Index("exact", ["code", "raw"], kind="bloom"),
    projseg.Index("words", ["name", "mail"], kind="token"),
    projseg.Index("parts", ["name", "mail"], kind="ngram"),
]
PROJECTIONS = {
    "by_name": ("name", "SELECT name, count(*) AS n, min(mail) AS m GROUP BY ALL", {"mail"}),
    "codes": ("code", "SELECT date_trunc('DAY', time) AS d, max(code) AS c GROUP BY ALL", set()),
    "upper": ("mail", "SELECT upper(mail) AS u, count(*) AS n GROUP BY ALL", set()),
    "failing": ("mail", "SELECT CAST(mail AS int) AS i, count(*) AS n GROUP BY ALL", set()),
    "rows": ("name", "SELECT name, code, time ORDER BY name", {"code"}),
    "raws": ("raw", "SELECT raw, count(*) AS n GROUP BY ALL", set()),
}
SEEN = Counter()


class Life:
    """A table whose every value is a marker, and the rows that it should have."""

    def __init__(self, location, seed):
        self.random = random.Random(seed)
        self.written = 0
        schema = pa.schema([("time", pa.timestamp("us", "UTC")), *COLUMNS.items()])
        self.table = projseg.Table.create(
            location,
            schema,
            time_column="time",
            segment_granularity="day",
            target_segment_rows=self.random.choice([10, 40, 1000]),
            indexes=INDEXES,
            properties={"maxDeletedRatio": self.random.choice(["0.2", "0.7"])},
        )
        self.rows = []
        self.tagged = {}
        self.ever = set()

    def marker(self, name):
        """Return a value that no other has, and remember what is searched for."""
        self.written += 1
        text = f"MK{self.written:06}K"
        number = NUMBER_MIN + self.written
        self.ever |= {number} if name == "code" else {text.encode()}
        return {"code": number, "notes": [text], "raw": text.encode()}.get(name, text)

    def append(self):
        batch = []
        for _ in range(self.random.randint(1, 15)):
            moment = START + timedelta(hours=self.random.randint(0, 60))
            names = [name for name in self.table.schema.names if name != "time"]
            repeats = {name: self.random.random() < 0.3 and self.rows for name in names}
            batch.append(
                {
                    "time": moment,
                    **{
                        name: (self.random.choice(self.rows).get(name) if repeats[name] else None)
                        or self.marker(name)
                        for name in names
                    },
                }
            )
        self.table.append(pa.Table.from_pylist(batch, self.table.schema))
        self.rows += batch

    def condition(self):
        """Return a condition over markers as SQL, and as a function of a row."""
        names = [name for name in ("name", "mail", "code") if name in self.table.schema.names]
        if not self.rows or not names:
            return None
        name = self.random.choice(names)
        some = self.random.sample(self.rows, min(3, len(self.rows)))
        meant = {row[name] for row in some if row[name] is not None}
        texts = ", ".join(repr(value) for value in sorted(meant))
        return (f"{name} IN ({texts})", lambda row: row[name] in meant) if texts else None

    def delete(self):
        if (condition := self.condition()) is not None:
            text, is_meant = condition
            done = self.table.delete(text)
            kept = [row for row in self.rows if not is_meant(row)]
            assert done.deleted_rows == len(self.rows) - len(kept)
            self.rows = kept

    def update(self):
        if "mail" in self.table.schema.names and (condition := self.condition()) is not None:
            text, is_meant = condition
            value = self.marker("mail")
            self.table.update({"mail": f"'{value}'"}, text)
            self.rows = [{**row, "mail": value} if is_meant(row) else row for row in self.rows]

    def overwrite(self):
        start = self.random.randint(0, 60)
        end = start + self.random.randint(1, 20)
        bounds = [START + timedelta(hours=hour) for hour in (start, end)]
        self.table.overwrite(self.table.schema.empty_table(), interval=bounds)
        self.rows = [row for row in self.rows if not bounds[0] <= row["time"] < bounds[1]]

    def drop_column(self):
        names = [name for name in self.table.schema.names if name != "time"]
        if len(names) > 1:
            name = self.random.choice(names)
            for projection in self.table.properties.projections:
                declared, _, others = PROJECTIONS[projection.name]
                if name == declared or name in others:
                    self.table.drop_projection(projection.name)
            self.drop_indexes_of(name)
            self.table.drop_column(name)
            for row in self.rows:
                row.pop(name, None)
            self.rows = [dict(row) for row in self.rows]

    def drop_indexes_of(self, column):
        declared = self.table.indexes()["name"].to_pylist()
        for index in INDEXES:
            if index.name in declared and column in index.columns:
                self.table.drop_index(index.name)

    def add_column(self):
        missing = [name for name in COLUMNS if name not in self.table.schema.names]
        if missing:
            name = self.random.choice(missing)
            self.table.add_column(name, "array<string>" if name == "notes" else SQL_TYPES[name])
            self.rows = [{**row, name: None} for row in self.rows]

    def add_projection(self):
        name = self.random.choice(sorted(PROJECTIONS))
        column, sql, others = PROJECTIONS[name]
        if {column, *others} <= set(self.table.schema.names):
            declared = {projection.name for projection in self.table.properties.projections}
            if name not in declared:
                materialize = self.random.random() < 0.5
                self.table.add_projection({"name": name, "sql": sql}, materialize=materialize)

    def drop_projection(self):
        declared = [projection.name for projection in self.table.properties.projections]
        if declared:
            self.table.drop_projection(self.random.choice(declared))

    def materialize(self):
        self.table.materialize_projection()

    def compact(self):
        self.table.compact(purge=self.random.random() < 0.5)

    def vacuum(self):
        self.table.vacuum(0, dry_run=False, force=True)

    def tag(self):
        name = f"tag-{len(self.tagged)}"
        self.tagged[name] = self.table.version
        self.table.tag(name)

    def drop_tag(self):
        if self.tagged:
            name = self.random.choice(sorted(self.tagged))
            del self.tagged[name]
            self.table.drop_tag(name)

    STEPS = (
        [append] * 4 + [delete] * 3 + [update] * 2 + [drop_column] * 2 + [add_projection] * 3
        + [drop_projection] * 2 + [overwrite, add_column, materialize, compact]
        + [vacuum, tag, drop_tag]
    )  # fmt: skip

    def live(self):
        """The markers that the table's rows hold."""
        names = self.table.schema.names
        found = set()
        for row in self.rows:
            for name in names:
                value = row.get(name)
                value = value[0] if isinstance(value, list) else value
                if isinstance(value, int):
                    found.add(value)
                elif isinstance(value, str | bytes):
                    found.add(value.encode() if isinstance(value, str) else value)
        return found


SQL_TYPES = {"name": "string", "mail": "string", "code": "bigint", "raw": "binary"}


def live_a_life(seed, steps=14):
    """Live one life, and search what it leaves; return what was found where it may be."""
    with tempfile.TemporaryDirectory() as folder:
        life = Life(f"{folder}/t", seed)
        life.append()
        for _ in range(steps):
            step = life.random.choice(Life.STEPS)
            step(life)
            SEEN[step.__name__] += 1
        for step in life.random.choices([Life.delete, Life.drop_column, Life.drop_projection], k=2):
            step(life)
        life.table.compact(purge=life.random.random() < 0.5)
        done = life.table.vacuum(0, dry_run=False, force=True)
        check(life, done)


def check(life, done):
    table = projseg.Table(life.table.location)
    snapshot = table.snapshot
    assert table.detail()["dead_bytes"] == 0
    told = done.still_stored.to_pylist()
    assert {one["tag"] for one in told} <= set(life.tagged)
    own = {f"_projseg/{snapshot.version:020}.json"}
    own |= {reference.name for reference in snapshot.file.manifests}
    own |= {file for entry in snapshot.segments for file in entry.files}
    may_keep = set()
    for one in told:
        tagged = projseg.Table(table.location, tag=one["tag"]).snapshot
        may_keep |= {file for entry in tagged.segments for file in entry.files}
        may_keep |= {reference.name for reference in tagged.file.manifests}
        may_keep.add(f"_projseg/kept-{tagged.version:020}.json")
    check_blooms(table, life.tagged)
    live, removed_in = life.live(), {}
    counts = Counter()
    for file, found in markers_by_file(table.location, counts).items():
        removed = found - live
        if removed:
            removed_in[file] = removed
        if file.endswith(".json"):
            parameters = (
                json.loads(open_text(table.location, file)).get("optional", {}).get("commit") or {}
            )
            assert "MK" not in json.dumps(parameters), "a condition's literal in the history"
    assert not removed_in.keys() & own, "the newest version's own files"
    assert removed_in.keys() <= may_keep, "files that no tag is told to keep"
    SEEN.update(counts)
    SEEN["removed markers"] += len(life.ever - live)
    SEEN["kept by tags"] += len(removed_in)
    by_column = {name for name in table.schema.names if name != "time"}
    assert found_rows(table, by_column) == sorted(
        str([row.get(name) for name in sorted(by_column)]) for row in life.rows
    )


def check_blooms(table, tags):
    """No Bloom file stays that no kept version lists; the newest's are of its segments alone.

    A tag's may speak of segments that were gone when the tag was made: nobody rewrites its list.
    """
    kept = [table.snapshot, *(projseg.Table(table.location, tag=tag).snapshot for tag in tags)]
    listed = {one.name for snapshot in kept for one in snapshot.bloom_files}
    stored = {f"data/{path.name}" for path in Path(table.location, "data").glob("*.pblm")}
    assert stored == listed, "Bloom files that no version lists"
    live = {entry.file for entry in table.snapshot.segments}
    for name in (one.name for one in table.snapshot.bloom_files):
        content = Path(table.location, name).read_bytes()
        tail = parse_tail(content[-40:], len(content), name, BLOOM_TAIL_MAGIC)[0]
        file = BloomFile.open(content[tail.footer_offset :], len(content), name)
        assert {one.file for one in file.footer.segments} <= live, "filters of segments gone"
        SEEN["filters"] += len(file.footer.segments)


def found_rows(table, names):
    rows = table.query(columns=sorted(names)).to_pylist()
    return sorted(str([row[name] for name in sorted(names)]) for row in rows)


def open_text(location, file):
    with open(f"{location}/{file}") as opened:
        return opened.read()


def lives(count, first=0):
    for seed in range(first, first + count):
        try:
            live_a_life(seed)
        except BaseException as error:
            error.add_note(f"life of seed {seed}")
            raise
    print(dict(SEEN))


def test_removed_values_are_in_no_file_after_a_few_lives():
    lives(5)
    lives(1, first=1002)
    assert SEEN["removed markers"] > 50
    assert SEEN["pages"] > 100
    assert SEEN["filters"] > 10
    assert SEEN["postings"] > 0


@pytest.mark.slow
def test_removed_values_are_in_no_file_after_many_lives(record_property):
    lives(300, first=1000)
    for name, count in SEEN.items():
        record_property(name, count)
    assert SEEN["kept by tags"] > 10
    assert SEEN["postings"] > 100


def test_the_search_finds_what_is_there():
    """It is no search if it does not find values that stay: before a compaction, and all live."""
    with tempfile.TemporaryDirectory() as folder:
        life = Life(f"{folder}/t", 7)
        for _ in range(3):
            life.append()
        life.table.add_projection({"name": "by_name", "sql": PROJECTIONS["by_name"][1]}, True)
        life.table.drop_projection("by_name")
        assert set().union(*markers_by_file(life.table.location).values()) == life.ever
        life.drop_indexes_of("mail")
        life.table.drop_column("mail")
        life.table.vacuum(0, dry_run=False, force=True)
        found = set().union(*markers_by_file(life.table.location).values())
        assert found == life.ever, "nothing left yet"
        life.table.compact()
        life.table.vacuum(0, dry_run=False, force=True)
        assert set().union(*markers_by_file(life.table.location).values()) < life.ever


def test_three_dropped_projections_were_most_of_a_table(tmp_path, record_property):
    """A table's bytes before and after they leave, on the disk."""
    rows = 60_000
    data = {
        "time": [START + timedelta(seconds=n) for n in range(rows)],
        "user": [f"user {n * 7919 % 50_000}" for n in range(rows)],
        "page": [f"page {n * 104_729 % 20_000}" for n in range(rows)],
        "n": list(range(rows)),
    }
    table = projseg.Table.create(
        tmp_path / "t",
        pa.schema(
            [("time", pa.timestamp("us", "UTC")), ("user", pa.string()), ("page", pa.string()),
             ("n", pa.int64())]
        ),
        time_column="time",
        segment_granularity="day",
        projections=[
            {"name": "users", "sql": "SELECT user, page, sum(n) AS s, count(*) AS c GROUP BY ALL"},
            {"name": "pages", "sql": "SELECT upper(page) AS p, min(user) AS u GROUP BY ALL"},
            {"name": "rows", "sql": "SELECT user, time, n, page ORDER BY user"},
        ],
    )  # fmt: skip
    table.append(data)
    plain = projseg.Table.create(
        tmp_path / "plain", table.schema, time_column="time", segment_granularity="day"
    )
    plain.append(data)
    sizes = {"with three projections": size_of(tmp_path / "t")}
    for name in ("users", "pages", "rows"):
        table.drop_projection(name)
    table.vacuum(0, dry_run=False, force=True)
    sizes["after drops and a vacuum"] = size_of(tmp_path / "t")
    sizes["dead bytes told"] = table.detail()["dead_bytes"]
    table.compact(purge=True)
    table.vacuum(0, dry_run=False, force=True)
    sizes["after a purge and a vacuum"] = size_of(tmp_path / "t")
    sizes["without projections"] = size_of(tmp_path / "plain")
    for name, size in sizes.items():
        record_property(name, size)
    print(sizes)
    assert sizes["after a purge and a vacuum"] < 1.02 * sizes["without projections"] + 10_000
    freed = sizes["after drops and a vacuum"] - sizes["after a purge and a vacuum"]
    # Dictionaries are in no manifest, so they are not among the bytes that are told.
    assert 0.3 * freed <= sizes["dead bytes told"] <= 1.1 * freed


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
