"""Projection declarations as typed on a command line."""

from __future__ import annotations

import json
from typing import Any

from projseg.errors import InvalidInputError


def parse_declarations(texts: list[str] | None) -> list[dict[str, Any]]:
    """Return the declarations of a repeatable option, as `Table.create` takes them."""
    return [declared for text in texts or () for declared in parse_declaration(text)]


def parse_declaration(text: str) -> list[dict[str, Any]]:
    """Read one text: a JSON object, a JSON array of them, or `NAME=SELECT ... GROUP BY ...`.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PROJECTION if the text is none of these.
    """
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        try:
            declared = json.loads(stripped)
        except (ValueError, RecursionError) as error:
            raise _bad_declaration(text, f"it is not JSON ({error})") from None
        many = declared if isinstance(declared, list) else [declared]
        if not all(isinstance(one, dict) for one in many):
            raise _bad_declaration(text, "a JSON declaration is an object")
        return many
    name, mark, sql = stripped.partition("=")
    if not mark or not sql.strip().lower().startswith("select"):
        raise _bad_declaration(text, "give JSON, or NAME=SELECT columns, aggregates GROUP BY ALL")
    return [{"name": name.strip(), "sql": sql.strip()}]


def _bad_declaration(text: str, why: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_PROJECTION", f"projection '{text}': {why}")
