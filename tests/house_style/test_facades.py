"""`Table` says what can be done, and objects do it: nothing is inherited to be shared."""

import ast
import inspect
import textwrap

import pytest

from projseg.catalog.catalog import Catalog
from projseg.catalog.named_table import CatalogTable
from projseg.table import Table
from projseg.table.table_version import TableVersion
from projseg.table.view_object import View

MAKERS = {"create", "attach"}
"""Methods that make a table, and put their arguments into order first."""
STATEMENTS_MAX = 5


def methods(kind):
    for name, one in vars(kind).items():
        found = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
        if not name.startswith("_") and inspect.isfunction(found) and name not in MAKERS:
            yield name, found


def statements(function):
    """Return the statements of a function without its docstring and what it imports."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    inner = [node for one in tree.body for node in ast.walk(one) if isinstance(node, ast.stmt)]
    passed = (ast.ImportFrom, ast.With)
    is_text = {id(one) for one in inner if isinstance(getattr(one, "value", None), ast.Constant)}
    return [one for one in inner if id(one) not in is_text and not isinstance(one, passed)]


def test_a_table_is_a_version_that_may_be_written():
    assert Table.__mro__ == (Table, TableVersion, object)
    assert CatalogTable.__mro__ == (CatalogTable, *Table.__mro__)
    assert Catalog.__mro__ == (Catalog, object)


@pytest.mark.parametrize("kind", [TableVersion, Table, CatalogTable, View])
def test_a_method_of_a_table_is_a_few_statements(kind):
    long = {name: len(statements(one)) for name, one in methods(kind)}
    assert len(long) > 10
    assert {name: n for name, n in long.items() if n > STATEMENTS_MAX} == {}


def test_statements_are_counted():
    assert len(statements(methods)) == 4
