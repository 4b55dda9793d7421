import pytest

from projseg.algebra.time.duration import Period, parse_period
from projseg.errors import InvalidInputError

SECOND = 1_000_000
DAY = 86_400 * SECOND


@pytest.mark.parametrize(
    ("text", "months", "weeks", "micros"),
    [
        ("P1Y", 12, 0, 0),
        ("P2Y3M", 27, 0, 0),
        ("P3W", 0, 3, 0),
        ("P1D", 0, 0, DAY),
        ("PT1H", 0, 0, 3600 * SECOND),
        ("PT1M", 0, 0, 60 * SECOND),
        ("PT1S", 0, 0, SECOND),
        ("PT0.5S", 0, 0, SECOND // 2),
        ("PT1.000001S", 0, 0, SECOND + 1),
        ("PT2.25S", 0, 0, 2_250_000),
        ("P1Y2M3W4DT5H6M7.089S", 14, 3, 4 * DAY + 18_367_089_000),
        (" p1dt1h ", 0, 0, DAY + 3600 * SECOND),
    ],
)
def test_a_period_is_months_weeks_and_microseconds(text, months, weeks, micros):
    assert parse_period(text) == Period(months, weeks, micros)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D", "PT1.S"])
def test_other_text_is_no_period(text):
    with pytest.raises(InvalidInputError, match="is not an ISO 8601 period"):
        parse_period(text)


LONGEST = ["P10000Y", "P120000M", "P3652425D", "P521775W", "PT315569519999.999999S", "P521774W7D"]
TOO_LONG = [
    f"P{'9' * 5000}D",
    "P120001M",
    "P10000Y1M",
    "P3652425DT0.000001S",
    "P521775WT1S",
    "P521774W8D",
]


@pytest.mark.parametrize("text", LONGEST)
def test_a_period_may_have_10_000_years(text):
    period = parse_period(text)
    days = 7 * period.weeks + period.micros / DAY
    assert period.months == 120_000 or days == pytest.approx(3_652_425)


@pytest.mark.parametrize("text", TOO_LONG)
def test_a_longer_one_is_refused(text):
    with pytest.raises(InvalidInputError, match=r"longer than 10,000 years"):
        parse_period(text)
