"""The parts of the night: each file of tests is in one of them."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not on this machine")
def test_each_file_of_tests_is_in_one_part_of_the_night():
    listed = subprocess.run(
        ["make", "--silent", "nightly-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = Counter(listed.stdout.split())
    assert {file: n for file, n in files.items() if n > 1} == {}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(files) == there


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone, and collects only the first of two."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name: n for name, n in names.items() if n > 1} == {}
