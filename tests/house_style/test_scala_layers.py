"""The Scala half: what a folder imports, the names of files, and the widths of lines."""

import re
from functools import cache
from pathlib import Path

import pytest

CATALYST = Path(__file__).parents[2] / "spark_datasource" / "catalyst"
LAYERS = [
    {"model"},
    {"text"},
    {"engine"},
    {"tables"},
    {"jobs"},
    {"plans", "statements"},
    {"writes"},
    {"extension"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(CATALYST.rglob("*.scala"))
COLUMNS = 120
_LONG_TEXT = re.compile(r'"[^"]{60,}|"\(`')  # a text that is not cut, or a pattern
_DEFINED = re.compile(r"^(?:[a-z]+(?:\[\w+\])? )*(?:class|object|trait) (\w+)", re.MULTILINE)
_NOT_CODE = re.compile(
    r'/\*.*?\*/|//[^\n]*|^import [^\n]*|(?<![sf])"(?:\\.|[^"\\\n])*"|(?<=\.)[A-Z]\w*',
    re.DOTALL | re.MULTILINE,
)


def main_class(path):
    """Return the class that a file is named by; releases have files of their own."""
    return path.stem.partition("-")[0]


@cache
def code_of(path):
    """Return a file without comments, imports and texts, and without members of objects."""
    return _NOT_CODE.sub(" ", path.read_text())


@cache
def homes():
    """Return the folder of each class at the top of a file."""
    return {name: path.parent.name for path in FILES for name in _DEFINED.findall(code_of(path))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_folders_know_only_lower_ones(path):
    own = path.parent.name
    known = {name: homes().get(name, own) for name in re.findall(r"\b[A-Z]\w*", code_of(path))}
    above = {name for name, home in known.items() if home != own and LEVEL[home] >= LEVEL[own]}
    assert not above, f"{path.name} knows {sorted(above)} of its own layer or of higher ones"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_has_the_name_of_its_main_class(path):
    assert main_class(path) in _DEFINED.findall(code_of(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_line_has_120_columns_unless_it_is_an_import_or_one_text(path):
    long = [line for line in path.read_text().splitlines() if len(line) > COLUMNS]
    assert not [line for line in long if not _LONG_TEXT.search(line) and line[:7] != "import "]


def test_every_folder_has_a_layer():
    assert {path.parent.name for path in FILES} == set(LEVEL)


def test_references_upwards_would_be_found(tmp_path):
    file = tmp_path / "Text.scala"
    file.write_text('/** Statement */ object Text { val a = "Statement"; val b: Statement = null }')
    assert re.findall(r"\bStatement\b", code_of(file)) == ["Statement"]
    assert homes()["Statement"] == "statements"
