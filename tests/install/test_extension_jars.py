"""The jar of Spark's extension that a wheel brings: where it is found, and Spark with it alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from distributions import build, checkout

from projseg.extras import spark_release

ROOT = Path(__file__).parents[2]
INSTALLED = spark_release(pyspark.__version__)
# Folders with PySpark alone, which `make .venvs/pyspark-4.0` makes, and the tests' own.
SPARKS = {
    "4.0": ROOT / ".venvs/pyspark-4.0",
    INSTALLED: Path(pyspark.__file__).parents[1],
}
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from projseg.cli import app
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, ["extension", *words])
    error = str(done.exception) if done.exit_code else ""
    print(json.dumps([done.exit_code, done.stdout, error]))
"""
SESSION = """
import datetime, sys, pyarrow, projseg, pyspark
from pyspark.sql import SparkSession
assert pyspark.__version__.startswith(sys.argv[1]), pyspark.__version__
start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
times = [start + datetime.timedelta(minutes=n) for n in range(5000)]
rows = pyarrow.table({"time": times, "kind": ["abc"[n % 3] for n in range(5000)]})
by_kind = {"name": "by_kind", "sql": "SELECT kind, count(*) GROUP BY ALL"}
projseg.Table.create("events", rows.schema, time_column="time", projections=[by_kind], data=rows)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = projseg.configure(builder).getOrCreate()
spark.read.format("projseg").load("events").createOrReplaceTempView("events")
print(spark.sql("SELECT kind, count(*) FROM events GROUP BY kind ORDER BY kind").collect())
print([(row.answered, row.sources) for row in projseg.query_log(spark).collect()])
print(spark.conf.get("spark.jars"))
"""


@pytest.fixture
def installed(tmp_path):
    """A package like an installed one, with a jar for 4.0 and for the tests' own Spark."""
    package = tmp_path / "site/projseg"
    package.mkdir(parents=True)
    for path in (ROOT / "src/projseg").iterdir():
        (package / path.name).symlink_to(path.resolve())
    (package / "spark_jars").mkdir()
    for release in ("4.0", INSTALLED):
        (package / f"spark_jars/projseg-spark-{release}.jar").write_bytes(release.encode())
    return package


def asked(package, *commands):
    """Return exit code, output and error of each `projseg extension` of a package without Java."""
    ran = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(package.parent), "JAVA_HOME": "/nowhere"},
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_jar_that_an_install_brought_is_found_and_put_elsewhere(installed, tmp_path):
    named, own, built, lacking, unknown = asked(
        installed,
        ["jar", "--spark", "4.0.1"],
        ["jar"],
        ["build", "--folder", str(tmp_path / "image")],
        ["jar", "--spark", "4.1"],
        ["jar", "--spark", "3.5"],
    )
    jars = installed / "spark_jars"
    assert named == [0, f"{jars}/projseg-spark-4.0.jar\n", ""]
    assert own == [0, f"{jars}/projseg-spark-{INSTALLED}.jar\n", ""]
    [copy] = (tmp_path / "image").iterdir()
    assert built[0] == 0
    assert str(copy) in built[1]
    assert copy.read_text() == INSTALLED
    assert lacking[2].startswith("[PROJSEG_EXTENSION_NOT_BUILT] this install")
    assert unknown[2].startswith("[PROJSEG_BAD_ARGUMENT] projseg has no extension for Spark 3.5")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = checkout(tmp_path_factory.mktemp("built") / "checkout")
    sparks = os.pathsep.join(str(one) for one in SPARKS.values() if one.exists())
    built = build(folder, "--wheel", PROJSEG_WITHOUT_KERNELS="1", PROJSEG_SPARKS=sparks)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("dist/*.whl"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("release", sorted(SPARKS))
def test_spark_runs_the_jar_of_a_wheel_and_compiles_none(release, wheel, tmp_path):
    if not SPARKS[release].exists():
        pytest.skip(f"make {SPARKS[release].relative_to(ROOT)} has not run")
    place, home = tmp_path / "venv", tmp_path / "home"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    install = [place / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", wheel]
    subprocess.run(install, check=True)
    others = [SPARKS[release], Path(pytest.__file__).parents[1]]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYSPARK_PYTHON": str(place / "bin/python"),
        "PYTHONPATH": os.pathsep.join(map(str, others)),
    }
    ran = subprocess.run(
        [place / "bin/python", "-c", SESSION, release],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    rows, log, jar = ran.stdout.splitlines()[-3:]
    assert rows.count("Row(") == 3
    assert log == "[('planted', '1 x by_kind')]"
    assert jar.startswith(str(place))
    assert jar.endswith(f"spark_jars/projseg-spark-{release}.jar")
    assert "compiling" not in ran.stderr
    assert list(home.rglob("*.jar")) == []
