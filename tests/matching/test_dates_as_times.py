"""Buckets of dates, kept as dates or as times: a coarser bucket is answered from a finer one."""

from __future__ import annotations

import datetime
from itertools import product

import pyarrow as pa
import pytest
from scale import IS_NIGHTLY

import projseg

ZONES = ("UTC", "+05:30", "America/New_York", "America/Sao_Paulo", "Pacific/Apia")
FINER = {
    "day": ("date_trunc('DAY', d)", "CAST(d AS timestamp)", "d"),
    "month": ("date_trunc('MONTH', d)", "trunc(d, 'MM')"),
    "quarter": ("date_trunc('QUARTER', d)", "trunc(d, 'QUARTER')"),
    "year": ("date_trunc('YEAR', d)", "trunc(d, 'YEAR')"),
    "week": ("date_trunc('WEEK', d)", "trunc(d, 'WEEK')"),
}
ASKED = {
    "day": ("d", "date_trunc('DAY', d)", "date_format(d, 'yyyy-MM-dd')", "dayofyear(d)"),
    "month": ("date_trunc('MONTH', d)", "trunc(d, 'MM')", "month(d)", "date_format(d, 'yyyy-MM')"),
    "quarter": ("date_trunc('QUARTER', d)", "quarter(d)", "year(d) * 10 + quarter(d)"),
    "year": ("date_trunc('YEAR', d)", "trunc(d, 'YEAR')", "year(d)", "extract(YEAR FROM d)"),
    "week": ("date_trunc('WEEK', d)", "trunc(d, 'WEEK')"),
}
SERVES = {
    "day": tuple(ASKED),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
    "week": ("week",),
}
DAYS = [datetime.date(2011, 11, 20) + datetime.timedelta(days=n) for n in range(120)]
DAYS += [None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1)]


@pytest.fixture(scope="module", params=ZONES)
def tables(request, tmp_path_factory):
    """Tables with a projection by each finer bucket, as its zone has it."""
    zone, folder = request.param, tmp_path_factory.mktemp("dates")
    rows = pa.table({"d": pa.array(DAYS, pa.date32()), "n": pa.array(range(len(DAYS)), pa.int32())})
    found = {}
    for name, texts in FINER.items():
        for number, text in enumerate(texts):
            table = projseg.Table.create(folder / f"{name}{number}", {"d": "date", "n": "int"})
            key = f"in_zone('{zone}', {text})"
            table.add_projection(projseg.Projection("p", [key], ["sum(n)", "count(*)"]))
            table.append(rows)
            found[name, text] = table
    return zone, found


CASES = [
    (finer, text, coarser, asked)
    for finer, texts in FINER.items()
    for text, coarser in product(texts, ASKED)
    for asked in ASKED[coarser]
]


def test_every_bucket_is_answered_as_from_rows(tables):
    zone, found = tables
    served = 0
    for finer, text, coarser, asked in CASES if IS_NIGHTLY else CASES[::9]:
        table = found[finer, text]
        sql = f"SELECT {asked} AS k, sum(n) AS s, count(*) AS c FROM t GROUP BY {asked} ORDER BY k"
        context = {"timezone": zone}
        expected = table.sql(sql, context={**context, "noProjections": True})
        assert table.sql(sql, context=context).equals(expected), (zone, text, asked)
        if coarser in SERVES[finer] and zone != "Pacific/Apia":
            forced = {**context, "useProjection": "p"}
            assert table.sql(sql, context=forced).equals(expected), (zone, text, asked)
            served += 1
    assert served or zone == "Pacific/Apia"
