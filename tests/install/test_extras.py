"""A plain install brings no Spark; what needs them says which packages it needs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import projseg
from projseg.extras import REQUIREMENTS, SPARK_RELEASES

ROOT = Path(__file__).parents[2]
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
def test_a_spark_function_names_its_package_when_called(name):
    told = run_without(["pyspark"], f"import projseg; projseg.{name}(None, 'somewhere')")
    assert told.stderr.splitlines()[-1].startswith(
        "projseg.errors.MissingPackageError: [PROJSEG_MISSING_PACKAGE]"
    )
    assert "pip install 'pyspark>=4.0,<4.4'" in told.stderr.splitlines()[-1]


def test_names_can_be_looked_at_without_spark():
    code = "import inspect, projseg; print(len(inspect.getmembers(projseg))); help(projseg.read)"
    told = run_without(["pyspark"], code)
    assert "pyspark>=4.0,<4.4" in told.stdout, told.stderr


@pytest.mark.parametrize("release", ["3.5.9", "4.4.0"])
def test_a_release_of_spark_that_was_never_tried_is_refused(release):
    pytest.importorskip("pyspark")
    code = f"import pyspark; pyspark.__version__ = '{release}'\nimport projseg; projseg.register(0)"
    told = run_without([], code)
    assert "PROJSEG_MISSING_PACKAGE" in told.stderr.splitlines()[-1]
    assert f"needs Spark 4.0 to 4.3, and this is {release}" in told.stderr.splitlines()[-1]


def test_the_datasource_and_its_daemon_name_the_package():
    for module in ("datasource", "daemon"):
        told = run_without(["pyspark"], f"import projseg.spark_datasource.{module}")
        assert "pip install 'pyspark>=4.0,<4.4'" in told.stderr.splitlines()[-1]


def test_the_look_up_survives_a_python_without_spark():
    code = "import pyspark_projseg; print(hasattr(pyspark_projseg, 'DefaultSource'))"
    assert run_without(["pyspark"], code).stdout == "False\n"


_ENTRY = "from projseg.__main__ import main; main()"
_SHELL = "from projseg.cli import main; main()"


def test_rows_are_stored_and_asked_without_any_extra(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("name,n\na,1\nb,2\na,3\n")
    missing = ["pyspark", "duckdb", "psutil", "datasketches", "pandas"]
    imported = run_without(missing, _SHELL, "import", tmp_path / "table", rows)
    assert imported.returncode == 0, imported.stderr
    asked = ("query", tmp_path / "table", "-a", "sum(n) AS n", "-o", "json")
    assert run_without(missing, _SHELL, *asked).stdout == '{"n": 6}\n'


@pytest.mark.parametrize(
    ("package", "missing"), [("sqlalchemy", ["sqlalchemy", "urllib3"]), ("alembic", ["alembic"])]
)
def test_a_spark_catalog_names_the_package_of_its_definitions(package, missing):
    pytest.importorskip("pyspark")
    pytest.importorskip("sqlalchemy")  # which is missed first
    code = """
