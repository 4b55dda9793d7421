"""An erasure leaves no value in a view, a stored result or a stray file, or it tells of each file.

The search is a stranger's: every byte below the tables is read, every compressed part decompressed
and every value decoded, by a reader that knows SPEC.md alone.
"""

import os
import random
import re
import shutil
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from results_without_spark import create_result, runs
from scale import tries
from searched_files import markers_by_file

import projseg
from projseg import Table
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT

SEEN = Counter()
COLUMNS = {"time": "timestamp", "who": "string", "k": "int", "n": "bigint"}


def marker(number):
    return f"MK{number:06d}K"


@contextmanager
def suppress_existing():
    """Pass over a view that another one makes needless."""
    try:
        yield
    except ProjsegError as error:
        if error.code != "PROJSEG_VIEW_EXISTS":
            raise


class Warehouse:
    """A fact and a dimension of persons, with views of several kinds; each text is a marker."""

    def __init__(self, folder, seed):
        self.random, self.folder, self.written = random.Random(seed), folder, 0
        self.fact = Table.create(
            folder / "f", COLUMNS, time_column="time", segment_granularity="day"
        )
        self.people = Table.create(folder / "p", {"k": "int", "name": "string", "note": "string"})
        self.people.append([{"k": k, "name": self.new(), "note": self.new()} for k in range(6)])
        self.append()

    def new(self):
        self.written += 1
        return marker(self.written)

    def append(self):
        rows = [
            {"time": n * 40_000_000_000, "who": self.new(), "k": self.random.randrange(8), "n": n}
            for n in range(self.random.randrange(1, 9))
        ]
        schema = projseg.Table(self.fact.location).schema
        self.fact.refresh().append(pa.Table.from_pylist(rows, schema))

    def add_view(self):
        name = f"v{self.random.randrange(10**9)}"
        text = marker(self.random.randrange(1, self.written + 1))
        star = "FROM f JOIN p ON f.k = p.k"
        sql = self.random.choice(
            [
                "SELECT who, count(*) AS c FROM f GROUP BY who",
                "SELECT k, max(who) AS m, count(*) AS c FROM f GROUP BY k",
                f"SELECT k, count(*) AS c FROM f WHERE who <> '{text}' GROUP BY k",
                f"SELECT k, count(*) FILTER (WHERE who = '{text}') AS c FROM f GROUP BY k",
                f"SELECT p.name, count(*) AS c {star} GROUP BY p.name",
                f"SELECT p.note, p.name, max(who) AS m {star} GROUP BY ALL",
                f"SELECT p.name, sum(n) AS s {star} WHERE p.note <> '{text}' GROUP BY p.name",
            ]
        )
        tables = {"f": self.fact, "p": self.people.refresh()} if "JOIN" in sql else None
        how = {"refresh": self.random.choice(["commit", "deferred"])}
        how["comment"] = self.random.choice([None, None, text])
        with suppress_existing():
            self.fact.refresh().create_view(name, sql, tables=tables, **how)

    def add_result(self):
        """Store the rows of a SELECT, as Spark would."""
        text = marker(self.random.randrange(1, self.written + 1))
        select = self.random.choice(
            [
                "SELECT p.name, count(*) AS c FROM f JOIN p ON f.k = p.k GROUP BY p.name",
                "SELECT who, n FROM f ORDER BY n LIMIT 5",
                f"SELECT who, n FROM f WHERE who <> '{text}' LIMIT 3",
            ]
        )
        name = f"r{self.random.randrange(10**9)}"
        tables = {"f": self.fact.refresh(), "p": self.people.refresh()}
        with suppress_existing():
            create_result(self.fact, name, select, tables, runs())

    def change(self):
        self.random.choice(
            [
                self.append,
                self.append,
                self.add_view,
                self.add_view,
                self.add_result,
                self.refresh,
                self.tag,
                self.stray,
                self.rename_person,
                self.date_ahead,
            ]
        )()

    def refresh(self):
        views = self.fact.refresh().views().to_pylist()
        for name in [one["name"] for one in views if one["grade"] == "grouped"]:
            self.fact.view(name).refresh(full=self.random.random() < 0.3)

    def tag(self):
        self.fact.refresh().tag(f"t{self.random.randrange(10**9)}")

    def rename_person(self):
        self.people.refresh().update({"name": f"'{self.new()}'"}, f"k = {self.random.randrange(6)}")

    def files(self):
        return [p for p in self.folder.rglob("*") if p.is_file()]

    def date_ahead(self):
        """Let the clock that dates files have been hours ahead for some of them."""
        later = time.time() + self.random.choice([60, 3600, 8 * 86400])
        for path in self.files():
            if self.random.random() < 0.5:
                os.utime(path, (later, later))

    def stray(self):
        """Leave a copy of a file, as killed writers and other programs do."""
        path = self.random.choice([p for p in self.files() if p.suffix == ".pseg"])
        write_id = f"{self.random.randrange(16**32):032x}"
        name = self.random.choice(
            [
                f"{write_id}-0-0-0.pseg",
                f"{path.name}.{self.random.randrange(16**16):016x}.tmp",
                "part-00000.snappy.parquet",
                f"_temporary/0/{write_id}",
            ]
        )
        target = path.parent / name
        target.parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(path, target)

    def erase(self):
        """Erase the rows of a person in one of the tables; return what it told, and the texts."""
        if self.random.random() < 0.5:
            table, column = self.people, self.random.choice(["name", "note"])
        else:
            table, column = self.fact, "who"
        known = [one for one in table.refresh().query(columns=column)[column].to_pylist() if one]
        if not known:
            return table, None, None
        gone = self.random.sample(known, min(len(known), self.random.randint(1, 2)))
        rows = ", ".join(f"'{one}'" for one in gone)
        KEPT.clear()
        return table, table.erase(f"{column} IN ({rows})"), {one.encode() for one in gone}


