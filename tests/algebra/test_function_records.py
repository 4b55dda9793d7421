"""What the record of a scalar function says of it is so, of all functions and awkward values."""

import json
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from expressions import order_key
from function_cases import (
    CALLS,
    RAISED,
    SCHEMA,
    ZONES,
    call_of,
    changes_of,
    outcomes,
    values_of,
)
from golden_texts import PATH
from golden_texts import schema as golden_schema
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.binder import Binder
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.functions.function_table import FUNCTIONS, SPELLINGS
from projseg.algebra.expressions.functions.scalar_function import Nulls, Order, ScalarFunction
from projseg.algebra.expressions.joined_values import JOIN_FUNCTIONS
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Call, Column

sys.path.append(str(Path(__file__).parents[2] / "docs"))

from function_notes import FUNCTIONS as NOTES
from function_notes import OWN_FUNCTIONS

NAMES = sorted(set(FUNCTIONS) - JOIN_FUNCTIONS)  # these are tested with joins
EXAMPLES = {note[0]: note[-1] for notes in [*NOTES.values(), OWN_FUNCTIONS] for note in notes}
ROWS = 12


@st.composite
def calls(draw, function):
    """A call of a function over columns, and a zone about whose changes its times may lie."""
    zone = draw(st.sampled_from(ZONES))
    call = call_of(function, draw(st.sampled_from(CALLS[function])), zone)
    assume(call is not None)
    return call, zone


def columns_of(call):
    return [(i, a) for i, a in enumerate(call.arguments) if isinstance(a, Column)]


def effort(function):
    """Return how often a test of a function's calls is tried."""
    count = 20 + 3 * len(CALLS[function])
    return settings(deadline=None, max_examples=tries(count * 10, count))


def test_every_function_has_calls_to_try():
    assert set(CALLS) == set(FUNCTIONS) - JOIN_FUNCTIONS


@pytest.mark.parametrize("fact", ["evaluate", "nulls", "null_only_from_null", "may_fail", "order"])
def test_a_record_without_a_fact_that_decides_answers_is_refused(fact):
    facts = msgspec.structs.asdict(FUNCTIONS["lower"])
    del facts[fact]
    with pytest.raises(TypeError, match=fact):
        ScalarFunction(**facts)


@pytest.mark.parametrize("function", NAMES)
def test_every_call_to_try_is_of_its_function(function):
    for text in CALLS[function]:
        assert any(call_of(function, text, zone) for zone in ZONES), text


def test_every_spelling_stands_in_one_record():
    spellings = [spelling for record in FUNCTIONS.values() for spelling in record.spellings]
    written = [name for spelling in spellings for name in (spelling.name, *spelling.aliases)]
    assert [name for name, count in Counter(written).items() if count > 1] == []
    assert set(written) == set(SPELLINGS)


@pytest.mark.parametrize(
    ("function", "name"), [(f, s.name) for f in NAMES for s in FUNCTIONS[f].spellings]
)
def test_a_spelling_makes_the_function_of_its_record(function, name):
    others = {
        "positive": "negative(i)",  # it is its argument
        "time_bucket": "time_bucket(INTERVAL '36' HOUR, t)",  # by a clock that is changed
        "timestamp_seconds": "timestamp_seconds(1)",
    }
    tree = Binder(SCHEMA, "Africa/Cairo").bind(parse_sql(others.get(name, EXAMPLES[name])))
    assert function in {node.function for node in tree.walk() if isinstance(node, Call)}


def test_druid_knows_each_name_once():
    known = [name for f in FUNCTIONS.values() for s in f.spellings for name in s.druid_names]
    assert len(known) == len(set(known))


@pytest.mark.parametrize("function", NAMES)
def test_the_text_of_every_call_reads_back(function):
    for text in CALLS[function]:
        for zone in ZONES[:3]:
            expression = bind(text, SCHEMA, timezone=zone)
            assert bind(to_sql(expression), SCHEMA) == expression


def test_every_stored_text_is_of_functions_with_records():
    for zone, texts in json.loads(PATH.read_text(encoding="utf-8"))["canonical"].items():
        for text in texts:
            tree = bind(text, golden_schema(), timezone=zone)
            assert {n.function for n in tree.walk() if isinstance(n, Call)} <= set(FUNCTIONS)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("function", NAMES)
def test_nulls_and_errors_are_as_the_record_says(function):
    record = FUNCTIONS[function]

    @effort(function)
    @given(st.data())
    def check(data):
        call, zone = data.draw(calls(function))
        columns = {}
        for _, argument in columns_of(call):
            values = values_of(argument.type, changes_of(zone))
            rows = st.lists(st.none() | values | values, min_size=ROWS, max_size=ROWS)
            columns[argument.name] = data.draw(rows)
        found = outcomes(call, columns, ROWS)
        for row, value in enumerate(found):
            inputs = [values[row] for values in columns.values()]
            if value == RAISED and isinstance(value, str):
                assert record.may_fail(call), inputs
                continue
            if record.nulls == Nulls.FROM_ANY and None in inputs:
                assert value is None, inputs
            if record.nulls == Nulls.NEVER:
                assert value is not None, inputs
            if record.null_only_from_null(call) and None not in inputs:
                assert value is not None, inputs

    check()


