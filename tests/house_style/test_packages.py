"""A package's docstring is true of the modules that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKED = [path.resolve() for path in (ROOT / "src/projseg").iterdir() if path.is_symlink()]
PACKAGES = sorted(
    file.parent
    for top in [*LINKED, *(ROOT / "src/projseg" / name for name in ("cli", "table"))]
    for file in top.rglob("__init__.py")
)
_STEM = 4  # letters by which a word of a docstring is known again in a module's name
_FEW = 10  # ARCHITECTURE.md has the parts of rooms of more modules


def docstring_of(package):
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""


def named(package):
    """Return the modules and folders that a docstring names, in backticks by themselves."""
    return [
        name for name in re.findall(r"`([a-z][a-z_]*)`", docstring_of(package)) if name != "projseg"
    ]


def folders(package):
    inner = (file.parent for file in package.glob("*/__init__.py"))
    return [path.name for path in inner if not path.is_symlink()]


def lacking(docstring, names):
    """Return the names of which a docstring has no word."""
    stems = {word[:_STEM].lower() for word in re.findall(r"[A-Za-z]{3,}", docstring)}
    return [name for name in names if not any(part[:_STEM] in stems for part in name.split("_"))]


def methods_of(module):
    """Return the public methods of the first class of a module."""
    classes = [
        node for node in ast.parse(module.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    found = (node for one in classes for node in one.body if isinstance(node, ast.FunctionDef))
    shown = ("__arrow_c_stream__", "_repr_html_")
    return {one.name for one in found if one.name in shown or not one.name.startswith("_")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_modules_that_a_docstring_names_are_there(package):
    there = {path.stem for folder in (package, package.parent) for path in folder.iterdir()}
    assert [name for name in named(package) if name not in there] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_docstring_has_a_word_of_each_folder(package):
    assert lacking(docstring_of(package), folders(package)) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_docstring_has_a_word_of_each_of_few_modules(package):
    modules = sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__")
    assert len(modules) > _FEW or lacking(docstring_of(package), modules) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_docstring_names_nothing_as_the_only_one(package):
    assert " only " not in docstring_of(package)


def test_the_table_of_tables_methods_is_whole():
    package = ROOT / "src/projseg/table"
    rows = re.findall(r"^\| (?:`(\w+)`)? ?\| (.*) \|$", docstring_of(package), re.MULTILINE)
    stated: dict[str, set[str]] = {}
    for module, methods in rows:
        last = module or list(stated)[-1]
        stated.setdefault(last, set()).update(re.sub("`", "", methods).split(", "))
    for module, methods in stated.items():
        there = methods_of(package / f"{module}.py")
        assert methods <= there, f"{module} has no {sorted(methods - there)}"


def test_a_docstring_that_lacks_a_folder_would_be_found():
    assert lacking("Work on whole tables: verification.", ["row_changes"]) == ["row_changes"]
    assert lacking("Indexes of a column's values.", ["indexes"]) == []
