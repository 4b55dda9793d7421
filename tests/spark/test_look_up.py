"""Spark finds the format by itself, and looking costs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys

_LOOK = """
import sys
import pyspark.sql.datasource  # 4.0 imports numpy here
before = set(sys.modules)
import pyspark_projseg
heavy = ("numba", "pyarrow", "numpy", "sqlglot")
heavy = [name for name in heavy if name in set(sys.modules) - before]
print(__import__("json").dumps([pyspark_projseg.DefaultSource.name(), heavy]))
"""
_BROKEN = """
import sys
sys.modules["projseg.spark_datasource.datasource"] = None
import pyspark_projseg
print(hasattr(pyspark_projseg, "DefaultSource"))
"""
_UNKNOWN_RELEASE = """
import pyspark
pyspark.__version__ = "4.4.0"
import pyspark_projseg
print(hasattr(pyspark_projseg, "DefaultSource"))
"""


def run(code):
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_the_module_names_the_format_and_imports_nothing_heavy():
    assert json.loads(run(_LOOK)) == ["projseg", []]


def test_a_broken_installation_does_not_break_the_look_up_of_others():
    assert run(_BROKEN) == "False"


def test_a_release_of_spark_that_was_never_tried_finds_no_format():
    assert run(_UNKNOWN_RELEASE) == "False"
