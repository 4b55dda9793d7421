"""The benchmark of small segments runs, and says what each query took."""

import json

from projseg.benchmarks import small_segments


def test_small_segments_are_measured(tmp_path):
    output = tmp_path / "small.json"
    small_segments.main(["--rows", "4000", "--counts", "8", "--output", str(output)])
    (table,) = json.loads(output.read_text())["segments"].values()
    assert table["segments"] == 8
    for figures in table["queries"].values():
        assert set(figures) == {"plan", "first", "again", "duckdb"}
        assert min(figures.values()) > 0