def where_left(warehouse, gone):
    """Return the files below both tables that hold an erased text."""
    return {
        f"{name}/{file}": gone & markers
        for name in ("f", "p")
        for file, markers in markers_by_file(warehouse.folder / name, SEEN).items()
        if gone & markers
    }


def told_of(warehouse, table, file, found):
    """Whether what an erasure tells names a file, or the version or place that it is of."""
    own = Path(table.location).name
    name = file.removeprefix(f"{own}/") if file.startswith(f"{own}/") else None
    told = {one["file"] for one in found.to_pylist()}
    return name in told or f"{warehouse.folder}/{file}" in told


@pytest.mark.parametrize("part", range(4))
def test_random_lives_leave_nothing_untold(tmp_path, part):
    empty = told = 0
    for number in range(tries(60)):
        seed = 1000 * part + number
        warehouse = Warehouse(tmp_path / str(seed), seed)
        for _ in range(warehouse.random.randint(3, 9)):
            warehouse.change()
        warehouse.add_view()
        table, done, gone = warehouse.erase()
        if done is None:
            continue
        left = where_left(warehouse, gone)
        untold = [file for file in left if not told_of(warehouse, table, file, done.found)]
        # A joined table has its own rows; what erasing in one says of another is of its views.
        other = "p/" if Path(table.location).name == "f" else "f/"
        is_joined = table.refresh().properties.is_in_views
        other += "(?!views/)" if is_joined else ""
        untold = [file for file in untold if not re.match(other, file)]
        assert untold == [], (seed, untold, done.found.to_pylist())
        told += bool(done.found.num_rows)
        empty += not done.found.num_rows
        assert Table(warehouse.fact.location).verify() == [], seed
        shutil.rmtree(warehouse.folder)
    assert tries(60) < 20 or (empty and told)
    assert SEEN["values"] > 100


def test_a_dimension_that_is_erased_leaves_the_views_of_its_facts(tmp_path):
    warehouse = Warehouse(tmp_path, 1)
    sql = "SELECT p.name, count(*) AS c FROM f JOIN p ON f.k = p.k GROUP BY p.name"
    warehouse.fact.create_view("v", sql, tables={"f": warehouse.fact, "p": warehouse.people})
    name = warehouse.people.refresh().query(columns="name", filter="k = 1")["name"][0].as_py()
    before = where_left(warehouse, {name.encode()})
    assert any(file.startswith("f/views/data") for file in before), before
    done = warehouse.people.refresh().erase("k = 1 AND name = :who", args={"who": name})
    assert done.found.to_pylist() == []
    assert where_left(warehouse, {name.encode()}) == {}


def test_files_of_views_that_are_dated_ahead(tmp_path):
    warehouse = Warehouse(tmp_path, 2)
    warehouse.fact.create_view("v", "SELECT who, count(*) AS c FROM f GROUP BY who")
    who = warehouse.fact.query(columns="who")["who"][0].as_py()
    later = time.time() + 8 * 86400
    for path in warehouse.files():
        os.utime(path, (later, later))
    done = warehouse.fact.erase(f"who = '{who}'")
    assert done.found.to_pylist() == []
    assert where_left(warehouse, {who.encode()}) == {}


def test_a_literal_of_a_select_is_told_until_the_view_is_dropped(tmp_path):
    warehouse = Warehouse(tmp_path, 3)
    who = warehouse.fact.query(columns="who")["who"][0].as_py()
    warehouse.fact.create_view("v", f"SELECT k, count(*) FILTER (WHERE who = '{who}') AS c FROM f "
                               "GROUP BY k")  # fmt: skip
    told = warehouse.fact.erase(f"who = '{who}'").found.to_pylist()
    assert {one["what"] for one in told} == {"texts"}
    assert all("drop the view" in one["advice"] for one in told)
    warehouse.fact.view("v").drop()
    assert warehouse.fact.erase(f"who = '{who}'").found.to_pylist() == []
    assert where_left(warehouse, {who.encode()}) == {}
