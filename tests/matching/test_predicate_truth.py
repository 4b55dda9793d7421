"""The sets of values for which a predicate is true and false are those that evaluation shows."""

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_cases import COLUMNS, DOUBLES, VALUES, condition, truths
from scale import tries

from projseg.algebra.proofs.predicate_truth import prefixed, truth_of
from projseg.algebra.proofs.value_set import ANY_VALUE, only, values_between

PREDICATES = {
    "i": ["i = 1", "i != 1", "i < 2", "i <= 2", "i > 2", "i >= 2", "i <=> 3", "i IN (1, 3)"],
    "s": ["s LIKE 'a%'", "s LIKE 'ab'", "s LIKE '%'", "startswith(s, 'ab')", "s > 'a'"],
    "x": ["isnan(x)", *(f"x <= {number}" for number in DOUBLES), "x IN (0D, double('NaN'))"],
    "b": ["b", "b = false", "b IS TRUE", "b IS FALSE", "b > false"],
}


def one_term():
    """A column's name, and a predicate that depends on that column alone."""
    names = st.sampled_from(list(PREDICATES))
    return names.flatmap(lambda name: st.tuples(st.just(name), connected(name)))


def connected(name):
    """Predicates of one column, joined by AND, OR, NOT, IS TRUE and IS FALSE."""
    return st.recursive(
        st.sampled_from([*PREDICATES[name], f"{name} IS NULL", f"{name} IS NOT NULL"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
            ),
            inner.map(lambda text: f"(NOT ({text}))"),
            st.tuples(inner, st.sampled_from(["TRUE", "FALSE"])).map(
                lambda parts: f"(({parts[0]}) IS {parts[1]})"
            ),
        ),
        max_leaves=3,
    )


def has(found, value, arrow_type):
    """Return whether a set holds a value or null."""
    return found.has_null if value is None else found.overlaps(only(value, arrow_type))


def assert_as_evaluated(name, text):
    expression = condition(text)
    truth = truth_of(expression)
    arrow_type = COLUMNS.field(name).type
    values = [*VALUES[name], None]
    empty = {each: pa.nulls(len(values), COLUMNS.field(each).type) for each in COLUMNS.names}
    table = pa.table({**empty, name: pa.array(values, arrow_type)}, schema=COLUMNS)
    for value, outcome in zip(values, truths(expression, table), strict=True):
        sets = {True: truth.true, False: truth.false, None: truth.null}
        holding = [each for each, found in sets.items() if has(found, value, arrow_type)]
        assert holding == [outcome], (text, value)


@pytest.mark.parametrize(("name", "text"), [(n, t) for n in PREDICATES for t in PREDICATES[n]])
def test_a_predicate_of_one_column_is_known_for_each_value(name, text):
    for form in (text, f"NOT ({text})", f"({text}) IS TRUE", f"({text}) IS FALSE"):
        assert_as_evaluated(name, form)


@pytest.mark.parametrize("text", ["(i > 1 AND i < 4) IS TRUE", "(i < 1 OR i > 2) IS FALSE"])
def test_what_joins_conditions_of_one_column_is_one_of_them(text):
    assert_as_evaluated("i", text)


@settings(max_examples=tries(10_000, 50))
@given(one_term())
def test_so_are_all_that_are_joined_of_such(drawn):
    expression = condition(drawn[1])
    if truth_of(expression) is not None:
        assert_as_evaluated(*drawn)


NOT_OF_ONE_TERM = [
    "i < j",
    "i = 1 AND j = 1",
    "i = 1 OR j = 1",
    "i = 1 AND length(s) > j",
    "s LIKE lower(s)",
    "s LIKE 'a_c%'",
    "s LIKE 'a%c%'",
    r"s LIKE 'a\\_%'",
    "s LIKE 'a/%' ESCAPE '/'",
    "startswith(s, lower(s))",
    "i IN (1, j)",
]


@pytest.mark.parametrize("text", NOT_OF_ONE_TERM)
def test_another_predicate_is_not_known(text):
    assert truth_of(condition(text)) is None


def test_a_condition_is_not_a_number():
    assert truth_of(condition("i = 1").arguments[0]) is None


NEIGHBOURS = ["a", "b", "\ud7fe", "\ud7ff", "\ue000", "\ue001", "\U0010fffe", "\U0010ffff"]
STRINGS = ["".join(each) for length in range(4) for each in product(NEIGHBOURS, repeat=length)]


@pytest.mark.parametrize("prefix", [each for each in STRINGS if len(each) < 3])
def test_strings_of_a_prefix_are_those_that_begin_with_it(prefix):
    found = prefixed(prefix)
    some = [each for each in STRINGS if each[: len(prefix) - 1] == prefix[:-1]]
    for text in some:
        assert found.overlaps(only(text, pa.string())) == text.startswith(prefix), text


@pytest.mark.parametrize(
    ("prefix", "low", "high"),
    [
        ("ab", "ab", "ac"),
        ("a\ud7ff", "a\ud7ff", "a\ue000"),
        ("a\U0010ffff", "a\U0010ffff", "b"),
        ("\U0010ffff", "\U0010ffff", None),
    ],
)
def test_strings_of_a_prefix_are_a_range(prefix, low, high):
    assert prefixed(prefix) == values_between(low, high, pa.string(), with_high=False)


def test_every_string_has_the_empty_prefix():
    assert prefixed("") == ANY_VALUE
