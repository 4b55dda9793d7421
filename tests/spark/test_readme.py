"""The README's and the pages' examples for Spark run as they stand and print what they say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLE = re.compile(r"```python( spark)?\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PAGES = [
    path for path in sorted((ROOT / "docs").glob("*.md")) if "```python spark\n" in path.read_text()
]


def run(code, names):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), names)
    return printed.getvalue()


def examples(page, for_spark):
    found = EXAMPLE.findall(page.read_text())
    return [(code, output) for kind, code, output in found if bool(kind) == for_spark]


def test_the_readmes_block_in_python_runs_alone_and_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [(code, output)] = examples(README, for_spark=False)
    assert [run(code, {}), run(code, {})] == [output] * 2


@pytest.mark.spark
def test_the_readmes_block_for_spark_runs_alone_and_twice(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    [(code, output)] = examples(README, for_spark=True)
    assert [run(code, {}), run(code, {})] == [output] * 2


@pytest.mark.spark
@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_spark_examples_print_what_they_say(page, tmp_path, monkeypatch, spark):
    """`df` has the rows that the page's examples in Python start with."""
    monkeypatch.chdir(tmp_path)
    names = {}
    run(examples(page, for_spark=False)[0][0], names)
    names |= {"spark": spark, "df": data_frame(spark, names["rows"])}
    names["location"] = str(tmp_path / "spark")
    for code, output in examples(page, for_spark=True):
        assert run(code, names).strip() == output.strip()


def data_frame(spark, rows):
    if isinstance(rows, dict):
        return spark.createDataFrame(list(zip(*rows.values(), strict=True)), list(rows))
    return spark.createDataFrame(rows)


def test_the_api_has_examples_for_spark():
    assert "python-api.md" in {page.name for page in PAGES}
