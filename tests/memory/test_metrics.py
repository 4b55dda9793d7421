"""Metrics are what OpenMetrics reads, and count what `explain` and answers say."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext

import pyarrow as pa
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import projseg
from projseg.errors import CommitConflictError
from projseg.memory.metrics import counted_commit

SECRET = "hidden_name"


def samples():
    """All samples of this process, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(projseg.metrics())
        for sample in family.samples
    }


def gained(before):
    """What samples have now that they had not before; the cache's are left out."""
    return {
        key: value - before.get(key, 0)
        for key, value in samples().items()
        if value != before.get(key, 0)
        and not key[0].startswith(("projseg_cache", "projseg_query_duration"))
    }


def of(name, **labels):
    return (name, *sorted(labels.items()))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    hours = pa.array([h * 3_600_000_000 for h in range(96)]).cast(pa.timestamp("us", "UTC"))
    rows = {"time": hours, SECRET: [f"value {h % 7}" for h in range(96)], "n": [*range(96)]}
    table = projseg.Table.create(
        tmp_path_factory.mktemp("metrics") / "secret_table",
        time_column="time",
        segment_granularity="day",
        data=pa.table(rows),
        projections=[projseg.Projection("by_name", [SECRET], ["sum(n)"])],
    )
    view = f"SELECT {SECRET}, max(n) AS m FROM t GROUP BY ALL"
    table.create_view("most", view)
    table.view("most").refresh()
    table.append(pa.table(rows).slice(0, 24))
    return table


GROUPS = [["time"], [SECRET], [], [SECRET, "n"]]
AGGREGATES = [["sum(n) AS s"], ["max(n) AS m"], ["count(*) AS c"], ["min(n) AS l", "sum(n) AS s"]]
FILTERS = [None, "n > 30", f"{SECRET} = 'value 3'", "n < 0"]


def test_questions_count_what_explain_says(table):
    drawn = random.Random(7)
    before, expected = samples(), Counter()
    for _ in range(40):
        parts = drawn.choice(GROUPS), drawn.choice(AGGREGATES), drawn.choice(FILTERS)
        explained = table.explain(*parts)
        answer = table.query(*parts)
        for source, count in explained.sources.items():
            kind = {"base": "base", "by_name": "projection", "metadata": "metadata"}
            expected[of("projseg_sources_total", kind=kind.get(source, "view"))] += count
        expected[of("projseg_rows_read_total")] += explained.figures.rows
        expected[of("projseg_bytes_read_total")] += explained.figures.bytes
        expected[of("projseg_queries_total", door="python", outcome="done")] += 1
        expected[of("projseg_rows_returned_total", door="python")] += answer.num_rows
    assert gained(before) == {key: value for key, value in expected.items() if value}
    kinds = {key[1][1] for key in expected if key[0] == "projseg_sources_total"}
    assert kinds == {"base", "projection", "view", "metadata"}


def test_each_door_and_outcome_is_counted_once(table):
    before = samples()
    table.sql("SELECT count(*) FROM t")
    for refused in ("SELECT nothing FROM t", "SELECT 1/0 FROM t", "SELECT FROM t"):
        with pytest.raises(projseg.ProjsegError):
            table.sql(refused)
    with pytest.raises(projseg.ProjsegError):
        table.query("nothing")
    assert sum(batch.num_rows for batch in table.scan("n", "n < 5")) == 10
    next(iter(table.scan("n")))  # whoever reads wants no more
    assert table.dataset().to_table(columns=["n"]).num_rows == 120
    found = {key: n for key, n in gained(before).items() if key[0] == "projseg_queries_total"}
    assert found == {
        of("projseg_queries_total", door="sql", outcome="done"): 1,
        of("projseg_queries_total", door="sql", outcome="failed"): 3,
        of("projseg_queries_total", door="python", outcome="failed"): 1,
        of("projseg_queries_total", door="python", outcome="done"): 2,
        of("projseg_queries_total", door="dataset", outcome="done"): 1,
    }


def test_a_pools_questions_are_counted_by_who_asks(table):
    before = samples()
    with projseg.QueryPool(table, 1, start_method="fork") as pool:
        pool.sql("SELECT n FROM t LIMIT 3")
        with pytest.raises(projseg.ProjsegError):
            pool.query("nothing")
    assert gained(before) == {
        of("projseg_queries_total", door="sql", outcome="done"): 1,
        of("projseg_queries_total", door="python", outcome="failed"): 1,
        of("projseg_rows_returned_total", door="sql"): 3,
    }


