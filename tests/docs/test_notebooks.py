"""The notebooks of examples/ run from the first cell to the last, and show what they end with."""

import ast
import json
import os
import sys

import pytest
from test_shell_examples import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_of(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(code, names):
    """Run a cell as a notebook does, and return the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_output_and_is_listed(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert f"({notebook.name})" in (ROOT / "examples/README.md").read_text()
    for code in code_of(notebook):
        ast.parse(code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.spark] * ("spark" in path.stem))
        for path in NOTEBOOKS
    ],
)
def test_a_notebook_runs(notebook, monkeypatch):
    if "spark" in notebook.stem:
        monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", sys.executable)
    names = {}
    shown = [run_cell(code, names) for code in code_of(notebook)]
    assert any(value is not None for value in shown)
    for value in shown:
        for form in ("_repr_html_", "_repr_svg_"):
            assert not hasattr(value, form) or "<" in getattr(value, form)()
