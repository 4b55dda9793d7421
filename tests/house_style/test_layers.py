"""Data flows one way: modules import only from lower layers; heavy libraries have a home."""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = [
    {"errors"},
    {"extras", "memory"},
    {"kernels"},
    {"segment_format"},
    {"algebra"},
    {"evaluation"},
    {"aggregation"},
    {"table_layer"},
    {"writer", "reader"},
    {"maintenance"},
    {"views"},
    {"projection", "input_rows", "html"},
    {"declarations", "explain"},
    {"spark_datasource"},
    {"table"},
    {"doors"},
    {"query_pool", "catalog", "advisor"},
    {"dbapi"},
    {"dialect"},
    {"spark_engine"},
    {"benchmarks", "page"},
    {"cli"},
]
ROOMS = ["time", "expressions", "aggregates", "projection", "proofs", "query", "planning"]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FOLDERS = [*sorted(p.name for p in (ROOT / "src/projseg").iterdir() if p.is_symlink())]
HOMES = {
    "sqlalchemy": ("catalog/store/", "src/projseg/dialect.py"),
    "alembic": ("catalog/store/",),
    "starlette": ("catalog/rest_limits.py", "catalog/rest_server.py", "page/"),
    "uvicorn": ("catalog/rest_limits.py", "catalog/rest_server.py", "page/serving.py"),
    "jinja2": ("page/printing.py",),
    "urllib3": ("catalog/external/", "catalog/store/", "benchmarks/scenarios/"),
    "numba": ("kernels/",),
    "pyspark": (
        "advisor/",
        "spark_datasource/",
        "benchmarks/",
        "src/projseg/cli/",
        "src/projseg/extras.py",
        "src/projseg/table/",
    ),
    "obstore": ("table_layer/",),
    "pandas": (),
    "opentelemetry": ("memory/tracing.py",),
    "prompt_toolkit": ("src/projseg/cli/prompt.py",),
    "pickle": ("query_pool/",),
    "marshal": (),
    "importlib": (
        "catalog/store/open_store.py",
        "kernels/runtime/",
        "spark_datasource/",
        "src/projseg/",
        "benchmarks/",
    ),
    "subprocess": ("spark_datasource/", "src/projseg/cli/", "benchmarks/", "query_pool/"),
}


def modules():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield folder, path
    for path in sorted((ROOT / "src/projseg").glob("*.py")):
        yield path.stem, path
    for room in ("cli", "table"):
        for path in sorted((ROOT / "src/projseg" / room).rglob("*.py")):
            yield room, path


def module_name(path):
    """Return the dotted name that a file is imported by."""
    try:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
    except ValueError:
        parts = ("projseg", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


@cache
def tree_of(path):
    """Return a module's syntax tree, parsed once for all tests of this folder."""
    return ast.parse(path.read_text())


@cache
def imported(path):
    """Return the dotted names of all that a file imports, in whichever form it says so."""
    return [*_imports(path)]


def _imports(path):
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            inner = [f"{source}.{alias.name}" for alias in node.names]
            yield from inner if any(map(is_module, inner)) else [source]


def is_module(name):
    parts = name.split(".")
    if parts[0] != "projseg":
        return False
    place = ROOT.joinpath("src", *parts)
    return place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize(
    ("layer", "path"), [pytest.param(f, p, id=str(p.relative_to(ROOT))) for f, p in modules()]
)
def test_module_imports_only_lower_layers(layer, path):
    if layer in ("__init__", "__main__"):
        return
    assert layer in LEVEL, f"{path} belongs to no layer; add it to LAYERS"
    for name in imported(path):
        if not is_module(name) or name == "projseg":
            continue
        other = name.split(".")[1]
        assert other == layer or LEVEL[other] < LEVEL[layer], f"{layer} must not import {name}"


def room_of(name):
    parts = name.split(".")
    return parts[2] if parts[:2] == ["projseg", "algebra"] and len(parts) > 3 else None


def test_rooms_of_algebra_import_only_from_those_before_them():
    assert {p.name for p in (ROOT / "algebra").iterdir() if p.is_dir()} - {"__pycache__"} == {
        *ROOMS
    }
    upward = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "algebra").rglob("*.py"))
        for name in imported(path)
        if (room := room_of(module_name(path))) and (other := room_of(name))
        if ROOMS.index(other) > ROOMS.index(room)
    ]
    assert upward == []


