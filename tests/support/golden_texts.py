"""Canonical texts, definitions, stored names and floats of released versions.

`python tests/support/golden_texts.py` writes the file if it is missing, and never changes it.
"""

import json
from pathlib import Path

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.state_columns import state_column_name, stored_column
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.projection.parse import parse_projection
from projseg.segment_format.logical_types import parse_type_name

PATH = Path(__file__).parents[1] / "golden" / "canonical_texts.json"

COLUMNS = {
    "time": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "channel": "string",
    "Select": "string",
    "i": "int",
    "n": "bigint",
    "d": "decimal(12,2)",
    "x": "double",
    "f": "float",
    "robot": "boolean",
    "payload": "binary",
    "pair": "struct<left:int,right:string>",
}

TEXTS = {
    "UTC": [
        "i",
        "`Select`",
        "CHANNEL",
        "3Y + 4S",
        "n > 5 AND robot",
        "NOT robot",
        "NOT (i < 3 OR channel IS NULL)",
        "5 < i",
        "channel = 'a' OR channel IN ('c', 'b')",
        "channel NOT IN ('b', 'a')",
        "i IN (3, 1, 2, 1)",
        "n * 2 + i",
        "2 * i + n * 1L",
        "d * 1.5",
        "d > 3",
        "x = 0.1",
        "f + 1",
        "x / 0D",
        "i DIV 2 % 3",
        "-i",
        "~n & 7",
        "CAST(i AS STRING)",
        "channel || '-' || `Select`",
        "CASE WHEN i > 1 THEN 'many' WHEN i = 1 THEN 'one' END",
        "if(robot, 1, 0)",
        "coalesce(channel, NULL, 'none')",
        "channel LIKE 'a\\\\_%'",
        "pair.left",
        "substring(upper(channel), 1, 2)",
        "trim(channel)",
        "trim(LEADING '#' FROM channel)",
        "payload = X'00ff'",
        "day >= DATE '2024-02-29'",
        "time >= TIMESTAMP '2024-05-01 12:30:00'",
        "local < TIMESTAMP_NTZ '2024-05-01 00:00:00.5'",
        "time + INTERVAL '1' MONTH",
        "date_trunc('hour', time)",
        "date_trunc('MONTH', date_trunc('day', time))",
        "trunc(day, 'MM')",
        "timestamp_floor(time, 'PT15M')",
        "to_date(time)",
        "year(time)",
        "hour(time)",
        "channel = 'it''s'",
        "CAST('NaN' AS DOUBLE) = x",
    ],
    "America/New_York": [
        "date_trunc('DAY', time)",
        "date_trunc('HOUR', time)",
        "to_date(time)",
        "hour(time)",
        "CAST(time AS STRING)",
        "time >= TIMESTAMP '2024-05-01 00:00:00'",
        "time + INTERVAL '1' DAY",
    ],
}

DECLARATIONS = [
    {"name": "sums", "groupBy": ["date_trunc('HOUR', time)", "channel"], "aggregators": ["sum(i)"]},
    {
        "name": "renamed",
        "groupBy": ["date_trunc('hour', TIME) AS h", "channel AS c"],
        "aggregators": ["sum(i) AS total"],
    },
    {
        "name": "many",
        "groupBy": ["channel"],
        "aggregators": [
            "avg(d) AS mean",
            "count(*)",
            "sum(d)",
            "count_if(robot)",
            "stddev_samp(x)",
            "first(n)",
            "hll_sketch_agg(channel)",
            "approx_count_distinct(channel)",
            "theta_sketch_agg(i, 10)",
            "count(DISTINCT channel) FILTER (WHERE i > 3)",
        ],
        "filter": "i > 2 AND channel <> 'x'",
    },
]

LONG = "CASE " + " ".join(f"WHEN i = {n} THEN 'word {n}'" for n in range(20)) + " END"
CONTROL = "channel = 'a\nb'"

FLOATS = [0.0, 100.0, 1e15, 1234567890123456.0, 1e16, 1.5e300, 0.1, 1e-05, 1.5e-05, 1e-06, 3e-07]
FLOATS += [5e-324, 1.7976931348623157e308, -2.5, 2.0**53, 2.0**60, 1 / 3]


def schema():
    """Columns of all texts, as an Arrow schema."""
    return pa.schema([(name, parse_type_name(kind)) for name, kind in COLUMNS.items()])


def canonical(text, zone):
    """The canonical text that the code makes of a text in a session's time zone."""
    return to_sql(bind(text, schema(), timezone=zone))


def definition(declaration):
    """Definition and hash of a declaration."""
    spec = parse_projection(declaration, schema(), time_column="time")
    return {"definition": json.loads(spec.definition), "hash": spec.definition_hash}


def stored_names():
    """Texts that are too long for a name, or not legal as one, and the names stored for them."""
    part = f"sum(i) FILTER (WHERE ({canonical(LONG, 'UTC')}) = 'word 3')"
    found = {canonical(t, "UTC"): stored_column(bind(t, schema())).name for t in (LONG, CONTROL)}
    return found | {f"{part}.sum": state_column_name(part, "sum")}


def build():
    """The whole file's content."""
    return {
        "columns": COLUMNS,
        "canonical": {z: {t: canonical(t, z) for t in texts} for z, texts in TEXTS.items()},
        "definitions": [{"declaration": one, **definition(one)} for one in DECLARATIONS],
        "stored_names": stored_names(),
        "floats": {value.hex(): msgspec.json.encode(value).decode() for value in FLOATS},
    }


def main():
    """Write the file if it is missing."""
    if not PATH.exists():
        PATH.write_text(json.dumps(build(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
