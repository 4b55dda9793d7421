"""One concept has one name, and a name has one meaning."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from test_layers import tree_of

ROOT = Path(__file__).parents[2]
FOLDERS = [p.name for p in (ROOT / "src/projseg").iterdir() if p.is_symlink()]
SOURCES = sorted(path for folder in [*FOLDERS, "src"] for path in (ROOT / folder).rglob("*.py"))


def defined(path):
    """Yield the names of classes, and of limits that are given a value, in one module."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target).endswith("_MAX"):
            yield node.target.id


def test_a_class_or_a_limit_is_defined_once():
    places = defaultdict(list)
    for path in SOURCES:
        for name in defined(path):
            if not name.startswith("_"):
                places[name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def glossary():
    return (ROOT / "docs/glossary.md").read_text()


def test_the_glossary_explains_a_word_once():
    words = re.findall(r"^\| ([^|]+) \|", glossary(), re.MULTILINE)[2:]
    assert len(words) == len(set(words)) > 30


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+)`", glossary()))))
def test_classes_of_the_glossary_exist(name):
    assert any(re.search(rf"^class {name}\b", path.read_text(), re.MULTILINE) for path in SOURCES)
