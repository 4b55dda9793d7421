"""docs/python-api.md has every public name and method, and their docstrings say what they owe."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest
from api_reference import public_members, public_objects
from docstrings import parsed

import projseg
from projseg import errors
from projseg.errors import CODES, ProjsegError

PAGE = (Path(__file__).parents[2] / "docs/python-api.md").read_text()
OBJECTS = public_objects()
MEMBERS = {
    f"{name}.{member_name}": member
    for name, one in OBJECTS.items()
    if inspect.isclass(one)
    for member_name, member in public_members(one).items()
}
DOCUMENTED = OBJECTS | MEMBERS
FUNCTIONS = {name: one for name, one in DOCUMENTED.items() if inspect.isfunction(one)}
CLASSES = {name: one for name, one in OBJECTS.items() if inspect.isclass(one)}
# Not ours to explain: Python's, pyarrow's and Spark's own.
KNOWN_WORDS = {
    "Any", "DataFrame", "False", "Mapping", "None", "PathLike", "RecordBatchReader", "Sequence",
    "QueryContext", "Snapshot", "SparkSession", "TableProperties", "True", "Literal",
}  # fmt: skip


def section(name):
    found = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"{name} is not on the page"
    return found[1]


def parameters_of(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def documented_parameters(one):
    return [name for entry in parsed(one).sections["Parameters"] for name in entry.names]


def raised_in(function):
    """Names of the classes that a function's own body raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    return {ast.unparse(call.func if isinstance(call, ast.Call) else call) for call in calls}


def test_the_public_names_are_all_there():
    assert set(projseg.__all__) <= set(OBJECTS)
    assert {"Table.create", "Table.query", "Table.verify", "Explain.sources"} <= set(MEMBERS)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_name_is_on_the_page_with_its_summary_and_an_example(name):
    text = " ".join(section(name).split())
    summary = " ".join(parsed(DOCUMENTED[name]).summary.split())
    assert summary.endswith(".")
    assert summary in text
    assert "[example](" in text or name == "Table.snapshot"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_parameter_of_a_function_has_an_entry(name):
    assert sorted(documented_parameters(FUNCTIONS[name])) == sorted(parameters_of(FUNCTIONS[name]))
    text = section(name)
    assert [p for p in parameters_of(FUNCTIONS[name]) if f"`{p}`" not in text] == []


@pytest.mark.parametrize("name", CLASSES)
def test_each_parameter_of_a_class_has_an_entry(name):
    assert documented_parameters(CLASSES[name]) == parameters_of(CLASSES[name].__init__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_returns_has_an_entry(name):
    gives = inspect.signature(FUNCTIONS[name]).return_annotation
    assert bool(parsed(FUNCTIONS[name]).sections["Returns"]) == (gives != "None")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_raises_itself_has_an_entry(name):
    documented = {n for entry in parsed(FUNCTIONS[name]).sections["Raises"] for n in entry.names}
    raised = {n for n in raised_in(FUNCTIONS[name]) if hasattr(errors, n)}
    assert raised <= documented
    assert all(issubclass(getattr(errors, n), ProjsegError) for n in documented)


def test_raises_are_found_in_a_function_that_has_one():
    assert "InvalidInputError" in raised_in(projseg.write)


def test_codes_on_the_page_exist():
    codes = set(re.findall(r"\bPROJSEG_[A-Z_]+\b", PAGE)) - {
        "PROJSEG_CACHE_BYTES",
        "PROJSEG_CATALOG",
        "PROJSEG_GROUP_BYTES",
        "PROJSEG_QUERY_LOG",
    }
    assert codes <= set(CODES)


def test_words_in_signatures_are_explained():
    signatures = "\n".join(re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL))
    words = set(re.findall(r"(?<![\"'.\w])[A-Z]\w+", signatures)) - KNOWN_WORDS - set(OBJECTS)
    start = PAGE.index("## Words in signatures")
    explained = set(
        re.findall(r"^- `(\w+)`", PAGE[start : PAGE.index("## Examples")], re.MULTILINE)
    )
    assert explained >= words
    assert explained - {"pa"} <= words
