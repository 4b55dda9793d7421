"""Tables of edits and logs of their questions, for tests of advice and of what-if plans."""

import json
import os
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import projseg
from projseg.reader.query_log import log_files
from projseg.reader.query_log.log_files import flush_query_logs

START = datetime(2024, 5, 1, tzinfo=UTC)


def rows_of(count, seed=1, *, pages=5000, days=4):
    """Return edits in any order; no two of them have one `visit`."""
    draw = random.Random(seed)
    numbers = draw.sample(range(10**7), count)
    return pa.table(
        {
            "time": pa.array(
                [START + timedelta(seconds=draw.randrange(days * 86_400)) for _ in range(count)]
            ),
            "channel": [f"#{draw.randrange(6)}" for _ in range(count)],
            "page": [f"p{draw.randrange(pages)}" for _ in range(count)],
            "robot": [draw.random() < 0.3 for _ in range(count)],
            "added": [draw.randrange(100) for _ in range(count)],
            "price": pa.array([draw.randrange(1000) for _ in range(count)], pa.int64()),
            "visit": [f"v{number:07}" for number in numbers],
            "note": [f"note {number % 9973} of word{number % 7919}" for number in numbers],
        }
    )


def advice_of(table, log, **options):
    """Return advice: a busy machine has the time for it, even where it compiles kernels first."""
    return projseg.advise(table, log, **({"seconds": 3_600} | options))


def logging(folder, ask):
    """Log what is asked to a folder, and return it.

    Each answer takes five milliseconds, as advice depends on times, and these on the machine.
    """
    os.environ[log_files.SETTING] = str(folder)
    try:
        ask()
        flush_query_logs()
    finally:
        del os.environ[log_files.SETTING]
        log_files._forget()

    def steady(_, record):
        if record.get("answered_ms") is not None:
            record["answered_ms"] = 5.0

    change_records(folder, steady)
    return folder


def change_records(log, change):
    """Call a function of each record of a log's files, and of the share of those before it."""
    for path in log.iterdir():
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for place, record in enumerate(records):
            change(place / len(records), record)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))


def log_of(log, table):
    """Return the records of a log as if they were another table's."""
    records = projseg.read_log(log)
    ids = pa.array([table.properties.table_id] * len(records))
    return records.set_column(records.column_names.index("table_id"), "table_id", ids)


def imagined(advice):
    """Return the projections and indexes of advice, as a what-if takes them."""
    return [
        one.index if one.kind == "index" else one.projection for one in advice.candidates.values()
    ]


def spread(log, days):
    """Let the records of a log lie over some days before now."""

    def move(share, record):
        moment = datetime.now(UTC) - timedelta(days=days * (1 - share))
        record["time"] = moment.isoformat()

    change_records(log, move)


def written(path, statements, weight=40):
    """Write statements with a weight to a file, and return it."""
    path.write_text(";\n".join(f"-- weight: {weight}\n{one}" for one in statements))
    return path
