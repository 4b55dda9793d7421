"""TPC-H's lineitem: every engine gives the same answers, and projections are used."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from projseg.benchmarks.answers import find_difference, normalised
from projseg.benchmarks.cli import app
from projseg.benchmarks.lineitem import SCHEMA, LineitemRows
from projseg.benchmarks.peers.registry import select_engines
from projseg.benchmarks.records import load_run
from projseg.benchmarks.staging import stage
from projseg.benchmarks.workload import WORKLOADS
from projseg.errors import MissingPackageError

pytest.importorskip("duckdb")

LINEITEM = WORKLOADS["lineitem"]
needs_generator = pytest.mark.skipif(
    not (Path(sys.executable).parent / "tpchgen-cli").exists() and not shutil.which("tpchgen-cli"),
    reason="tpchgen-cli is of the extra [bench]",
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return LineitemRows.made(tmp_path_factory.mktemp("made"), 0.001)


@pytest.fixture(scope="module")
def engines(tmp_path_factory, rows):
    """Three engines over the same rows in one process, by name."""
    folder = tmp_path_factory.mktemp("lineitem")
    source = stage(rows, folder / "source")
    assert not source.parquet_folder.exists()
    found = {}
    for kind in select_engines(["projseg", "projseg-base", "duckdb"], "lineitem"):
        (folder / kind.name).mkdir()
        loading = kind(folder / kind.name, 2, LINEITEM)
        loading.load(source)
        loading.close()
        found[kind.name] = kind(folder / kind.name, 2, LINEITEM)
        found[kind.name].open()
    yield found
    for engine in found.values():
        engine.close()


@needs_generator
@pytest.mark.parametrize("query", LINEITEM.queries, ids=lambda query: query.name)
def test_engines_agree(engines, query):
    expected = normalised(engines["duckdb"].answer(query), query)
    assert len(expected) > 0
    for name in ("projseg", "projseg-base"):
        found = normalised(engines[name].answer(query), query)
        assert find_difference(expected, found, query) is None, name
    assert engines["projseg-base"].work(query).sources == {"base rows": 1}


@needs_generator
def test_a_projection_can_answer_what_is_marked_so(engines):
    table = engines["projseg"]._table
    for query in LINEITEM.queries:
        context = {"forceProjections": True, "useProjection": query.covered_by}
        if query.covered_by:
            table.query(
                group_by=query.group_by,
                aggregators=query.aggregators,
                filter=query.filter,
                context=context,
            )


@needs_generator
def test_rows_have_the_schema(rows):
    made = pa.Table.from_batches(rows.batches())
    assert made.schema == rows.schema == SCHEMA
    assert len(made) == rows.row_count == 6005


def test_a_missing_generator_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(MissingPackageError, match="tpchgen-cli"):
        LineitemRows.made(tmp_path, 0.001)


@needs_generator
@pytest.mark.slow
def test_a_whole_run(tmp_path):
    output = tmp_path / "run.json"
    arguments = ["--workload", "lineitem", "--scale", "0.01", "--peers", "projseg,duckdb"]
    more = ["--rounds", "1", "--output", str(output), "--work-folder", str(tmp_path)]
    done = CliRunner().invoke(app, ["run", *arguments, *more])
    assert done.exit_code == 0, done.output
    assert "every answer agrees" in done.output
    run = load_run(output)
    assert (run.workload, run.row_count, run.has_wrong_answers) == ("lineitem", 60_175, False)
    assert set(run.engine("projseg").timings) == {query.name for query in LINEITEM.queries}
    printed = CliRunner().invoke(app, ["table", str(output)])
    assert printed.exit_code == 0
    assert "| q1 \\* |" in printed.output
    assert "where a peer is faster" in printed.output
