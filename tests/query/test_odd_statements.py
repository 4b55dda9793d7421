"""Whatever a statement says, it works or ends in one line with a code that is the caller's."""

from __future__ import annotations

import datetime
import json
import random

import pyarrow as pa
import pytest
from scale import tries
from statement_texts import drawn_part, selects

import projseg
from projseg.errors import CODES, ProjsegError
from projseg.spark_engine.engine import reply_to

ROWS = pa.table(
    {
        "t": pa.array([datetime.datetime(2024, 1, day + 1) for day in range(3)]).cast(
            pa.timestamp("us", "UTC")
        ),
        "k": ["a", None, "b"],
        "n": pa.array([1, 2, None], pa.int32()),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    place = tmp_path_factory.mktemp("odd") / "table"
    made = projseg.Table.create(place, ROWS.schema, time_column="t", segment_granularity="day")
    made.append(ROWS)
    return made


def assert_told(code, message, text):
    assert code in CODES, (text, code)
    assert code != "PROJSEG_INTERNAL", (text, message)
    assert "\n" not in message, text


def test_selects(table):
    answered = 0
    for seed in range(tries(2_000)):
        try:
            table.sql(selects(seed))
            answered += 1
        except ProjsegError as error:
            assert_told(error.code, str(error), selects(seed))
    assert answered > 20


def test_requests_of_statements(table):
    """As the extension sends them, whose parser takes more texts than projseg does."""
    chance = random.Random(23)

    def part(kind):
        return drawn_part(chance, kind).strip("'\"`")

    def request():
        yield {"op": "add_projection", "sql": selects(seed), "lenient": False, "build": "deferred"}
        yield {"op": "materialize_projection", "interval": part("interval")}
        yield {"op": "optimize", "dry_run": True, "interval": part("interval")}
        yield {"op": "vacuum", "dry_run": True, "retention_hours": chance.getrandbits(63)}
        yield {"op": "restore", "version": chance.getrandbits(63)}
        yield {"op": "restore", "timestamp": part("instant")}
        yield {"op": "projection"}
        yield {"op": "drop_projection", "lenient": False}
        yield {"op": "history", "location": part("table")}

    for seed in range(tries(1_000)):
        for asked in request() if seed % 9 == 0 else [next(request())]:
            common = {"location": table.location, "small_bytes": 0, "materialize": False}
            told, _ = reply_to(json.dumps(common | {"name": part("name")} | asked).encode())
            if "error" in told:
                assert_told(told["code"], told["message"], asked)


@pytest.mark.parametrize("sql", ["", " ", "'lucene' DMPROPERTIES ('a' = 'b')", ";", "k", "FROM"])
def test_a_projection_without_select_is_refused(table, sql):
    with pytest.raises(ProjsegError, match=r"BAD_PROJECTION\].*"):
        table.add_projection({"name": "p", "sql": sql})
