"""Random changes of columns between other work, against plain Python and DuckDB."""

import shutil
import tempfile
from decimal import Decimal

import duckdb
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scale import IS_NIGHTLY, tries

import projseg
from projseg.algebra.expressions.sql_words import parse_type
from projseg.segment_format.logical_types import type_name

WIDER = {
    "tinyint": ["smallint", "int", "bigint", "double", "decimal(5,0)"],
    "smallint": ["int", "bigint", "double", "decimal(5,0)"],
    "int": ["bigint", "double", "decimal(12,0)"],
    "bigint": ["decimal(19,0)"],
    "float": ["double"],
    "decimal(5,2)": ["decimal(9,2)", "decimal(30,2)"],
    "decimal(5,0)": ["decimal(8,0)"],
    "decimal(12,0)": ["decimal(38,0)"],
}
TYPES = [*sorted(WIDER), "string", "array<int>"]
NAMES = st.sampled_from(["a", "b", "c", "d", "Long name"])
NUMBERS = st.none() | st.integers(-9, 9)


def sum_type(name):
    """Return Spark's type of a sum."""
    if name in ("float", "double"):
        return "double"
    if not name.startswith("decimal"):
        return "bigint"
    precision, scale = map(int, name[len("decimal(") : -1].split(","))
    return f"decimal({min(38, precision + 10)},{scale})"


def value_of(number, name):
    """Return a small number as a value of a type; every type of numbers holds it exactly."""
    if number is None:
        return None
    if name == "string":
        return f"text {number}"
    if name == "array<int>":
        return [number]
    if name in ("float", "double"):
        return number / 4 if name == "float" else float(number)
    return Decimal(number) if name.startswith("decimal") else number


def alike(value):
    """Return a value so that equal numbers of different types are equal."""
    return float(value) if isinstance(value, int | Decimal) else value


