"""Each kernel says what it takes, in which shapes, and which slow twin a test compares it with."""

import ast
import pydoc
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.parent.name != "oracle"]
WORDS = [frozenset(re.findall(r"\w+", path.read_text())) for path in TESTS]


def kernels():
    """Yield (file, function, the functions of its file by name) for each kernel."""
    for path in sorted((ROOT / "kernels").rglob("*.py")):
        tree = ast.parse(path.read_text())
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for function in functions.values():
            if any("kernel" in ast.unparse(each) for each in function.decorator_list):
                yield pytest.param(path, function, functions, id=f"{path.stem}.{function.name}")


KERNELS = [*kernels()]


def line_of(function, word):
    """The text of a docstring from `word` to the full stop that ends its line, or None."""
    text = ast.get_docstring(function) or ""
    found = re.search(rf"^{word}: (.+?)\.$", text, re.MULTILINE | re.DOTALL)
    return None if found is None else " ".join(found[1].split())


def calls(function, name):
    names = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id == name for called in names)


def test_kernels_are_found():
    assert len(KERNELS) > 100


@pytest.mark.parametrize(("path", "function", "functions"), KERNELS)
def test_a_kernel_names_its_twin_or_the_kernel_it_is_part_of(path, function, functions):
    oracle, whole = line_of(function, "Oracle"), line_of(function, "Part of")
    assert (oracle is None) != (whole is None)
    if whole is not None:
        caller = functions[whole.strip("`")]
        assert calls(caller, function.name)
        assert line_of(caller, "Oracle") or line_of(caller, "Part of")
    elif "::" in oracle:
        place, name = oracle.split("::")
        tree = ast.parse((ROOT / place).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert any({"oracle", Path(place).stem, name} <= words for words in WORDS)
    else:
        assert pydoc.locate(oracle) is not None


@pytest.mark.parametrize(("path", "function", "functions"), KERNELS)
def test_a_kernel_types_its_parameters_and_says_their_shapes(path, function, functions):
    types = {a.arg: ast.unparse(a.annotation) for a in function.args.args if a.annotation}
    assert list(types) == [a.arg for a in function.args.args]
    untyped = {name for name, text in types.items() if text == "Any" or "NDArray[Any]" in text}
    assert not untyped
    arrays = [
        name for name, text in types.items() if re.search("NDArray|Narrow|Integers|Words", text)
    ]
    shapes = re.sub(r"\[[^]]*\]", "", line_of(function, "Shapes") or "")
    assert sorted(re.findall(r"\w+", shapes)) == sorted(arrays)
