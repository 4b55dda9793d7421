"""Where parameters stand in SQL: which tokens name one, and where in a tree a value may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.errors import InvalidInputError

_NESTED_TYPES: Final = (TokenType.STRUCT, TokenType.ARRAY, TokenType.MAP)
_OF_NAMES: Final = (exp.Column, exp.Identifier, exp.TableAlias)


def parameter_places(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield which tokens are names of parameters: what follows a colon, but not in `struct<a:int>`.

    A name is written close to its colon; it may be a keyword, as in `:from`, or a number.
    """
    depth = 0  # of brackets around types
    for place in range(1, len(tokens)):
        before, token = tokens[place - 1], tokens[place]
        if token.token_type == TokenType.LT and before.token_type in _NESTED_TYPES:
            depth += 1
        elif depth and not token.text.strip(">"):
            depth = max(depth - len(token.text), 0)
        is_close = before.token_type == TokenType.COLON and before.end + 1 == token.start
        if is_close and depth == 0 and (token.text.isidentifier() or token.text.isdecimal()):
            yield place


def check_places(tree: exp.Expression) -> None:
    """Refuse parameters that stand where something else than a value belongs.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT.
    """
    for node in tree.find_all(exp.Placeholder):
        if not isinstance(node.this, str) or node.args.get("widget"):
            raise misplaced(node.sql(dialect="spark"), "is no parameter", "write :name")
        problem = _problem(node)
        if problem is not None:
            raise misplaced(f":{node.this}", *problem)


def misplaced(
    parameter: str,
    problem: str,
    instead: str = "a parameter stands for a value; write this part into the text",
) -> InvalidInputError:
    """Return the error of a parameter that stands where no value may."""
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", f"parameter {parameter} {problem}; {instead}")


def _problem(node: exp.Placeholder) -> tuple[str, ...] | None:
    """Return what is wrong with the place of a parameter, and what to do; None if it is right."""
    parent, part = node.parent, node.arg_key
    is_field = isinstance(parent, exp.Dot) and part == "expression"
    if part == "alias" or is_field or isinstance(parent, _OF_NAMES):
        return ("stands where a name belongs",)
    if part == "unit" or (isinstance(parent, exp.Extract) and part == "this"):
        return ("stands for a unit of time",)
    if isinstance(parent, exp.Is):
        return ("stands after IS", "IS takes NULL, TRUE or FALSE; write <=>")
    if isinstance(parent, exp.In) and part == "field":
        return ("stands after IN without brackets", f"write IN (:{node.this})")
    return None
