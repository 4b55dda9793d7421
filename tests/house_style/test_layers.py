"""Data flows one way: modules import only from lower layers; heavy libraries have a home."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = [
    {"errors"},
    {"extras", "memory"},
    {"kernels"},
    {"segment_format"},
    {"algebra"},
    {"aggregation"},
    {"table_layer"},
    {"writer", "reader"},
    {"maintenance"},
    {"projection", "rows"},
    {"declarations", "explain"},
    {"table_version", "table_write"},
    {"table"},
    {"spark_datasource", "benchmarks"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FOLDERS = [*sorted(p.name for p in (ROOT / "src/projseg").iterdir() if p.is_symlink())]
HOMES = {
    "numba": ("kernels/",),
    "pyspark": ("spark_datasource/", "benchmarks/", "src/projseg/cli/", "src/projseg/extras.py"),
    "obstore": ("table_layer/",),
    "pandas": (),
    "pickle": (),
    "marshal": (),
    "importlib": ("spark_datasource/", "src/projseg/", "benchmarks/"),
    "subprocess": ("spark_datasource/", "src/projseg/cli/", "benchmarks/"),
}


def modules():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield folder, path
    for path in sorted((ROOT / "src/projseg").glob("*.py")):
        yield path.stem, path
    for path in sorted((ROOT / "src/projseg/cli").rglob("*.py")):
        yield "cli", path


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(
    ("layer", "path"), [pytest.param(f, p, id=str(p.relative_to(ROOT))) for f, p in modules()]
)
def test_module_imports_only_lower_layers(layer, path):
    if layer in ("__init__", "__main__"):
        return
    assert layer in LEVEL, f"{path} belongs to no layer; add it to LAYERS"
    for name in imported(path):
        if not name.startswith("projseg."):
            continue
        other = name.split(".")[1]
        assert other == layer or LEVEL[other] < LEVEL[layer], f"{layer} must not import {name}"


@pytest.mark.parametrize("library", HOMES)
def test_library_stays_at_home(library):
    strangers = [
        str(path.relative_to(ROOT))
        for _, path in modules()
        if any(name.split(".")[0] == library for name in imported(path))
        and not str(path.relative_to(ROOT)).startswith(HOMES[library])
    ]
    assert strangers == []


def test_kernels_are_compiled_in_one_way():
    """Numba's own cache takes any folder, and fails the import where there is none."""
    strangers = [
        str(path.relative_to(ROOT))
        for _, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name | ast.alias | ast.Attribute)
        and "njit"
        in (getattr(node, "id", ""), getattr(node, "name", ""), getattr(node, "attr", ""))
    ]
    assert set(strangers) == {"kernels/compiler.py"}


def test_no_call_imports_pandas():
    """Before release 26, pyarrow answers `to_pandas_dtype` by importing pandas."""
    callers = [
        str(path.relative_to(ROOT))
        for _, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr.startswith("to_pandas")
    ]
    assert callers == []


def test_files_stay_small():
    long = {
        str(path.relative_to(ROOT)): lines
        for _, path in modules()
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}