@pytest.mark.sampled(20)
@pytest.mark.parametrize("function", NAMES)
def test_values_ascend_or_descend_as_the_record_says(function):
    @effort(function)
    @given(st.data())
    def check(data):
        call, zone = data.draw(calls(function))
        orders = FUNCTIONS[function].order(call)
        assert len(orders) == len(call.arguments)
        ordered = [(i, a) for i, a in columns_of(call) if orders[i] != Order.NONE]
        if not ordered:
            return
        index, argument = data.draw(st.sampled_from(ordered))
        change = [data.draw(st.sampled_from(changes_of(zone)))]
        columns = {
            a.name: [data.draw(values_of(a.type, change))] * ROWS for _, a in columns_of(call)
        }
        moving = st.lists(values_of(argument.type, change), min_size=ROWS, max_size=ROWS)
        columns[argument.name] = sorted(data.draw(moving), key=order_key)
        found = outcomes(call, columns, ROWS)
        known = [order_key(v) for v in found if v is not None and v is not RAISED]
        assert known == sorted(known, reverse=orders[index] == Order.FALLS)

    check()


@pytest.mark.parametrize("function", NAMES)
def test_only_what_nulls_make_null_has_an_order_or_is_folded(function):
    record = FUNCTIONS[function]
    assert record.nulls == Nulls.FROM_ANY or not record.canonical_folds_null
    for text in CALLS[function]:
        call = call_of(function, text, "America/New_York")
        if call is not None and record.nulls != Nulls.FROM_ANY:
            assert set(record.order(call)) == {Order.NONE}


RISES, FALLS, NONE = Order.RISES, Order.FALLS, Order.NONE


@pytest.mark.parametrize(
    ("function", "text", "zone", "order"),
    [
        ("+", "b + c", "UTC", (RISES, RISES)),
        ("+", "f + 1D", "UTC", (RISES, NONE)),
        ("+", "f + e", "UTC", (NONE, NONE)),
        ("-", "b - c", "UTC", (RISES, FALLS)),
        ("-", "f - 1D", "UTC", (RISES, NONE)),
        ("*", "b * -3L", "UTC", (FALLS, NONE)),
        ("*", "f * 2D", "UTC", (RISES, NONE)),
        ("*", "f * -2D", "UTC", (NONE, NONE)),
        ("/", "m / -1.5", "UTC", (FALLS, NONE)),
        ("negative", "-b", "UTC", (FALLS,)),
        ("negative", "-f", "UTC", (NONE,)),
        ("floor", "floor(m)", "UTC", (RISES,)),
        ("floor", "floor(f)", "UTC", (NONE,)),
        ("year", "year(d)", "UTC", (RISES,)),
        ("month", "month(d)", "UTC", (NONE,)),
        ("hour", "hour(t)", "UTC", (NONE,)),
        ("substring", "substring(s, 1, 2)", "UTC", (RISES, NONE, NONE)),
        ("substring", "substring(s, 2, 2)", "UTC", (NONE, NONE, NONE)),
        ("concat", "s || '-'", "UTC", (NONE, RISES)),
        ("cast", "CAST(i AS bigint)", "UTC", (RISES,)),
        ("cast", "CAST(f AS int)", "UTC", (RISES,)),
        ("cast", "CAST(s AS int)", "UTC", (NONE,)),
        ("cast", "CAST(b AS string)", "UTC", (NONE,)),
        ("cast", "CAST(t AS date)", "America/New_York", (RISES,)),
        ("cast", "CAST(t AS date)", "America/St_Johns", (NONE,)),
        ("cast", "CAST(d AS timestamp)", "America/Havana", (RISES,)),
        ("cast", "CAST(t AS timestamp_ntz)", "+05:30", (RISES,)),
        ("cast", "CAST(t AS timestamp_ntz)", "America/New_York", (NONE,)),
        ("time_floor", "date_trunc('DAY', t)", "America/New_York", (RISES,)),
        ("time_floor", "date_trunc('HOUR', t)", "America/New_York", (RISES,)),
        ("time_floor", "date_trunc('DAY', t)", "America/Havana", (RISES,)),
        ("time_floor", "date_trunc('DAY', t)", "America/St_Johns", (NONE,)),
        ("time_floor", "date_trunc('HOUR', t)", "Australia/Lord_Howe", (RISES,)),
        ("time_floor", "date_trunc('MINUTE', t)", "Africa/Monrovia", (NONE,)),
        ("time_floor", "timestamp_floor(t, 'PT7M')", "UTC", (RISES,)),
        ("add_interval", "d + INTERVAL '1' MONTH", "UTC", (RISES,)),
        ("add_interval", "t + INTERVAL '1' MONTH", "UTC", (NONE,)),
        ("add_interval", "t + INTERVAL '1' DAY", "UTC", (RISES,)),
        ("add_interval", "t + INTERVAL '1' DAY", "America/New_York", (NONE,)),
        ("add_interval", "t + INTERVAL '1' HOUR", "America/New_York", (RISES,)),
    ],
)
def test_the_order_of_a_call(function, text, zone, order):
    assert FUNCTIONS[function].order(call_of(function, text, zone)) == order
