"""Every error code is registered and documented; generated references are what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from projseg.errors import CODES

ROOT = Path(__file__).parents[2]
FOLDERS = [
    "algebra", "aggregation", "evaluation", "kernels", "memory", "segment_format", "table_layer",
    "reader", "writer", "maintenance", "views", "catalog", "query_pool", "advisor",
    "spark_datasource", "spark_engine", "benchmarks", "src/projseg",
]  # fmt: skip
_CODE = re.compile(r'"(PROJSEG_[A-Z_]+)"')
_SETTINGS = {
    "PROJSEG_CACHE_BYTES",
    "PROJSEG_CATALOG",
    "PROJSEG_CATALOG_TOKEN",
    "PROJSEG_EXTERNAL_HOSTS",
    "PROJSEG_EXTERNAL_ROOTS",
    "PROJSEG_GROUP_BYTES",
    "PROJSEG_JOIN_ROWS",
    "PROJSEG_QUERY_LOG",
    "PROJSEG_QUERY_LOG_BYTES",
    "PROJSEG_QUERY_LOG_LITERALS",
    "PROJSEG_TABLE_ROOTS",
}


def used_codes():
    kinds = [(folder, kind) for folder in FOLDERS for kind in ("*.py", "*.scala")]
    found = [path for folder, kind in kinds for path in (ROOT / folder).rglob(kind)]
    files = [path for path in found if path.name != "errors.py"]
    return {code for path in files for code in _CODE.findall(path.read_text())} - _SETTINGS


def test_every_code_in_use_is_registered():
    assert used_codes() - set(CODES) == set()


def test_every_registered_code_is_in_use():
    assert set(CODES) - used_codes() == set()


def test_references_are_current():
    command = [sys.executable, str(ROOT / "docs/make_reference.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/decisions.md"])
def test_files_that_the_architecture_names_exist(page):
    folder = ""
    for line in (ROOT / page).read_text().splitlines():
        if re.fullmatch(r"`[\w/]+/`.*", line):
            folder = line.split("`")[1]
        if line.startswith(("#", "1.", "- **")):
            folder = ""
        for name in re.findall(r"`([\w/*]+(?:\.py|/))`", line):
            found = [*ROOT.glob(name), *(ROOT / "src/projseg").glob(name)]
            found += (ROOT / folder).rglob(name.rstrip("/")) if folder else []
            assert found, f"{name} in: {line}"


def test_a_commit_is_checked_by_what_make_lint_runs():
    recipe = (ROOT / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    tools = re.findall(r"\$\(BIN\)/([a-z ]+?)(?: --check)?(?: \.)?$", recipe, re.MULTILINE)
    assert tools == re.findall(r"entry: \.venv/bin/([a-z]+(?: [a-z]+)?)", hooks)
