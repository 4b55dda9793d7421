"""Fields of structs are matched by name, in any case, and none is dropped in silence."""

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError

INNER = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("one", INNER),
        ("many", pa.list_(INNER)),
        ("named", pa.map_(pa.string(), pa.struct([("Deep", pa.list_(INNER))]))),
    ]
)
STORED = {"x": 7, "y": "z"}
SPELLINGS = [
    {"x": 7, "y": "z"},
    {"X": 7, "Y": "z"},
    {"y": "z", "X": 7},
]


@pytest.fixture
def table(tmp_path):
    return projseg.Table.create(tmp_path / "t", SCHEMA)


def rows_of(table):
    return table.scan().read_all().to_pylist()


def arrow(name, value):
    """A batch of one row whose columns have the types that Arrow infers."""
    values = {"k": "a", name: value}
    if name == "named":
        ((key, inner),) = value.items()
        typed = pa.map_(pa.string(), pa.array([inner]).type)
        return pa.table({"k": ["a"], "named": pa.array([[(key, inner)]], typed)})
    return pa.table({column: [each] for column, each in values.items()})


@pytest.mark.parametrize("fields", SPELLINGS)
@pytest.mark.parametrize(
    ("column", "nest"),
    [
        ("one", lambda v: v),
        ("many", lambda v: [v, None]),
        ("named", lambda v: {"n": {"deep": [v]}}),
    ],
)
def test_fields_are_found_in_any_case_and_order(table, column, nest, fields):
    table.append(arrow(column, nest(fields)))
    (row,) = rows_of(table)
    kept = nest(STORED)
    assert row[column] == ([("n", {"Deep": [STORED]})] if column == "named" else kept)


def test_rows_of_python_are_matched_likewise(table):
    table.append([{"k": "a", "one": {"X": 1, "Y": "b"}}, {"k": "b", "one": {"Y": "c"}}])
    table.merge([{"k": "b", "one": {"X": 2, "y": "d"}}], ["k"])
    found = {row["k"]: row["one"] for row in rows_of(table)}
    assert found == {"a": {"x": 1, "y": "b"}, "b": {"x": 2, "y": "d"}}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"one": {"x": 1, "z": 3}}, "no field 'z'"),
        ({"one": {"p": 1}}, "no field 'p'"),
        ({"many": [{"zz": 5}]}, "no field 'zz'"),
        ({"one": {"x": 1, "X": 2}}, "two fields 'x'"),
    ],
)
@pytest.mark.parametrize("verb", ["append", "overwrite", "merge"])
def test_other_fields_are_refused(table, row, problem, verb):
    table.append([{"k": "a", "one": STORED}])
    with pytest.raises(InvalidInputError, match=problem) as caught:
        getattr(table, verb)([{"k": "a", **row}], *([["k"]] if verb == "merge" else []))
    assert caught.value.code == "PROJSEG_SCHEMA_MISMATCH"
    assert [row["one"] for row in rows_of(table)] == [STORED]


def test_a_struct_may_be_null_where_its_fields_may_not(table):
    strict = pa.struct([pa.field("X", pa.int32(), nullable=False), ("y", pa.string())])
    ones = pa.array([{"X": 1, "y": "b"}, None], strict)
    lists = pa.array([[{"X": 2, "y": "c"}, None], None], pa.list_(pa.field("item", strict, False)))
    table.append(pa.table({"k": ["a", "b"], "one": ones, "many": lists}))
    found = [(row["one"], row["many"]) for row in rows_of(table)]
    assert found == [({"x": 1, "y": "b"}, [{"x": 2, "y": "c"}, None]), (None, None)]
