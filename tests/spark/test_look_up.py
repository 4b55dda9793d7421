"""Spark finds the format by itself, and looking costs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys

_LOOK = """
import sys
import pyspark_projseg
heavy = [name for name in ("numba", "pyarrow", "numpy", "sqlglot") if name in sys.modules]
print(__import__("json").dumps([pyspark_projseg.DefaultSource.name(), heavy]))
"""
_BROKEN = """
import sys
sys.modules["projseg.spark_datasource.datasource"] = None
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
