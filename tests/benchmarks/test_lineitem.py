"""TPC-H's lineitem: every engine gives the same answers, and projections are used."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from projseg.benchmarks.bench import find_difference, normalised
from projseg.benchmarks.engine_comparison import select_engines
from projseg.benchmarks.workload import stage
from projseg.benchmarks.written_workloads import LINEITEM, SCHEMA, LineitemRows
from projseg.errors import MissingPackageError

pytest.importorskip("duckdb")

needs_generator = pytest.mark.skipif(
    not (Path(sys.executable).parent / "tpchgen-cli").exists() and not shutil.which("tpchgen-cli"),
    reason="tpchgen-cli is of the extra [bench]",
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return LineitemRows.in_folder(tmp_path_factory.mktemp("made"), 0.001)


@pytest.fixture(scope="module")
def engines(tmp_path_factory, rows):
    """Three engines over the same rows in one process, by name."""
    folder = tmp_path_factory.mktemp("lineitem")
    source = stage(rows, folder / "source", with_parquet=False)
    found = {}
    for kind in select_engines(["projseg", "projseg-base", "duckdb"]):
        (folder / kind.name).mkdir()
        loading = kind(folder / kind.name, 2, LINEITEM)
        loading.load(source)
        loading.close()
        found[kind.name] = kind(folder / kind.name, 2, LINEITEM)
        found[kind.name].open()
    yield found
    for engine in found.values():
        engine.close()


@pytest.mark.sampled(8)
@needs_generator
@pytest.mark.parametrize("query", LINEITEM.queries, ids=lambda query: query.name)
def test_engines_agree(engines, query):
    expected = normalised(engines["duckdb"].answer(query), query)
    assert len(expected) > 0
    for name in ("projseg", "projseg-base"):
        found = normalised(engines[name].answer(query), query)
        assert find_difference(expected, found, query) is None, name
    assert engines["projseg-base"].work(query)["answered from"] == "base rows (1)"


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
        LineitemRows.in_folder(tmp_path, 0.001)
