"""What is said of the order of floors holds at every instant about a change of the clock."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_zones import ODD_ZONES
from scale import tries

from projseg.algebra.time.bucket_order import (
    changes_of_side,
    is_divided,
    keeps_order,
)
from projseg.algebra.time.duration import DAY, MINUTE
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import zone_table
from projseg.algebra.time.zoned_buckets import Granularity

PERIODS = ["PT1M", "PT7M", "PT30M", "PT45M", "PT1H", "PT5H", "P1D", "P1W", "P1M"]
REACH = 80 * DAY  # further than a bucket of these and any change of a clock go


def micros_of(text, zone="UTC"):
    return Interval.parse((text, text), zone).start_us


@st.composite
def cases(draw):
    zone = draw(st.sampled_from(ODD_ZONES))
    granularity = Granularity.parse(draw(st.sampled_from(PERIODS)), zone)
    change = draw(st.sampled_from(zone_table(zone).starts[1:].tolist()))
    near = change + draw(st.integers(-200, 200)) * MINUTE
    micros = draw(st.sampled_from([near, granularity.floor_one(near), change]))
    return replace(granularity, by_clock=draw(st.booleans())), micros


@given(cases())
@settings(deadline=None, max_examples=tries(200))
def test_order_is_that_of_all_floors_around(case):
    granularity, micros = case
    begins, starts = granularity.pieces(micros - REACH, micros + REACH)
    is_late = starts >= micros
    changed = begins[1:][is_late[1:] != is_late[:-1]]
    assert changes_of_side(granularity, micros) == changed.tolist()
    assert is_divided(granularity, micros) == (changed.tolist() == [micros])


@pytest.mark.parametrize(
    ("period", "zone", "boundary", "is_order"),
    [
        ("P1D", "America/St_Johns", "2008-11-02T02:30Z", False),  # midnight, then 23:01 again
        ("P1D", "America/St_Johns", "2008-11-03T03:30Z", True),
        ("PT1H", "America/St_Johns", "2008-03-09T04:30Z", False),  # where 01:01 to 02:00 begins too
        ("PT1H", "America/St_Johns", "2008-03-09T05:30Z", True),
        ("PT1H", "America/St_Johns", "2008-03-09T05:31Z", False),
        ("P1D", "Atlantic/Azores", "2024-10-27T01:00Z", True),
        ("PT45M", "Europe/Madrid", "2024-10-26T23:30Z", True),
        ("PT45M", "Europe/Madrid", "2024-10-27T00:15Z", False),  # 02:15, then 01:30 once more
    ],
)
def test_named_divisions(period, zone, boundary, is_order):
    assert is_divided(Granularity.parse(period, zone), micros_of(boundary)) == is_order


@given(st.sampled_from(ODD_ZONES), st.sampled_from(PERIODS), st.booleans())
@settings(deadline=None, max_examples=25)
def test_buckets_keep_order_where_no_floor_about_a_change_goes_back(zone, period, by_clock):
    granularity = replace(Granularity.parse(period, zone), by_clock=by_clock)
    reach = granularity.longest_micros + 2 * DAY
    about = (granularity.pieces(at - 1, at + reach)[1] for at in zone_table(zone).starts[1:])
    assert keeps_order(granularity) == all(np.all(np.diff(starts) >= 0) for starts in about)
