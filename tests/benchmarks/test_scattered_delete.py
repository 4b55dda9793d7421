"""The benchmark of a scattered delete runs, and checks that answers stay."""

import json

import pytest

from projseg.benchmarks import scattered_delete


@pytest.mark.slow
def test_a_small_run(tmp_path, capsys):
    output = tmp_path / "results.json"
    scattered_delete.main(["--rows", "30000", "--output", str(output)])
    record = json.loads(output.read_text())
    assert json.loads(capsys.readouterr().out) == record
    found = record["30,000 rows"]
    by_vectors, anew = found["delete"].values()
    assert by_vectors["deleted_rows"] == anew["deleted_rows"] > 0
    assert by_vectors["masked_segments"] == found["segments"] == anew["written_segments"]
    assert by_vectors["written_bytes"] < anew["written_bytes"] / 10
    after, compacted = found["queries after"], found["queries after compaction"]
    assert "users_by_channel" not in after["users_by_channel"]["sources"]
    assert compacted["users_by_channel"]["sources"] == {"users_by_channel": found["segments"]}
