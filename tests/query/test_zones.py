"""Every source gives one answer in every zone, also where its clock is changed."""

import collections
import random
import zlib

import pytest
from clock_cases import answer, changes_of, make_case, make_query
from odd_zones import ODD_ZONES

from projseg.algebra.time.interval import Interval

START, END = (Interval.parse((f"{year}-01-01",) * 2).start_us for year in (1840, 2060))
CI_ZONES = ODD_ZONES[::4]
QUERIES_A_TABLE = 12


pytestmark = pytest.mark.usefixtures("dear_base_rows")


def compare_sources(seed, location, zone, counts):
    """Ask a random table about a zone's changes of clock random queries, in all ways."""
    case = make_case(seed, location, zone, changes_of(zone, START, END))
    r = random.Random(seed + 1)
    for _ in range(QUERIES_A_TABLE):
        query = make_query(r, case, for_spark=False)
        context = {"timezone": zone if r.random() < 0.9 else r.choice(ODD_ZONES)}
        expected = answer(case.table, query, {**context, "noProjections": True})
        assert not isinstance(expected, str), (seed, zone, query, context, expected)
        ways = [{}, {"forceProjections": True}]
        ways += [{"useProjection": name} for name in case.names]
        for way in ways:
            found = answer(case.table, query, {**context, **way})
            if way and found == "PROJSEG_PROJECTION_NOT_USABLE":
                continue
            assert found == expected, (seed, zone, query, context, way)
            counts["forced" if way else "free"] += 1
    assert case.table.verify(deep=True) == [], (seed, zone)


def compare_rounds(location, zone, round_count):
    counts = collections.Counter()
    for round_number in range(round_count):
        seed = zlib.crc32(zone.encode()) + round_number
        compare_sources(seed, str(location / str(round_number)), zone, counts)
    assert counts["free"] == round_count * QUERIES_A_TABLE


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zone", CI_ZONES)
def test_sources_agree_about_changes_of_clock(tmp_path, zone):
    compare_rounds(tmp_path, zone, 1)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ODD_ZONES)
def test_sources_agree_about_many_changes_of_clock(tmp_path, zone):
    compare_rounds(tmp_path, zone, 12)
