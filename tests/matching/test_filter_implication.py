import pytest
from hypothesis import given, settings
from predicate_cases import condition, predicates, tables, truths
from scale import tries

from projseg.algebra.proofs.filter_proofs import Premises

PROVED = [
    ("i = 1", "i = 1"),
    ("i < j", "i < j"),
    ("i < j", "true"),
    ("i = 1", "i < 2"),
    ("i > 2 AND i < 4", "i = 3"),
    ("i BETWEEN 1 AND 2", "i BETWEEN 0 AND 3"),
    ("i > 2", "i >= 3"),
    ("i IN (1, 2)", "i IN (1, 2, 3)"),
    ("i = 2", "i IN (1, 2, 3)"),
    ("i = 1 OR i = 2", "i BETWEEN 1 AND 2"),
    ("i NOT IN (1, 2)", "i != 1"),
    ("i > 0", "i IS NOT NULL"),
    ("i + j > 2", "j IS NOT NULL"),
    ("i < j", "i IS NOT NULL AND j IS NOT NULL"),
    ("s LIKE 'abc%'", "s LIKE 'ab%'"),
    ("s LIKE 'ab%'", "s >= 'a' AND s < 'b'"),
    ("s = 'abc'", "s LIKE 'ab%'"),
    ("s LIKE 'ab'", "s = 'ab'"),
    ("startswith(s, 'abc')", "s LIKE 'ab%'"),
    ("startswith(s, 'a\ud7ff')", "s < 'b'"),
    ("s LIKE 'a\U0010ffff%'", "s >= 'a' AND s < 'b'"),
    ("-i > 2", "i IS NOT NULL"),
    ("pmod(i, j) = 1", "i IS NOT NULL AND j IS NOT NULL"),
    ("i & j = 1", "i IS NOT NULL"),
    ("date_add(d, 1) > date '2024-03-10'", "d IS NOT NULL"),
    ("s IS NOT NULL", "octet_length(s) IS NOT NULL"),
    ("i IS NOT NULL", "i & 1 IS NOT NULL"),
    ("i IS NOT NULL", "i < 2 OR i > 1 OR s = 'a'"),
    ("i = 1 AND s = 'a'", "s = 'a'"),
    ("i = 1 AND s = 'a'", "i = 1 OR s = 'b'"),
    ("i = 1 OR s = 'a'", "s = 'a' OR i IN (1, 2)"),
    ("NOT (i = 1 OR s = 'a')", "i != 1"),
    ("i = 1 AND (s = 'a' OR j = 2)", "s = 'a' OR j IN (1, 2)"),
    ("x > 1D", "x > 0D"),
    ("isnan(x)", "x > double('Infinity')"),
    ("x = 0D", "x = -0D"),
    ("b", "b IS NOT NULL"),
    ("b IS TRUE", "b"),
    ("i <=> 3", "i > 2"),
    ("i IS NULL", "i <=> null"),
    ("i > 3 AND i < 2", "s = 'anything'"),
    (
        "t >= timestamp '2024-03-10 07:30:00Z' AND t < timestamp '2024-03-10 07:45:00Z'",
        "date_trunc('HOUR', t) = timestamp '2024-03-10 07:00:00Z'",
    ),
    (
        "date_trunc('HOUR', t) = timestamp '2024-03-10 07:00:00Z'",
        "t >= timestamp '2024-03-10 00:00:00Z' AND t < timestamp '2024-03-11 00:00:00Z'",
    ),
    ("t IS NOT NULL", "date_trunc('HOUR', t) IS NOT NULL"),
]
NOT_PROVED = [
    ("i < 2", "i = 1"),
    ("position(s, 'a', j) = 0", "j IS NOT NULL"),
    ("i IS NOT NULL", "ln(i) IS NOT NULL"),
    ("i IS NOT NULL AND j IS NOT NULL", "i / j IS NOT NULL"),
    ("i IN (1, 2, 3)", "i IN (1, 2)"),
    ("i IS NOT NULL", "i > 0"),
    ("i = 1", "s = 'a'"),
    ("i = 1", "i < j"),
    ("i = 1", "i = 1 AND s = 'a'"),
    ("i = 1", "false"),
    ("i IS NOT NULL", "i & j IS NOT NULL"),
    ("i != 1", "i IS NULL"),
    ("i = 1 OR s = 'a'", "i = 1"),
    ("s LIKE 'a%'", "s LIKE 'ab%'"),
    ("s LIKE '%'", "s < 'b'"),
    ("s LIKE '\U0010ffff%'", "s < 'b'"),
    ("startswith(s, lower(s))", "s < 'b'"),
    ("x >= 0D", "x < double('NaN')"),
    ("(i = 1) IS NOT TRUE", "i != 1"),
    ("coalesce(i, 1) = 1", "i IS NOT NULL"),
    ("date_trunc('HOUR', t) = timestamp '2024-03-10 07:00:00Z'",
     "t < timestamp '2024-03-10 07:30:00Z'"),
]  # fmt: skip


@pytest.mark.parametrize(("premise", "goal"), PROVED)
def test_what_follows_is_proved(premise, goal):
    assert Premises([condition(premise)]).imply(condition(goal))


@pytest.mark.parametrize(("premise", "goal"), NOT_PROVED)
def test_what_does_not_follow_is_not_proved(premise, goal):
    assert not Premises([condition(premise)]).imply(condition(goal))


@settings(max_examples=tries(10_000, 50))
@given(predicates(), predicates(), predicates(), tables())
def test_a_proof_has_no_counterexample(one, other, wanted, table):
    premises, goal = [condition(one), condition(other)], condition(wanted)
    if not Premises(premises).imply(goal):
        return
    rows = zip(truths(premises[0], table), truths(premises[1], table), strict=True)
    for (first, second), found in zip(rows, truths(goal, table), strict=True):
        assert found is True or first is not True or second is not True


@settings(max_examples=tries(5_000, 30))
@given(predicates(), tables())
def test_not_null_proofs_have_no_counterexample(text, table):
    premise = condition(text)
    premises = Premises([premise])
    held = truths(premise, table)
    for name in table.column_names:
        if premises.is_not_null(condition(name)):
            values = table[name].to_pylist()
            assert not any(h is True and v is None for h, v in zip(held, values, strict=True))


@given(predicates())
def test_a_condition_implies_itself_and_its_weakenings(text):
    one = condition(text)
    assert Premises([one]).imply(one)
    assert Premises([one]).imply(condition(f"({text}) OR j = 77"))


@pytest.mark.parametrize(("one", "other", "is_proved"), [(2, 32, True), (5, 13, False)])
def test_a_proof_tries_up_to_64_combinations_of_alternatives(one, other, is_proved):
    useful = " OR ".join(f"(i = {n} AND s = '{n}')" for n in range(one))
    useless = " OR ".join(f"(x > {n}D AND j != {n})" for n in range(other))
    found = Premises([condition(useful), condition(useless)]).imply(condition("i >= 0"))
    assert found == is_proved


def test_many_alternatives_do_not_take_forever():
    wide = [condition(f"(i = {n} OR s = '{n}' OR j = {n})") for n in range(30)]
    assert not Premises(wide).imply(condition("x > 0D"))
