"""Random SELECTs over SELECTs: DuckDB, and every source of the table, give the same rows."""

import pytest
from answers_agree import same
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries
from sql_statements import duckdb_over, statement_rows, statement_table, values_of

NUMBERS, TEXTS = ["added"], ["channel", "`user name`"]
"""Columns of the table that the random statements start from."""


@pytest.fixture(scope="module")
def rows():
    return statement_rows()


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return statement_table(tmp_path_factory.mktemp("nested") / "edits", rows)


class Writer:
    """Writes statements; each level has new names for its columns."""

    def __init__(self, random):
        self.random = random
        self.count = 0

    def name(self):
        self.count += 1
        return self.random.choice(["c", "C", "added", "channel"]) + str(self.count)

    def number(self, numbers):
        one = self.random.choice(numbers)
        return self.random.choice([one, f"{one} + 1", f"coalesce({one}, 3)", f"{one} % 7"])

    def text(self, texts):
        one = self.random.choice(texts)
        return self.random.choice([one, f"upper({one})", f"coalesce({one}, '#b')"])

    def where(self, numbers, texts):
        parts = [
            f"{self.number(numbers)} > {self.random.randint(-2, 60)}",
            f"{self.text(texts)} {self.random.choice(['<', '<>', '>='])} '#b'",
            f"{self.random.choice(numbers + texts)} IS NOT NULL",
        ]
        kept = self.random.sample(parts, self.random.randint(0, 2))
        return f" WHERE {self.random.choice([' AND ', ' OR ']).join(kept)}" if kept else ""

    def level(self, source, numbers, texts):
        """Return a SELECT over a source, and the numbers and texts that it puts out."""
        number, text = self.name(), self.name()
        kind = self.random.choice(["rows", "rows", "groups", "distinct", "first", "star"])
        where = self.where(numbers, texts)
        if kind == "star":
            return f"SELECT * FROM {source}{where}", numbers, texts
        of_text = f"{self.text(texts)} AS {text}"
        if kind == "groups":
            call = self.random.choice(["sum", "min", "max", "count"])
            value = f"CAST({call}({self.number(numbers)}) AS BIGINT)"
            having = self.random.choice(["", f" HAVING count(*) > {self.random.randint(0, 9)}"])
            statement = f"SELECT {of_text}, {value} AS {number} FROM {source}{where}"
            return f"{statement} GROUP BY 1{having}", [number], [text]
        outputs = f"{self.number(numbers)} AS {number}, {of_text}"
        word = "DISTINCT " if kind == "distinct" else ""
        end = ""
        if kind == "first":
            end = f" ORDER BY 1 NULLS FIRST, 2 NULLS FIRST LIMIT {self.random.randint(0, 40)}"
        return f"SELECT {word}{outputs} FROM {source}{where}{end}", [number], [text]

    def statement(self):
        inner, numbers, texts = self.level("edits", NUMBERS, TEXTS)
        for _ in range(self.random.randint(1, 3)):
            if self.random.random() < 0.5 or inner.startswith("WITH"):
                inner, numbers, texts = self.level(f"({inner}) AS q", numbers, texts)
            else:
                outer, numbers, texts = self.level("g", numbers, texts)
                inner = f"WITH g AS ({inner}) {outer}"
        return inner


def sorted_values(answer):
    return sorted(values_of(answer), key=repr)


@settings(max_examples=tries(160))
@given(st.randoms(use_true_random=False))
def test_duckdb_agrees(table, rows, random):
    statement = Writer(random).statement()
    with duckdb_over(rows) as peer:
        expected = sorted_values(peer.sql(statement).to_arrow_table())
    for context in ({}, {"noProjections": True}):
        found = sorted_values(table.sql(statement, context=context))
        assert len(found) == len(expected), statement
        for row, other in zip(found, expected, strict=True):
            assert all(map(same, row, other)), (statement, row, other)