class ColumnLife(RuleBasedStateMachine):
    """A table, and its columns and rows by ids that are never given again."""

    @initialize(
        declared=st.lists(st.sampled_from(sorted(WIDER)), min_size=2, max_size=2),
    )
    def create(self, declared):
        self.folder = tempfile.mkdtemp()
        names = {"k": "string", **dict(zip(("a", "b"), declared, strict=True))}
        self.columns = {n: (name, type_) for n, (name, type_) in enumerate(names.items())}
        self.next_id = len(names)
        self.rows = []
        self.table = projseg.Table.create(f"{self.folder}/t", names, target_segment_rows=10)
        self.saved = {}
        self.made = 0

    def teardown(self):
        shutil.rmtree(getattr(self, "folder", "none"), ignore_errors=True)

    def id_of(self, name):
        return next((n for n, (known, _) in self.columns.items() if known == name), None)

    def is_free(self, name):
        return all(known.casefold() != name.casefold() for known, _ in self.columns.values())

    def is_number(self, n):
        return self.columns[n][1] not in ("string", "array<int>")

    def saved_now(self):
        self.saved[self.table.version] = (dict(self.columns), [dict(row) for row in self.rows])

    @rule(numbers=st.lists(st.lists(NUMBERS, min_size=5, max_size=5), min_size=1, max_size=12))
    def append(self, numbers):
        added = [
            {
                n: value_of(row[place % 5], type_)
                for place, (n, (_, type_)) in enumerate(self.columns.items())
            }
            for row in numbers
        ]
        self.rows += added
        self.table.append(self.arrow(added))
        self.saved_now()

    def arrow(self, rows, columns=None):
        columns = self.columns if columns is None else columns
        return pa.table(
            {
                name: pa.array([self.read(row, n, type_) for row in rows], parse_type(type_))
                for n, (name, type_) in columns.items()
            }
        )

    def read(self, row, n, type_):
        value = row.get(n)
        if value is not None and type_.startswith("decimal"):
            return Decimal(value)
        return float(value) if value is not None and type_ == "double" else value

    @rule(name=NAMES, type_=st.sampled_from(TYPES))
    def add(self, name, type_):
        if not self.is_free(name):
            return
        self.table.add_column(name, type_)
        self.columns[self.next_id] = (name, type_)
        self.next_id += 1
        self.saved_now()

    @rule(data=st.data(), name=NAMES)
    def rename(self, data, name):
        n = data.draw(st.sampled_from(sorted(self.columns)))
        if self.is_free(name):
            self.table.rename_column(self.columns[n][0], name)
            self.columns[n] = (name, self.columns[n][1])
            self.saved_now()

    @rule(data=st.data())
    def drop(self, data):
        n = data.draw(st.sampled_from(sorted(self.columns)))
        if n == 0:
            return
        for projection in self.table.projections().to_pylist():
            self.table.drop_projection(projection["name"])
        self.table.drop_column(self.columns.pop(n)[0])
        self.saved_now()

    @rule(data=st.data())
    def widen(self, data):
        able = [n for n in sorted(self.columns) if self.columns[n][1] in WIDER]
        if able:
            n = data.draw(st.sampled_from(able))
            name, narrow = self.columns[n]
            wide = data.draw(st.sampled_from(WIDER[narrow]))
            self.table.widen_column(name, wide)
            self.columns[n] = (name, wide)
            self.saved_now()

    @rule(build=st.sampled_from(["immediate", "deferred"]), is_built=st.booleans())
    def add_projection(self, build, is_built):
        if self.made >= 3:
            return
        self.made += 1
        calls = [call for call, _ in self.calls()]
        key = f"`{self.columns[0][0]}`"
        self.table.add_projection(
            projseg.Projection(f"p{self.made}", group_by=[key], aggregators=calls),
            build=build,
            materialize=is_built,
        )
        self.saved_now()

    @rule()
    def materialize(self):
        self.table.materialize_projection()
        self.saved_now()

    @rule()
    def compact(self):
        self.table.compact(target_segment_rows=25)
        self.saved_now()

    @rule(limit=st.integers(-5, 5))
    def delete(self, limit):
        n = next((n for n in sorted(self.columns) if self.is_number(n)), None)
        if n is not None:
            self.table.delete(f"`{self.columns[n][0]}` > {limit}")
            self.rows = [row for row in self.rows if row.get(n) is None or row[n] <= limit]
            self.saved_now()

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def restore(self, data):
        version = data.draw(st.sampled_from(sorted(self.saved)))
        self.table.restore(version)
        columns, rows = self.saved[version]
        self.columns, self.rows = dict(columns), [dict(row) for row in rows]
        self.saved_now()

    def calls(self):
        """Return aggregates of all columns of numbers, with the types that Spark gives them."""
        found = [("count(*) AS n", "bigint")]
        for n, (name, type_) in sorted(self.columns.items()):
            if self.is_number(n):
                told = {"sum": sum_type(type_), "min": type_, "max": type_, "count": "bigint"}
                found += [(f"{f}(`{name}`) AS {f}{n}", kind) for f, kind in told.items()]
        return found

    @invariant()
    def rows_are_those_of_the_model(self):
        assert {f.name: type_name(f.type) for f in self.table.schema} == dict(self.columns.values())
        found = self.table.query(columns=[f"`{name}`" for name, _ in self.columns.values()])
        expected = self.arrow(self.rows)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))

    @invariant()
    def answers_are_those_of_duckdb(self):
        calls = self.calls()
        key = self.columns[0][0]
        asked = {"group_by": f"`{key}` AS k", "aggregators": [call for call, _ in calls]}
        found = self.table.query(**asked)
        assert found.equals(self.table.query(**asked, context={"noProjections": True}))
        assert [type_name(field.type) for field in found.schema][1:] == [kind for _, kind in calls]
        model = self.arrow(self.rows)  # DuckDB finds it by its name
        assert model.num_rows == len(self.rows)
        text = ", ".join([f'"{key}" AS k', *(call.replace("`", '"') for call, _ in calls)])
        theirs = duckdb.sql(f"SELECT {text} FROM model GROUP BY ALL").fetchall()
        mine = [tuple(map(alike, row.values())) for row in found.to_pylist()]
        assert sorted(mine, key=repr) == sorted((tuple(map(alike, r)) for r in theirs), key=repr)

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def an_earlier_version_reads_as_before(self, data):
        version = data.draw(st.sampled_from(sorted(self.saved)))
        columns, rows = self.saved[version]
        found = projseg.Table(self.table.location, version=version).query(
            columns=[f"`{name}`" for name, _ in columns.values()]
        )
        expected = self.arrow(rows, columns).to_pylist()
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected))

    @rule()
    def verify(self):
        assert self.table.verify(deep=True) == []


def test_column_lives():
    count, steps = tries(300, 8), 40 if IS_NIGHTLY else 20
    run_state_machine_as_test(
        ColumnLife,
        settings=settings(max_examples=count, stateful_step_count=steps, deadline=None),
    )
