"""Functions of texts over columns, against the same over one row and over constants."""

import random

import pyarrow as pa
import pytest
import row_texts
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.functions.text_cases import _tables
from projseg.algebra.expressions.tree import Call, Column, Literal
from projseg.errors import EvaluationError, LimitExceededError
from projseg.kernels.texts.text_changes import CODES

ROWS = 12


def outcome(expression, columns, count):
    """What an expression gives, or the code of its error."""
    try:
        found = evaluate(expression, columns, count)
    except EvaluationError as error:
        return error.code
    found.validate(full=True)
    return found.to_pylist()


def with_constants(node, row, names):
    """A tree in which some columns are the constants of one row."""
    if isinstance(node, Column) and node.name in names:
        return Literal(node.type, row[node.name])
    if isinstance(node, Call):
        children = tuple(with_constants(one, row, names) for one in node.arguments)
        return Call(node.type, node.function, children, node.parameters)
    return node


def test_values_do_not_depend_on_rows_beside_or_on_constants():
    for seed in range(tries(400)):
        rng = random.Random(seed)
        table = row_texts.random_rows(rng, ROWS)
        text = row_texts.expression(rng)
        bound = bind(text, row_texts.SCHEMA)
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        whole = outcome(bound, columns, ROWS)
        singles = [outcome(bound, sliced(columns, row, row + 1), 1) for row in range(ROWS)]
        errors = [one for one in singles if isinstance(one, str)]
        assert whole == (errors[0] if errors else [one[0] for one in singles]), (seed, text)
        first, end = sorted(rng.sample(range(ROWS + 1), 2))
        if not errors:
            part = outcome(bound, sliced(columns, first, end), end - first)
            assert part == whole[first:end], (seed, text)
        names = [name for name in bound.columns if name != "a" and rng.random() < 0.6]
        for place, row in enumerate(table.to_pylist()):
            same = {name: columns[name].take(pa.array([place] * 3)) for name in bound.columns}
            expected = singles[place] if isinstance(singles[place], str) else singles[place] * 3
            found = outcome(with_constants(bound, row, names), same, 3)
            assert found == expected, (seed, text, names, row)


def sliced(columns, first, end):
    return {name: column.slice(first, end - first) for name, column in columns.items()}


MANY = 1 << 12


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("lpad(u, i, p)", {}),
        ("repeat(u, i)", {}),
        ("replace(u, p, w)", {}),
        ("substring(w, i - 8999)", {"w": "b" * 9_000}),
        ("concat_ws(p, u, w)", {"w": "b" * 9_000}),
    ],
)
def test_texts_of_many_rows_that_are_too_large_are_refused(text, constants):
    row = {"u": "a" * 10, "p": "a", "w": "b" * 2_000, "i": 9_000}
    columns = {
        name: pa.array([value] * MANY, row_texts.SCHEMA.field(name).type)
        for name, value in row.items()
    }
    bound = with_constants(bind(text, row_texts.SCHEMA), constants, constants)
    with pytest.raises(TextsTooLargeError):
        evaluate(bound, columns, MANY)


@pytest.mark.parametrize("text", ["lpad(u, i)", "rpad(u, i, p)", "repeat(u, i)"])
def test_a_row_may_not_take_all_memory(text):
    bound = bind(text, row_texts.SCHEMA)
    columns = {"u": pa.array(["é", "é"]), "p": pa.array(["a", "a"])}
    with pytest.raises(LimitExceededError, match="a text of 2000000000 characters passes"):
        evaluate(bound, {**columns, "i": pa.array([1, 2 * 10**9], pa.int32())}, 2)
    columns["u"] = pa.array(["é", None])
    found = evaluate(bound, {**columns, "i": pa.array([1, 2 * 10**9], pa.int32())}, 2)
    assert found.to_pylist() == ["é", None]


def test_letters_beyond_the_tables_have_no_case_and_part_words():
    for code in [*range(*CODES[1:3]), *range(CODES[3], 0x110000)]:
        letter = chr(code)
        assert letter == letter.lower() == letter.upper() == letter.title()
        assert not {f"a{letter}Σ".lower()[-1], f"{letter}Σ".lower()[-1]} & {"ς"}


def test_the_tables_have_what_python_says():
    known = _tables()
    for place, code in enumerate([*range(*CODES[:2]), *range(*CODES[2:])]):
        letter = chr(code)
        for change, table in ((str.lower, known.lower), (str.upper, known.upper)):
            changed = change(letter)
            assert len(changed) > 1 or int(table[place]) & 0x1FFFFF == ord(changed)
            assert len(changed) <= 3
