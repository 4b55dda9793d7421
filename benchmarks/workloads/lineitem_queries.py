"""The queries over TPC-H's lineitem, and three projections that help some of them.

Q1 and Q6 are TPC-H's own, with the dates of its validation run worked out. The rest asks for what
people compute from rows where no projection fits: one query for each kind of expression, of text
and of key.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from projseg.benchmarks.workloads.lineitem_rows import SCHEMA
from projseg.benchmarks.workloads.question import Question, Rollup, Workload

_REVENUE: Final = "sum(l_extendedprice * (1 - l_discount))"
_SUPPLY: Final = (
    "sum(l_quantity) AS quantity",
    f"{_REVENUE} AS revenue",
    "count(*) AS lines",
)
_PRICING: Final = (
    "sum(l_quantity) AS sum_qty",
    "sum(l_extendedprice) AS sum_base_price",
    f"{_REVENUE} AS sum_disc_price",
    "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge",
    "avg(l_quantity) AS avg_qty",
    "avg(l_extendedprice) AS avg_price",
    "avg(l_discount) AS avg_disc",
    "count(*) AS count_order",
)

_PROJECTIONS: Final = (
    Rollup("pricing", ("l_shipdate", "l_returnflag", "l_linestatus"), _PRICING),
    Rollup(
        "discounts",
        ("trunc(l_shipdate, 'MONTH') AS month", "l_discount", "l_quantity"),
        ("sum(l_extendedprice * l_discount) AS discounts", "count(*) AS lines"),
    ),
    Rollup("by_supplier", ("l_suppkey", "l_shipmode"), _SUPPLY),
)

_asked: Final = partial(Question, table="lineitem")

_OF_TPCH: Final = (
    _asked(
        "q1",
        ("l_returnflag", "l_linestatus"),
        _PRICING,
        filter="l_shipdate <= DATE '1998-09-02'",
        covered_by="pricing",
    ),
    _asked(
        "q6",
        (),
        ("sum(l_extendedprice * l_discount) AS revenue",),
        filter=(
            "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"
            " AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
        ),
        covered_by="discounts",
    ),
)

_EXPRESSIONS: Final = (
    _asked("integer_sum", (), ("sum(l_partkey * 3 + l_suppkey - l_linenumber) AS total",)),
    _asked("decimal_product", (), ("sum(l_extendedprice * l_tax) AS taxes",)),
    _asked(
        "case_in_sum",
        ("l_shipmode",),
        ("sum(CASE WHEN l_discount > 0.05 THEN l_extendedprice ELSE 0 END) AS reduced",),
    ),
    _asked(
        "compared_dates",
        ("l_shipmode",),
        ("count(*) AS lines",),
        filter="l_shipdate < l_commitdate AND l_commitdate < l_receiptdate",
    ),
    _asked(
        "date_parts",
        ("year(l_receiptdate) AS year", "month(l_receiptdate) AS month"),
        ("sum(l_quantity) AS quantity",),
    ),
    _asked(
        "double_sum",
        (),
        ("sum(CAST(l_extendedprice AS DOUBLE) * (1 + CAST(l_tax AS DOUBLE))) AS charge",),
    ),
)

_LINES: Final = ("count(*) AS lines", "sum(l_quantity) AS quantity")

_TEXTS: Final = (
    _asked(
        "text_extremes",
        ("l_shipmode",),
        ("min(l_comment) AS first_comment", "max(l_comment) AS last_comment"),
    ),
    _asked("text_prefix", ("l_returnflag",), _LINES, filter="l_comment LIKE 'fur%'"),
    _asked("text_substring", ("l_returnflag",), _LINES, filter="l_comment LIKE '%express%'"),
)

_KEYS: Final = (
    _asked("by_part", ("l_partkey",), _LINES),
    _asked("by_part_supplier", ("l_partkey", "l_suppkey"), _LINES),
    _asked("distinct_parts", (), ("count(DISTINCT l_partkey) AS parts",)),
    _asked("distinct_parts_by_mode", ("l_shipmode",), ("count(DISTINCT l_partkey) AS parts",)),
    _asked(
        "top_orders",
        ("l_orderkey",),
        ("sum(l_quantity) AS quantity",),
        order_by=("quantity DESC", "l_orderkey"),
        limit=10,
    ),
    _asked(
        "top_suppliers",
        ("l_suppkey",),
        _SUPPLY,
        order_by=("revenue DESC", "l_suppkey"),
        limit=10,
        covered_by="by_supplier",
    ),
)

_SCANS: Final = (
    _asked(
        "rows_of_large_lines",
        columns=("l_orderkey", "l_linenumber", "l_extendedprice", "l_shipdate", "l_comment"),
        filter="l_quantity >= 49 AND l_discount >= 0.09 AND l_shipmode = 'AIR'",
    ),
)

LINEITEM: Final = Workload(
    "lineitem",
    SCHEMA,
    "l_shipdate",
    _PROJECTIONS,
    _OF_TPCH + _EXPRESSIONS + _TEXTS + _KEYS + _SCANS,
)
