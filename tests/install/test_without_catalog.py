"""By path everything works without a catalog's packages and without its database.

`make test-by-path` runs the whole suite by path so; here is what takes a moment.
"""

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support" / "without_catalog"
LIFE = """
import sys, pyarrow as pa, projseg
path = sys.argv[1]
rows = pa.table({"k": ["a", "b", "a"], "n": [1, 2, 3]})
by_k = {"name": "p", "sql": "SELECT k, sum(n) AS n GROUP BY k"}
table = projseg.Table.create(path, rows.schema, projections=[by_k])
table.append(rows)
table.delete("n = 2")
table.compact()
table.add_column("late", "date")
found = table.sql("SELECT k, sum(n) AS n, max(late) AS late FROM t GROUP BY k").to_pylist()
assert found == [{"k": "a", "n": 4, "late": None}], found
assert not {"sqlalchemy", "alembic", "urllib3"} & {k for k, m in sys.modules.items() if m}
projseg.Catalog("house.db")
"""


def run_without_catalog(*words):
    environment = {
        **os.environ,
        "PYTHONPATH": str(SUPPORT),
        "PROJSEG_CATALOG": "postgresql://nobody@127.0.0.1:1/none",
    }
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_table_lives_by_path(tmp_path):
    told = run_without_catalog("-c", LIFE, tmp_path / "t")
    assert told.stderr.splitlines()[-1].startswith(
        "projseg.errors.MissingPackageError: [PROJSEG_MISSING_PACKAGE]"
    ), told.stderr
    found = run_without_catalog("-m", "projseg", "sql", tmp_path / "t", "SELECT sum(n) AS n FROM t")
    assert "4" in found.stdout, found.stderr
    refused = run_without_catalog("-m", "projseg", "catalog", "list")
    assert "PROJSEG_MISSING_PACKAGE" in refused.stderr
    assert "Traceback" not in refused.stderr
