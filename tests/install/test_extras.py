"""A plain install brings no Spark and no plots; what needs them says which extra brings them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import projseg

_WITHOUT = """
import sys
for name in {names}:
    sys.modules[name] = None  # as if it were not installed
"""


def run_without(names, code, *words):
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(names=names) + code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["read", "write", "register"])
def test_a_spark_function_names_its_extra_when_called(name):
    told = run_without(["pyspark"], f"import projseg; projseg.{name}(None, 'somewhere')")
    assert told.stderr.splitlines()[-1].startswith(
        "projseg.errors.MissingPackageError: [PROJSEG_MISSING_PACKAGE]"
    )
    assert "pip install 'projseg[spark]'" in told.stderr.splitlines()[-1]


def test_names_can_be_looked_at_without_spark():
    code = "import inspect, projseg; print(len(inspect.getmembers(projseg))); help(projseg.read)"
    told = run_without(["pyspark"], code)
    assert "projseg[spark]" in told.stdout, told.stderr


def test_the_datasource_and_its_daemon_name_the_extra():
    for module in ("datasource", "daemon"):
        told = run_without(["pyspark"], f"import projseg.spark_datasource.{module}")
        assert "pip install 'projseg[spark]'" in told.stderr.splitlines()[-1]


def test_the_look_up_survives_a_python_without_spark():
    code = "import pyspark_projseg; print(hasattr(pyspark_projseg, 'DefaultSource'))"
    assert run_without(["pyspark"], code).stdout == "False\n"


_SHELL = "from projseg.cli import main; main()"


def test_rows_are_stored_and_asked_without_any_extra(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("name,n\na,1\nb,2\na,3\n")
    missing = ["pyspark", "matplotlib", "duckdb", "psutil", "datasketches", "pandas"]
    imported = run_without(missing, _SHELL, "import", tmp_path / "table", rows)
    assert imported.returncode == 0, imported.stderr
    asked = ("query", tmp_path / "table", "-a", "sum(n) AS n", "-o", "json")
    assert run_without(missing, _SHELL, *asked).stdout == '{"n": 6}\n'


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (("demo", "--spark"), "pyspark", "spark"),
        (("bench", "report", "results.json"), "matplotlib", "bench"),
    ],
)
def test_a_verb_names_its_extra_in_one_line(words, package, extra):
    told = run_without([package], _SHELL, *words)
    assert told.returncode == 1
    assert told.stderr.startswith("[PROJSEG_MISSING_PACKAGE] ")
    assert told.stderr.endswith(f"pip install 'projseg[{extra}]'\n")
    assert told.stderr.count("\n") == 1


def test_doctor_finds_nothing_wrong_where_spark_is_not_installed():
    told = run_without(["pyspark"], _SHELL, "doctor", "-o", "json")
    assert told.returncode == 0, told.stdout
    assert "java" not in told.stdout


def test_the_release_is_printed():
    told = run_without([], _SHELL, "--version")
    assert told.stdout == f"projseg {projseg.__version__}\n"


def test_dir_lists_the_public_names():
    public = [name for name in dir(projseg) if not name.startswith("_")]
    assert public == sorted(projseg.__all__)


def test_a_shell_completes_verbs():
    code = (
        "import os; os.environ.update(_PROJSEG_COMPLETE='complete_bash',"
        " COMP_WORDS='projseg des', COMP_CWORD='1')\n"
    )
    assert run_without([], code + _SHELL).stdout == "describe\n"