def test_the_architecture_has_a_line_for_each_folder_and_room():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    folders = re.findall(r"^\| `([\w/]+?)/?`", text, re.MULTILINE)
    assert {f.removeprefix("src/projseg/") for f in folders} >= {*FOLDERS, "cli"}
    rooms = text.split("`algebra/`, whose rooms")[1].split("\n`")[0]
    assert re.findall(r"^- `(\w+)/`", rooms, re.MULTILINE) == ROOMS


def test_no_module_imports_itself_by_way_of_others():
    graph = {module_name(path): {*filter(is_module, imported(path))} for _, path in modules()}
    graph.pop("projseg")  # it imports what it offers when that is asked for
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_every_form_of_import_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "module_name", lambda path: "projseg.algebra.time.x")
    forms = {
        "import projseg.reader.run_plan": "projseg.reader.run_plan",
        "from projseg import reader": "projseg.reader",
        "from projseg.reader.run_plan import run_plan as r": "projseg.reader.run_plan",
        "from projseg.reader.run_plan import run_final": "projseg.reader.run_plan",
        "from . import duration": "projseg.algebra.time.duration",
        "from .duration import Period": "projseg.algebra.time.duration",
        "from ..planning import planner": "projseg.algebra.planning.planner",
        "from ... import reader": "projseg.reader",
        "def f():\n    from projseg import reader": "projseg.reader",
    }
    for number, (text, name) in enumerate(forms.items()):
        file = tmp_path / f"{number}.py"
        file.write_text(text)
        assert [*imported.__wrapped__(file)] == [name], text


@pytest.mark.parametrize("library", HOMES)
def test_library_stays_at_home(library):
    strangers = [
        str(path.relative_to(ROOT))
        for _, path in modules()
        if any(name.split(".")[0] == library for name in imported(path))
        and not str(path.relative_to(ROOT)).startswith(HOMES[library])
    ]
    assert strangers == []


def nodes_beside(word):
    """Yield (path, node) for all nodes of the modules whose text has a word."""
    for _, path in modules():
        if word in path.read_text():
            yield from ((path, node) for node in ast.walk(tree_of(path)))


def test_kernels_are_compiled_in_one_way():
    """Numba's own cache takes any folder, and fails the import where there is none."""
    strangers = [
        str(path.relative_to(ROOT))
        for path, node in nodes_beside("njit")
        if isinstance(node, ast.Name | ast.alias | ast.Attribute)
        and "njit"
        in (getattr(node, "id", ""), getattr(node, "name", ""), getattr(node, "attr", ""))
    ]
    assert set(strangers) == {"kernels/runtime/compiler.py"}


def test_no_call_imports_pandas():
    """Before release 26, pyarrow answers `to_pandas_dtype` by importing pandas."""
    callers = [
        str(path.relative_to(ROOT))
        for path, node in nodes_beside("to_pandas")
        if isinstance(node, ast.Attribute) and node.attr.startswith("to_pandas")
    ]
    assert callers == []


LONG = {
    "catalog/catalog.py": "a facade: each public method with its documentation, and one call",
    "src/projseg/table/__init__.py": "a facade: each method that writes with its documentation",
}
"""Files of more than 600 lines, and why each is read as one."""


def test_files_stay_small():
    long = {
        str(path.relative_to(ROOT)): lines
        for _, path in modules()
        if (lines := len(path.read_text().splitlines())) > 600
    }
    assert long.keys() == LONG.keys()
