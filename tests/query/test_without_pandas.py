"""Pandas, where it is installed, takes longer to import than a query: nothing may import it."""

from __future__ import annotations

import subprocess
import sys

QUESTIONS = """
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

folder = sys.argv[1]
start, rows = datetime(2024, 1, 1), range(600)
columns = {
    "time": (pa.timestamp("us", "UTC"), [start + timedelta(minutes=6 * row) for row in rows]),
    "channel": (pa.string(), [(None, "#a", "#b", "#c")[row % 4] for row in rows]),
    "user": (pa.string(), [f"u{row % 97}" for row in rows]),
    "added": (pa.int64(), [row % 31 if row % 5 else None for row in rows]),
    "score": (pa.float64(), [row / 7 for row in rows]),
    "flag": (pa.bool_(), [row % 2 == 0 for row in rows]),
    "price": (pa.decimal128(12, 2), [Decimal(row) / 4 for row in rows]),
    "day": (pa.date32(), [date(2024, 1, 1 + row % 3) for row in rows]),
}
schema = pa.schema([(name, arrow_type) for name, (arrow_type, _) in columns.items()])
if sys.argv[2] == "make":  # making rows of Python values imports pandas
    batch = pa.table([pa.array(values, t) for t, values in columns.values()], schema)
    with pa.ipc.new_file(folder + "/rows.arrow", schema) as file:
        file.write_table(batch)
    raise SystemExit

import projseg

table = projseg.Table.create(
    folder + "/table",
    schema,
    time_column="time",
    segment_granularity="P1D",
    cluster_by=["channel"],
    projections=[
        {"name": "c", "sql": "SELECT channel, sum(added) AS s, count(*) AS n GROUP BY ALL"},
    ],
)
table.append(pa.ipc.open_file(folder + "/rows.arrow").read_all())
SUM = "sum(added) AS s, count(*) AS n"
for question in (
    {"aggregators": SUM},
    {"group_by": "channel", "aggregators": SUM},
    {"group_by": "channel", "aggregators": "max(score) AS m, avg(price) AS p, min(day) AS d"},
    {"group_by": "date_trunc('HOUR', time) AS h", "aggregators": SUM},
    {"group_by": "user", "aggregators": SUM, "filter": "channel = '#a' AND added > 3"},
    {"group_by": "user", "aggregators": SUM, "filter": "channel IN ('#a', '#b') OR score < 3.5"},
    {"group_by": "flag", "aggregators": SUM, "filter": "price > 10.5 AND day <> DATE '2024-01-02'"},
    {"group_by": "day", "aggregators": SUM, "filter": "time >= '2024-01-01 03:00:00'"},
    {"group_by": "upper(user) AS u", "aggregators": SUM, "interval": "2024-01-01/2024-01-02"},
    {"group_by": "channel", "aggregators": "count(distinct user) AS d"},
    {"group_by": "channel", "aggregators": "approx_count_distinct(user) AS d"},
    {"group_by": "channel", "aggregators": "stddev(score) AS d"},
    {"group_by": "user", "aggregators": SUM, "order_by": "s DESC, user", "limit": 5},
    {"group_by": "user", "aggregators": SUM, "having": "s > 10"},
    {"group_by": "if(score > 50, 'high', 'low') AS size", "aggregators": SUM},
):
    assert table.query(**question).num_rows, question
assert table.scan(filter="added > 10 AND channel = '#b'").read_all().num_rows
assert table.scan(limit=3).read_all().num_rows == 3
"""
PANDAS = """
import traceback
from pathlib import Path

with (Path(__file__).parent / "importers.txt").open("a") as file:
    traceback.print_stack(file=file)
raise ImportError("pandas must not be imported")
"""


def test_appends_queries_and_scans_do_not_import_pandas(tmp_path):
    (tmp_path / "pandas").mkdir()
    (tmp_path / "pandas" / "__init__.py").write_text(PANDAS)
    for what in ("make", "ask"):
        script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{QUESTIONS}"
        run = [sys.executable, "-c", script, str(tmp_path), what]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        importers = tmp_path / "pandas" / "importers.txt"
        assert importers.exists() == (what == "make"), importers.read_text()
        importers.unlink(missing_ok=True)
