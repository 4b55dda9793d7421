"""What the inverse of a function says is what evaluating it shows, of all functions that have one.

Times lie about the changes of clocks in unusual zones: days skipped and repeated, midnights that
the clock skips, shows twice or goes back over.
"""

import math

import pyarrow as pa
import pytest
from function_cases import CALLS, RAISED, ZONES, array_of, call_of, changes_of, outcomes, values_of
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_zones import ODD_ZONES
from scale import IS_NIGHTLY, tries

from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Nulls
from projseg.algebra.expressions.functions.time.time_fields import floor_of_field
from projseg.algebra.expressions.functions.time.time_floor import time_floor
from projseg.algebra.expressions.tree import BOTTOM, TOP, Column, Literal
from projseg.algebra.proofs.value_set import ValueSet
from projseg.segment_format.logical_types import TIMESTAMP

NAMES = sorted(name for name, record in FUNCTIONS.items() if record.inverse is not None)
KNOWN = ["cast", "ceil", "floor", "substring", "time_floor", "year", "yearofweek"]
ROWS = 10


def key_of(value, arrow_type):
    """Return the `order_key` of a value in the form of `values_of` or `outcomes`."""
    if pa.types.is_floating(arrow_type):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value.decode() if isinstance(value, bytes) else value


def cuts_about(value, arrow_type):
    key = key_of(value, arrow_type)
    if isinstance(key, int):
        return [(1, key, 0), (1, key + 1, 0)]
    return [(1, key, 0), (1, key, 1)]


def is_after(cut, value, arrow_type):
    return cut <= (1, key_of(value, arrow_type), 0)


def has(cuts, value, arrow_type):
    return ValueSet(cuts).overlaps(ValueSet(tuple(cuts_about(value, arrow_type))))


def stored(values, arrow_type):
    """Return values as the type holds them: floats are rounded to its width."""
    return array_of(values, arrow_type).to_pylist() if pa.types.is_floating(arrow_type) else values


def assert_inverse(call, values, others):
    argument = call.arguments[0]
    inverse = FUNCTIONS[call.function].inverse
    values = stored(values, argument.type)
    found = outcomes(call, {argument.name: values}, len(values))
    known = [value for value in found if value is not RAISED]
    assert None not in known
    cuts = [cut for value in [*known, *others] for cut in cuts_about(value, call.type)]
    defined = inverse(call, BOTTOM)
    for value, result in zip(values, found, strict=True):
        assert defined is None or has(defined, value, argument.type) == (result is not RAISED)
    for cut in cuts:
        inside = inverse(call, cut)
        if inside is None:
            continue
        assert list(inside) == sorted(set(inside)), cut
        for value, result in zip(values, found, strict=True):
            wanted = result is not RAISED and is_after(cut, result, call.type)
            assert has(inside, value, argument.type) == wanted, (cut, value, result)


def calls_of(function, zone):
    found = (call_of(function, text, zone) for text in CALLS[function])
    return [
        call
        for call in found
        if call is not None
        and isinstance(call.arguments[0], Column)
        and all(isinstance(argument, Literal) for argument in call.arguments[1:])
        and FUNCTIONS[function].inverse(call, BOTTOM) is not None
    ]


def test_these_functions_have_inverses():
    assert NAMES == KNOWN
    assert all(FUNCTIONS[name].nulls == Nulls.FROM_ANY for name in NAMES)


@pytest.mark.parametrize("function", NAMES)
def test_values_lie_after_a_cut_where_the_inverse_says(function):
    @settings(deadline=None, max_examples=tries(1_500, 12))
    @given(st.data())
    def check(data):
        zone = data.draw(st.sampled_from(ZONES))
        call = data.draw(st.sampled_from(calls_of(function, zone)))
        change = [data.draw(st.sampled_from(changes_of(zone)))]
        about = values_of(call.arguments[0].type, change)
        values = data.draw(st.lists(about, min_size=ROWS, max_size=ROWS))
        others = data.draw(st.lists(values_of(call.type, change), min_size=2, max_size=2))
        assert_inverse(call, values, stored(others, call.type))

    check()


@pytest.mark.parametrize("function", NAMES)
def test_nothing_lies_after_the_top(function):
    for call in calls_of(function, "America/New_York"):
        inverse = FUNCTIONS[function].inverse
        assert inverse(call, TOP) == ()


@pytest.mark.parametrize("zone", ODD_ZONES if IS_NIGHTLY else ODD_ZONES[::9])
def test_a_day_or_month_in_a_zone_is_the_times_that_its_clock_shows(zone):
    """Every change of the clock, each quarter of an hour of the two days before and after."""
    texts = ["CAST(t AS date)", "CAST(t AS timestamp_ntz)"]
    calls = [call_of("cast", text, zone) for text in texts]
    units = ["PT30M", "PT1H", "P1D", "P1M"]
    calls += [call_of("time_floor", f"timestamp_floor(t, '{unit}')", zone) for unit in units]
    time = Column(TIMESTAMP, "t")
    calls += [time_floor(time, floor_of_field(field, zone)) for field in ("day", "year", "hour")]
    calls = [call for call in calls if call is not None]
    quarter = 900_000_000
    for change in changes_of(zone)[:: 1 if IS_NIGHTLY else 40]:
        values = [
            change + step * quarter + nudge for step in range(-192, 193, 9) for nudge in (-1, 0)
        ]
        for call in calls:
            found = outcomes(call, {call.arguments[0].name: values}, len(values))
            inverse = FUNCTIONS[call.function].inverse
            for cut in {(1, value, 0) for value in found}:
                inside = ValueSet(inverse(call, cut))
                for value, result in zip(values, found, strict=True):
                    point = ValueSet(((1, value, 0), (1, value + 1, 0)))
                    assert inside.overlaps(point) == (result >= cut[1]), (str(call), value)
