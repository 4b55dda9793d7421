"""How large an expression may be, and where in SQL a parameter may stand.

A definition is stored as canonical text, which every reader parses again. So whether a text is
accepted must not depend on how deep in Python's stack the caller is: nesting is counted, and the
parser, which takes up to fifty frames for one level, is given the stack that the limits need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, TypeVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.tree import Expression
from projseg.errors import HALF_A_CHARACTER, InvalidInputError, LimitExceededError, is_storable

TEXT_CHARACTERS_MAX: Final = 100_000
"""The most characters of one expression."""
DEPTH_MAX: Final = 100
"""The most nodes from an expression to its deepest operand: `v + v + v` has three, `v` one."""
_WRITTEN_DEPTH_MAX: Final = 4 * DEPTH_MAX
"""The same for parsed text, with its brackets; a chain of ANDs, ORs or || counts as one node."""
TYPE_DEPTH_MAX: Final = 50
"""The most arrays, maps and structs inside each other in a written type, and the innermost."""
JSON_DEPTH_MAX: Final = 100
"""The most arrays and objects inside each other in a declaration."""

_FRAMES: Final = 12_000
_CHAINS: Final = (exp.And, exp.Or, exp.DPipe)
_NESTED_TYPES: Final = (TokenType.STRUCT, TokenType.ARRAY, TokenType.MAP)
_OF_NAMES: Final = (exp.Column, exp.Identifier, exp.TableAlias)

_Node = TypeVar("_Node")

_lock = Lock()
_open_count = 0
_limit_before = 0


def check_text(text: str) -> None:
    """Refuse a text that is longer than any expression may be, or that no file can hold.

    Raises LimitExceededError (PROJSEG_EXPRESSION_TOO_LONG), or InvalidInputError
    (PROJSEG_BAD_EXPRESSION) for half of a surrogate pair.
    """
    if not is_storable(text):
        raise InvalidInputError(
            "PROJSEG_BAD_EXPRESSION", f"an expression {HALF_A_CHARACTER}: {text!r}"
        )
    if len(text) > TEXT_CHARACTERS_MAX:
        raise LimitExceededError(
            "PROJSEG_EXPRESSION_TOO_LONG",
            f"an expression of {len(text)} characters passes the limit of {TEXT_CHARACTERS_MAX}; "
            "write less in one",
        )


def check_depth(expression: Expression) -> None:
    """Refuse a typed expression deeper than `DEPTH_MAX`: PROJSEG_EXPRESSION_TOO_LONG."""
    if _passes(expression, DEPTH_MAX, lambda node: ((child, 1) for child in node.children)):
        raise too_deep()


def check_written_depth(tree: exp.Expression) -> None:
    """Refuse a parsed text deeper than `_WRITTEN_DEPTH_MAX`: PROJSEG_EXPRESSION_TOO_LONG."""
    if _passes(tree, _WRITTEN_DEPTH_MAX, _written_parts):
        raise too_deep()


def is_too_deep_json(value: Any) -> bool:
    """Whether lists and mappings are nested deeper than `JSON_DEPTH_MAX`, or without end."""
    return _passes(value, JSON_DEPTH_MAX, _json_parts)


def too_deep() -> LimitExceededError:
    """Return the error of an expression that is nested too deeply."""
    return LimitExceededError(
        "PROJSEG_EXPRESSION_TOO_LONG",
        f"an expression is nested more than {DEPTH_MAX} deep, or has as many terms in a chain; "
        "compute parts of it in columns of their own, or nest it less: (a + b) + (c + d)",
    )


def _passes(
    root: _Node, depth_max: int, parts_of: Callable[[_Node], Iterable[tuple[_Node, int]]]
) -> bool:
    """Whether a path from `root` is longer than `depth_max`.

    `parts_of` gives the parts of a node, each with what it adds to the length.
    """
    open_nodes = [(root, 1)]
    while open_nodes:
        node, depth = open_nodes.pop()
        if depth > depth_max:
            return True
        open_nodes += [(part, depth + more) for part, more in parts_of(node)]
    return False


def _written_parts(node: exp.Expression) -> Iterator[tuple[exp.Expression, int]]:
    for part in node.iter_expressions():
        is_link = isinstance(node, _CHAINS) and type(part) is type(node)
        yield part, 0 if is_link else 1


def _json_parts(value: Any) -> Iterator[tuple[Any, int]]:
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list | tuple):
        yield from ((part, 1) for part in parts if isinstance(part, dict | list | tuple))


@contextmanager
def room_to_recurse() -> Iterator[None]:
    """Let Python's stack grow, within the block, by what the deepest expression needs."""
    global _open_count, _limit_before
    with _lock:
        if _open_count == 0:
            _limit_before = sys.getrecursionlimit()
            sys.setrecursionlimit(_limit_before + _FRAMES)
        _open_count += 1
    try:
        yield
    finally:
        with _lock:
            _open_count -= 1
            if _open_count == 0 and sys.getrecursionlimit() == _limit_before + _FRAMES:
                sys.setrecursionlimit(_limit_before)


def _renew_lock() -> None:
    """Replace the lock in a forked child: another thread of its parent may have held it."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_renew_lock)


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
    """Refuse parameters where something else than a value belongs: PROJSEG_BAD_ARGUMENT."""
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
