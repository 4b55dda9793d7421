"""The benchmark of a table's life runs, and checks that answers stay."""

import json

import pytest

from projseg.benchmarks import table_life


@pytest.mark.slow
def test_a_small_run(tmp_path, capsys):
    output = tmp_path / "results.json"
    sizes = ["--rows", "6000", "--batches", "12", "--tasks", "4", "--days", "3"]
    table_life.main([*sizes, "--rows-a-segment", "20", "--output", str(output)])
    record = json.loads(output.read_text())
    assert json.loads(capsys.readouterr().out) == record
    added = record["projections"]
    assert [step["segments"] for step in added["steps"]] == [2, 58]
    assert [row["built"] for row in added["steps"][-1]["stats"]] == [60, 60]
    assert added["base columns compared"] == 60 * 10
    assert added["base columns with other bytes"] == 0
    assert (record["scattered"]["segments before"], record["scattered"]["segments after"]) == (
        12,
        3,
    )
    assert record["scattered"]["rows"] == 240
    assert record["micro-batches"]["segments after"] < record["micro-batches"]["segments before"]
