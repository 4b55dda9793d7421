"""A read-only install and a home that cannot be written: the usual container."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from importlib import metadata
from pathlib import Path

import pytest
import xxhash
from restricted_user import read_only_install, require_permissions, run_restricted

from projseg import __version__

_SPAWN = """
import multiprocessing, sys
import pyarrow as pa
import projseg
from projseg.kernels.runtime.cache_folder import cache_folder
from projseg.kernels.integer_codes import accumulate

def answer(location):
    values = projseg.Table(location).query(aggregators="sum(n) AS n").to_pylist()
    return [values, str(cache_folder())]

if __name__ == "__main__":
    location = sys.argv[1]
    rows = pa.table({"n": pa.array(range(300_000), pa.int64())})
    projseg.Table.create(location, rows.schema).append(rows)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(answer, [location]) == answer(location), *answer(location))
"""
_SPARK = """
import sys
import projseg
from pyspark.sql import SparkSession

location, module = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.python.daemon.module", module)
    .config("spark.sql.warehouse.dir", location + "-warehouse")
    .getOrCreate()
)
projseg.write(spark.range(300_000).repartition(1), location)
print(projseg.read(spark, location, aggregators="sum(id) AS n").first().n)
"""
_ACCUMULATE = """
import numpy as np
from projseg.kernels.row_selection import gather
from projseg.kernels.integer_codes import accumulate
from projseg.kernels.runtime.kernel import interpreter

interpreter.retire()
values = np.ones(200_000, np.int64)
accumulate(values)
print(values[-3:].tolist())
"""


class Container:
    """An install and a home that cannot be written, and a temporary directory that can."""

    def __init__(self, folder):
        require_permissions(folder / "probe")
        self.home, self.temporary = folder / "home", folder / "tmp"
        self.home.mkdir(mode=0o555)
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": read_only_install(folder / "site"),
            "HOME": self.home,
            "TMPDIR": self.temporary,
            "PYSPARK_PYTHON": sys.executable,
        }

    def python(self, *words, **changed):
        """Run Python there; a changed variable of None is not set."""
        environment = {
            name: value for name, value in (self.environment | changed).items() if value is not None
        }
        return run_restricted([sys.executable, *words], environment, cwd=self.temporary)

    def folder_in(self, base, *, of_archive=False):
        numba_version = metadata.version("numba")
        name = f"projseg-{__version__}-numba-{numba_version}-{os.geteuid()}"
        kernels = Path(self.environment["PYTHONPATH"], "projseg/kernels").resolve()
        own = "" if of_archive else f"-{xxhash.xxh3_64_hexdigest(os.fsencode(kernels))[:8]}"
        return base / (name + own)


@pytest.fixture
def container(tmp_path):
    # Its parents are writable by their owner alone, as a container's are by root.
    return Container(tmp_path)


def where(ran):
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


_WHERE = (
    "-c",
    "from projseg.kernels.runtime.cache_folder import cache_folder; print(cache_folder())",
)


def test_kernels_are_kept_in_a_private_temporary_folder(container):
    kept = container.folder_in(container.temporary)
    ran = container.python("-m", "projseg", "doctor", "-o", "json")
    assert str(kept) in ran.stdout, ran.stderr
    assert "Traceback" not in ran.stderr
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert list(container.home.iterdir()) == []


@pytest.mark.slow  # by day, kernels alone are compiled and loaded there
def test_rows_are_written_and_read_here_and_in_a_spawned_process(container):
    script = container.temporary / "script.py"
    script.write_text(_SPAWN)
    ran = container.python(script, container.temporary / "table")
    assert ran.stdout.startswith("True [{'n': 44999850000}]"), ran.stderr
    assert "compiles them anew" not in ran.stderr
    kept = list(container.folder_in(container.temporary).glob("*.nbc"))
    assert kept != []
    # The next process loads what the first compiled, and compiles nothing again.
    before = {path: path.stat().st_mtime_ns for path in kept}
    assert container.python(script, container.temporary / "again").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == before


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("daemon", ["pyspark.daemon", "projseg.spark_datasource.daemon"])
def test_spark_workers_write_and_read(container, daemon):
    ran = container.python("-c", _SPARK, container.temporary / "table", daemon)
    assert ran.stdout.strip() == "44999850000", ran.stderr
    assert list(container.folder_in(container.temporary).glob("*.nbc")) != []


def test_without_any_safe_place_kernels_are_compiled_with_one_warning(container):
    container.folder_in(container.temporary).write_text("in the way")
    ran = container.python("-c", _ACCUMULATE)
    assert where(ran) == "[199998, 199999, 200000]"
    assert ran.stderr.count("set NUMBA_CACHE_DIR") == 1


def test_the_setting_names_a_place_and_kernels_get_a_private_folder_in_it(container):
    shared = container.temporary / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert where(container.python(*_WHERE, NUMBA_CACHE_DIR=shared)) == str(
        container.folder_in(shared)
    )
    assert stat.S_IMODE(container.folder_in(shared).stat().st_mode) == 0o700


def test_a_setting_that_cannot_be_used_is_told(container):
    ran = container.python(*_WHERE, NUMBA_CACHE_DIR=container.home)
    assert where(ran) == str(container.folder_in(container.temporary))
    assert ran.stderr.count(f"NUMBA_CACHE_DIR={container.home}") == 1


def test_a_user_without_a_home_has_a_cache(container):
    ran = container.python(*_WHERE, HOME="relative")
    assert where(ran) == str(container.folder_in(container.temporary))


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_that_others_can_write_is_not_used(container, mode):
    planted = container.folder_in(container.temporary)
    planted.mkdir()
    planted.chmod(mode)
    assert where(container.python(*_WHERE)) == "None"


def test_a_planted_link_is_not_followed(container):
    elsewhere = container.temporary / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    container.folder_in(container.temporary).symlink_to(elsewhere)
    assert where(container.python(*_WHERE)) == "None"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("planted_is_parent", [True, False])
def test_a_folder_of_another_user_is_not_used(container, planted_is_parent):
    kept = container.folder_in(container.temporary)
    kept.mkdir(mode=0o700)
    stranger = container.temporary if planted_is_parent else kept
    os.chown(stranger, 65534, 65534)
    stranger.chmod(0o777 if planted_is_parent else 0o755)
    assert where(container.python(*_WHERE)) == "None"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", [b"", b"\x80\x05", b"cos\nsystem\n"])
def test_a_torn_file_costs_a_compilation_and_no_query(container, damage):
    assert where(container.python("-c", _ACCUMULATE)) == "[199998, 199999, 200000]"
    kept = list(container.folder_in(container.temporary).glob("integer_codes.*"))
    assert {path.suffix for path in kept} == {".nbi", ".nbc", ".code"}
    for path in kept:
        for stored in container.folder_in(container.temporary).glob("integer_codes.*.code"):
            stored.unlink()  # else Numba does not look for its own files
        path.write_bytes(damage)
        assert where(container.python("-c", _ACCUMULATE)) == "[199998, 199999, 200000]"
        # Machine code is kept again when Numba compiles the kernel again.
        assert path.suffix == ".code" or path.read_bytes() != damage


def test_kernels_of_an_archive_are_kept(container):
    """Spark's --py-files put projseg on the path as a zip file."""
    archive = shutil.make_archive(
        container.temporary / "projseg", "zip", container.environment["PYTHONPATH"]
    )
    assert (
        where(container.python("-c", _ACCUMULATE, PYTHONPATH=archive)) == "[199998, 199999, 200000]"
    )
    kept = container.folder_in(container.temporary, of_archive=True)
    assert list(kept.glob("integer_codes.*.nbc")) != []
