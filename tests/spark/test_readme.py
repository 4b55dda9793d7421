"""The README's examples run as they stand and print what it says they print."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLE = re.compile(r"```python( spark)?\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def examples():
    return {bool(kind): (code, output) for kind, code, output in EXAMPLE.findall(README)}


def run(code, **names):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), names)
    return printed.getvalue()


def test_the_python_example_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = examples()[False]
    assert run(code) == output


@pytest.mark.spark
def test_the_spark_example_prints_what_it_says(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    python, _ = examples()[False]
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(python, "README.md", "exec"), names)
    code, output = examples()[True]
    df = spark.createDataFrame(names["rows"])
    assert run(code, spark=spark, df=df, location=str(tmp_path / "spark")).strip() == output.strip()
