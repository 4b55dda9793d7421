"""Bloom filters of an expression of one column: lookups by it, and never another answer."""

import datetime as dt
import random

import pyarrow as pa
import pytest
from scale import tries

import projseg
from projseg.errors import ProjsegError

SCHEMA = pa.schema(
    [("page", pa.string()), ("n", pa.int32()), ("d", pa.date32()), ("f", pa.float64())]
)
EXPRESSIONS = [
    *("lower(page)", "upper(page)", "left(page, 2)", "concat(page, '!')"),
    *("coalesce(page, 'none')", "n % 7", "n DIV 3", "-n", "n + 1", "CAST(n AS STRING)"),
    *("year(d)", "f * 2", "CAST(f AS STRING)"),
]
PAGES = ["Ada", "ADA", "bob", "Bob ", "", "Éa", None]


def rows(r, count):
    """Return rows with nulls, NaN and both zeros."""
    values = {
        "page": lambda: r.choice(PAGES),
        "n": lambda: r.choice([None, r.randint(-40, 40)]),
        "d": lambda: r.choice([None, dt.date(2022, 1, 1) + dt.timedelta(r.randint(0, 900))]),
        "f": lambda: r.choice([None, 0.0, -0.0, float("nan"), 1.5, 1e300]),
    }
    made = {name: [draw() for _ in range(count)] for name, draw in values.items()}
    return pa.table(made, schema=SCHEMA)


def asked(table, condition, **context):
    try:
        found = table.query(filter=condition, context=context).to_pylist()
        return sorted(map(repr, found))
    except ProjsegError as error:
        return error.code


def found_in(table, condition):
    """Return how many segments are opened, and how many indexes leave out."""
    figures = table.explain(columns=["n"], filter=condition).figures
    return figures.opened_segments, figures.index_pruned_segments


def test_a_lookup_by_an_expression_opens_few_segments(tmp_path):
    table = projseg.Table.create(
        tmp_path, SCHEMA, indexes=[projseg.Index("pages", "lower(page)", kind="bloom")]
    )
    for name in ("Ada", "Bob", "Cy", "DEE"):
        table.append({"page": ["0", name, "z"], "n": [1] * 3, "d": [None] * 3, "f": [None] * 3})
    assert found_in(table, "lower(page) = 'dee'") == (1, 3)
    assert table.query(filter="lower(page) = 'dee'")["page"].to_pylist() == ["DEE"]
    assert table.query(filter="LOWER(page) IN ('ada', 'cy')").num_rows == 2
    assert found_in(table, "page = 'DEE'") == (4, 0)
    with pytest.raises(ProjsegError) as refused:
        table.drop_column("page")
    assert refused.value.code == "PROJSEG_COLUMN_IN_USE"
    table.rename_column("page", "title")
    table.append({"title": ["0", "EVE", "z"], "n": [1] * 3, "d": [None] * 3, "f": [None] * 3})
    assert found_in(table, "lower(title) = 'dee'") == (1, 4)
    assert table.query(filter="lower(title) = 'eve'").num_rows == 1
    assert not table.verify(deep=True)


@pytest.mark.parametrize(
    ("columns", "kind", "code"),
    [
        ("concat(page, n)", "bloom", "PROJSEG_BAD_INDEX"),
        ("1 + 1", "bloom", "PROJSEG_BAD_INDEX"),
        ("CAST(page AS TIMESTAMP)", "bloom", "PROJSEG_BAD_INDEX"),
        ("page = 'a'", "bloom", "PROJSEG_BAD_INDEX"),
        ("lower(pgae)", "bloom", "PROJSEG_UNKNOWN_COLUMN"),
        ("lower(page)", "token", "PROJSEG_UNKNOWN_COLUMN"),
    ],
)
def test_what_no_index_can_have_is_refused(tmp_path, columns, kind, code):
    with pytest.raises(ProjsegError) as refused:
        projseg.Table.create(tmp_path, SCHEMA, indexes=[projseg.Index("i", columns, kind=kind)])
    assert refused.value.code == code


def drawn_table(r, place, chosen):
    """Return a table with an index of expressions, built early or late, and what these are now."""
    index = projseg.Index("i", chosen, kind="bloom")
    is_early = r.random() < 0.5
    table = projseg.Table.create(place, SCHEMA, indexes=[index] if is_early else [])
    for _ in range(4):
        table.append(rows(r, r.randint(1, 6)))
    if not is_early:
        table.add_index(index, materialize=r.random() < 0.8)
        table.append(rows(r, 3))
    change = r.choice(["none", "rename", "widen", "compact"])
    if change == "rename":
        table.rename_column("page", "title")
        chosen = [one.replace("page", "title") for one in chosen]
    elif change == "widen":
        table.widen_column("n", "bigint")
        table.append({"page": ["x"], "n": [2**40], "d": [None], "f": [None]})
    elif change == "compact":
        table.delete("n > 20")
        table.compact()
    return table, chosen


def conditions(r, table, expression):
    """Yield conditions on an expression, by values that it has."""
    values = table.sql(f"SELECT DISTINCT {expression} AS v FROM t")["v"].to_pylist()
    for value in r.sample(values, min(3, len(values))):
        text = "NULL" if value is None else repr(value)
        if isinstance(value, float):
            text = f"CAST('{value!r}' AS DOUBLE)"
        yield f"{expression} = {text}"
        yield f"{expression} <=> {text}"
        yield f"{expression} IN ({text}, {text})"
        yield f"{expression} = {text} AND n > 0"
        yield f"{expression} = {text} OR n = 3"


def test_answers_are_the_same_with_and_without(tmp_path):
    left_out = 0
    for seed in range(tries(60)):
        r = random.Random(seed)
        table, chosen = drawn_table(r, tmp_path / str(seed), r.sample(EXPRESSIONS, 4))
        assert not table.verify(deep=True), seed
        for expression in chosen:
            for condition in conditions(r, table, expression):
                expected = asked(table, condition, noIndexes=True)
                assert asked(table, condition) == expected, (seed, condition)
                left_out += found_in(table, condition)[1]
    assert left_out > 0