from projseg.spark_engine.definition_requests import DEFINITIONS
DEFINITIONS["defined_view"]({"catalog": {"uri": "c.db"}})
"""
    told = run_without(missing, code)
    assert "[PROJSEG_MISSING_PACKAGE] a Spark catalog with a uri" in told.stderr.splitlines()[-1]
    assert f"pip install '{REQUIREMENTS[package]}'" in told.stderr.splitlines()[-1]


def test_a_catalog_of_a_file_is_opened_without_the_package_of_servers(tmp_path):
    pytest.importorskip("sqlalchemy")
    code = "import sys, projseg; c = projseg.Catalog(sys.argv[1]); c.init(); print(c.namespaces())"
    assert run_without(["urllib3"], code, tmp_path / "c.db").stdout == "['default']\n"


def test_a_verb_names_its_package_in_one_line():
    told = run_without(["pyspark"], _SHELL, "demo", "--spark")
    assert told.returncode == 1
    assert told.stderr.startswith("[PROJSEG_MISSING_PACKAGE] ")
    assert told.stderr.endswith("pip install 'pyspark>=4.0,<4.4'\n")
    assert told.stderr.count("\n") == 1


def test_doctor_finds_nothing_wrong_where_spark_is_not_installed():
    told = run_without(["pyspark"], _SHELL, "doctor", "-o", "json")
    assert told.returncode == 0, told.stdout
    assert "java" not in told.stdout


def test_the_release_is_printed():
    told = run_without([], _SHELL, "--version")
    assert told.stdout == f"projseg {projseg.__version__}\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("verb", [[], ["query"], ["bench"]])
def test_help_is_printed(verb):
    told = run_without([], _SHELL, *verb, "--help")
    assert "Usage: projseg" in told.stdout, told.stderr
    assert "--help" in told.stdout


@pytest.mark.parametrize(
    "code", ["import projseg", "import sys; sys.argv[1:] = ['--version']; " + _ENTRY]
)
def test_the_package_and_its_release_load_no_engine(code):
    engines = "{'numba', 'numpy', 'pyarrow', 'pyspark', 'sqlglot', 'typer'}"
    told = run_without([], f"{code}; import sys; print(sorted({engines} & set(sys.modules)))")
    assert told.stdout.splitlines()[-1] == "[]", told.stderr


def test_messages_require_what_the_extras_bring():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {one for extra in project["optional-dependencies"].values() for one in extra}
    assert set(REQUIREMENTS.values()) <= brought


def test_nobody_is_told_to_install_projseg_from_an_index():
    """Its name is free there: whoever takes it could bring anything."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    said = [
        f"{path}:{number}"
        for path in tracked
        if not path.startswith("tests/") and (ROOT / path).is_file()
        for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1)
        if re.search(r"\b(pip\d?|pipx|uv) (install|add)\s+(-\S+\s+)*['\"]?projseg\b", line)
        or (re.search(r"\bprojseg\[[a-z]+\]", line) and path != "pyproject.toml")
    ]
    assert said == []


def test_dir_lists_the_public_names():
    public = [name for name in dir(projseg) if not name.startswith("_")]
    assert public == sorted(projseg.__all__)


def test_the_releases_of_spark_are_those_that_an_install_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    low, high = SPARK_RELEASES[0], int(SPARK_RELEASES[-1].split(".")[1]) + 1
    assert project["optional-dependencies"]["spark"] == [f"pyspark>={low},<4.{high}"]
    makefile = (ROOT / "Makefile").read_text()
    assert f"SPARK_RELEASES := {' '.join(SPARK_RELEASES)}\n" in makefile


def test_the_minimums_are_those_of_the_project_file():
    told = subprocess.run(
        [sys.executable, ROOT / ".ci/minimum_versions.py", "spark"],
        capture_output=True,
        text=True,
        check=True,
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(told.stdout.splitlines()) == len(project["dependencies"]) + 1
    assert f"pyspark=={SPARK_RELEASES[0]}" in told.stdout.splitlines()


def test_a_shell_completes_verbs():
    code = (
        "import os; os.environ.update(_PROJSEG_COMPLETE='complete_bash',"
        " COMP_WORDS='projseg des', COMP_CWORD='1')\n"
    )
    assert run_without([], code + _SHELL).stdout == "describe\n"


_BY_PATH = """
import os, projseg
os.environ["PROJSEG_CATALOG"] = "postgresql://nobody@127.0.0.1:1/none"
table = projseg.Table.create("t", {"k": "string", "n": "bigint"})
table.add_projection({"name": "p", "sql": "SELECT k, sum(n) AS s GROUP BY k"})
for first in (0, 10):
    table.append({"k": ["a", "b"] * 5, "n": list(range(first, first + 10))})
assert table.explain(group_by="k", aggregators="sum(n)").sources == {"p": 2}
table.delete("n >= 15")
table.compact()
assert projseg.Table("t").sql("SELECT sum(n) AS s FROM t").to_pylist() == [{"s": 105}]
try:
    projseg.Catalog("house.db")
except projseg.ProjsegError as error:
    print(error)
"""


def test_tables_by_path_need_neither_a_catalogs_packages_nor_its_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["sqlalchemy", "alembic", "urllib3", "psycopg", "starlette", "uvicorn"]
    told = run_without(names, _BY_PATH)
    assert told.returncode == 0, told.stderr
    assert "PROJSEG_MISSING_PACKAGE" in told.stdout
