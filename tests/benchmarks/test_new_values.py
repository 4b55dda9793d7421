"""The benchmark of questions with new values runs."""

import json

from projseg.benchmarks import new_values


def test_new_values_are_measured(tmp_path):
    output = tmp_path / "values.json"
    new_values.main(["--rows", "2000", "--output", str(output)])
    (figures,) = json.loads(output.read_text())["rows"].values()
    assert "covered" in figures
    assert all(one["new"] > 0 and one["again"] > 0 for one in figures.values())