def test_seconds_are_in_their_bucket(table):
    name, door = "projseg_query_duration_seconds", ("door", "sql")
    before = samples()
    table.sql("SELECT max(n) FROM t")
    after = samples()
    took = after[f"{name}_sum", door] - before[f"{name}_sum", door]
    grown = [
        float(dict(key[1:])["le"])
        for key, count in after.items()
        if key[0] == f"{name}_bucket" and door in key and count > before[key]
    ]
    assert 0 < took <= min(grown) + 1e-6
    assert after[f"{name}_count", door] == before[f"{name}_count", door] + 1


def test_commits_are_counted_by_how_they_end(tmp_path):
    before = samples()
    table = projseg.Table.create(tmp_path / "t", data={"n": [1]})
    other = projseg.Table(tmp_path / "t")
    table.append({"n": [2]})
    table.delete("n = 1")
    other.append({"n": [3]})
    with pytest.raises(CommitConflictError), counted_commit("append", "t"):
        raise CommitConflictError("PROJSEG_COMMIT_CONFLICT", "another was faster")
    found = {key: n for key, n in gained(before).items() if "commit" in key[0]}
    assert found == {
        of("projseg_commits_total", operation="create", outcome="done"): 1,
        of("projseg_commits_total", operation="append", outcome="done"): 2,
        of("projseg_commits_total", operation="delete", outcome="done"): 1,
        of("projseg_commits_total", operation="append", outcome="conflict"): 1,
        of("projseg_commit_conflicts_total"): 1,
    }


def test_a_faster_commit_is_a_retry(tmp_path, monkeypatch):
    table = projseg.Table.create(tmp_path / "t", data={"n": [1]})
    other, before = projseg.Table(tmp_path / "t"), samples()
    kind, is_first = type(table.snapshot.storage), [True]
    put = kind.put_if_absent

    def late(self, name, content):
        if is_first and name.startswith("_projseg/0"):
            is_first.clear()
            other.append({"n": [3]})
        return put(self, name, content)

    monkeypatch.setattr(kind, "put_if_absent", late)
    monkeypatch.setattr(kind, "turn", nullcontext)
    table.append({"n": [2]})
    assert gained(before)[of("projseg_commit_retries_total")] == 1


def test_no_name_and_no_value_is_shown(table):
    table.query(SECRET, filter=f"{SECRET} = 'value 3'", aggregators="sum(n) AS secret_sum")
    text = projseg.metrics()
    assert not any(word in text for word in ("secret", SECRET, "value 3", "by_name", "most"))
    assert text.endswith("\n# EOF\n")


def test_a_fork_begins_with_nothing(table):
    table.query(aggregators="count(*)")
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.write(theirs, str("projseg_queries_total{" in projseg.metrics()).encode())
        os._exit(0)
    os.close(theirs)
    assert os.read(ours, 16) == b"False"
    os.close(ours)


TRACED = """
import sys, projseg
table = projseg.Table.create(sys.argv[1], data={"n": [1, 2]})
table.query(aggregators="count(*)")
assert not [name for name in sys.modules if name.startswith("opentelemetry")]

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
with trace.get_tracer("app").start_as_current_span("request") as request:
    table.sql("SELECT sum(n) AS s FROM t WHERE n = 987654")
    table.append({"n": [3]})
    try:
        table.sql("SELECT nothing FROM t")
    except projseg.ProjsegError:
        pass
for span in spans.get_finished_spans()[:-1]:
    assert span.parent.span_id == request.get_span_context().span_id
    assert span.end_time >= span.start_time
    print(span.name, span.kind.name, dict(span.attributes), span.status.status_code.name)
    assert "987654" not in str(span.attributes)
(scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
(found,) = scope.metrics
points = found.data.data_points
print(found.name, found.unit, sum(point.count for point in points))
print(sorted(point.attributes.get("error.type", "") for point in points))
"""


def test_spans_and_durations_go_where_the_application_traces(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", TRACED, tmp_path / "edits"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    shared = (
        "'db.system.name': 'projseg', 'db.operation.name': '{0}', 'db.collection.name': 'edits'"
    )
    query, append = shared.format("query"), shared.format("append")
    error = "'error.type': 'PROJSEG_UNKNOWN_COLUMN'"
    assert found.stdout.splitlines() == [
        f"query edits INTERNAL {{{query}, 'db.query.summary': 'query edits'}} UNSET",
        f"append edits INTERNAL {{{append}, 'db.query.summary': 'append edits'}} UNSET",
        f"query edits INTERNAL {{{query}, {error}, 'db.query.summary': 'query edits'}} ERROR",
        "db.client.operation.duration s 3",
        "['', '', 'PROJSEG_UNKNOWN_COLUMN']",
    ]
