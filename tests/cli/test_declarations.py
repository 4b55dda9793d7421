"""Projection declarations on a command line: JSON, or a name and a SELECT."""

from __future__ import annotations

import pytest

from projseg.cli.declaration_verbs import parse_declaration, parse_declarations
from projseg.errors import InvalidInputError


def test_both_forms():
    sql = "SELECT a, sum(b) AS b GROUP BY ALL"
    assert parse_declaration(f"p={sql}") == [{"name": "p", "sql": sql}]
    assert parse_declaration('{"name": "p", "groupBy": ["a"]}') == [{"name": "p", "groupBy": ["a"]}]
    assert parse_declarations(['[{"name": "p"}, {"name": "q"}]', f"r={sql}"])[2]["name"] == "r"
    assert parse_declarations(None) == []


@pytest.mark.parametrize("text", ["", "p", "p=a, b", "{", "[1]", '{"name": '])
def test_anything_else_is_refused(text):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_PROJECTION"):
        parse_declaration(text)
