"""Sections of docstrings stand on public names; of others a sentence says what a type does not."""

import ast
import re

import pytest
from api_reference import public_members, public_objects
from test_layers import module_name, modules, tree_of

SECTION = re.compile(r"^(Parameters|Returns|Yields|Raises|Attributes)\n-{3,}$", re.MULTILINE)
# Beside the names of the reference: what users import or hold, and records filled field by field.
OFFERED = {
    "projseg.advisor.advice_items",
    "projseg.algebra.aggregates.aggregate_functions.AggregateFunction",
    "projseg.algebra.aggregates.primitive.PrimitiveKind",
    "projseg.algebra.expressions.functions.scalar_function.ScalarFunction",
    "projseg.algebra.expressions.patterns.pattern_part.PatternPart",
    "projseg.algebra.planning.source_plan.SourcePlan",
    "projseg.algebra.projection.spec.ProjectionSpec",
    "projseg.catalog.external.readings.TextForm",
    "projseg.catalog.named_table.CatalogTable",
    "projseg.catalog.rest_server.serve",
    "projseg.catalog.spec.druid_spec.from_druid",
    "projseg.catalog.spec.table_spec",
    "projseg.catalog.store.operations.RestOperation",
    "projseg.catalog.store.table_metadata.TableMetadata",
    "projseg.dbapi",
    "projseg.errors.StorageError",
    "projseg.table.dataset.TableDataset",
    "projseg.table.table_version.TableVersion",
}


def documented(node, outer):
    """Yield (qualified name, docstring) of the classes and functions in a node."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{outer}.{child.name}"
            yield name, ast.get_docstring(child) or ""
        yield from documented(child, name)


def with_sections(tree, module):
    return {name for name, text in documented(tree, module) if SECTION.search(text)}


def public():
    """Return the names that docs/python-api.md has, by the modules that define them."""
    objects = [*public_objects().values()]
    kinds = [one for one in objects if isinstance(one, type)]
    members = [member for kind in kinds for member in public_members(kind).values()]
    defined = [getattr(one, "fget", None) or getattr(one, "func", one) for one in objects + members]
    return {f"{one.__module__}.{one.__qualname__}" for one in defined}


def is_offered(name):
    return any(name == offered or name.startswith(f"{offered}.") for offered in OFFERED)


def test_sections_stand_on_public_names():
    written = {
        name
        for _, path in modules()
        if "    ----" in path.read_text()
        for name in with_sections(tree_of(path), module_name(path))
    }
    assert {name for name in written - public() if not is_offered(name)} == set()


@pytest.mark.parametrize("section", ["Parameters", "Raises"])
def test_a_section_is_found(section):
    text = f'class A:\n    def f():\n        """Do.\n\n        {section}\n        ----\n        """'
    assert with_sections(ast.parse(text), "room") == {"room.A.f"}
