"""Small changes to a module's source: arithmetic, null rules and the edges of intervals.

Each mutant is one change of one token, so that its line tells all. What stands in annotations,
decorators, assertions (`strict=` is one) and messages is left alone: no answer depends on it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.Invert: ("~", ""),
    ast.Not: ("not", ""),
    ast.USub: ("-", ""),
}
"""What each operator is written as, and what takes its place."""

_TWINS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("and_", "or_"),
    ("and_kleene", "or_kleene"),
    ("is_null", "is_valid"),
    ("bisect_left", "bisect_right"),
    ("floor", "ceil"),
)
NAMES = {
    **{one: other for pair in _TWINS for one, other in (pair, pair[::-1])},
    "add_checked": "add",
    "subtract_checked": "subtract",
    "multiply_checked": "multiply",
    "negate_checked": "negate",
    "abs_checked": "abs",
}
"""Functions that are easily taken for each other, and overflow checks without the check."""


@dataclass(frozen=True)
class Mutant:
    """One changed module.

    Parameters
    ----------
    line : int
        Where the change is, from 1.
    function : int or None
        First line of the innermost function whose body holds it; None outside of functions.
    place : str
        The function or class that holds it, such as `Period.months`; empty outside of them.
    was, becomes : str
        The changed lines without indent and comments.
    source : str
        The whole module.
    """

    line: int
    function: int | None
    place: str
    was: str
    becomes: str
    source: str


def mutants_of(source: str) -> list[Mutant]:
    """Return all mutants of a module's source, in the order of their lines."""
    return sorted(_Finder(source).mutants, key=lambda mutant: mutant.line)


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.mutants: list[Mutant] = []
        self._source = source
        lines = source.encode().splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._plain = _without_comments(source).encode()
        self._functions: list[int] = []
        self._places: list[str] = []
        self.visit(ast.parse(source))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        """Return a node's place in bytes."""
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def _replace(self, start: int, end: int, text: str) -> None:
        content = self._source.encode()
        first, last = (content.count(b"\n", 0, byte) for byte in (start, end))
        changed, plain = (
            whole[:start] + text.encode() + whole[end:] for whole in (content, self._plain)
        )
        was, becomes = (
            " ".join(b"".join(whole.splitlines(keepends=True)[first : last + 1]).decode().split())
            for whole in (self._plain, plain)
        )
        function = self._functions[-1] if self._functions else None
        place = ".".join(self._places)
        self.mutants.append(Mutant(first + 1, function, place, was, becomes, changed.decode()))

    def _swap(self, operator: ast.AST, start: int, end: int) -> None:
        """Exchange the operator that stands between two places."""
        if type(operator) not in OPERATORS:
            return
        old, new = OPERATORS[type(operator)]
        gap = self._plain[start:end].decode()
        found = re.search(re.escape(old).replace(r"\ ", r"\s+"), gap)
        assert found is not None, (old, gap)
        self._replace(start + found.start(), start + found.end(), new)

    # What holds functions, and what no answer depends on.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._places.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._places.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for outside in (*node.args.defaults, *node.args.kw_defaults):
            if outside is not None:
                self._value(outside)
        self._functions.append(min([node.lineno, *(d.lineno for d in node.decorator_list)]))
        self._places.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._places.pop()
        self._functions.pop()

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._functions.append(node.lineno)
        self.visit(node.body)
        self._functions.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in ast.unparse(node.annotation):
            self._value(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        start, end = self._span(node)
        line_count = node.end_lineno - node.lineno if node.end_lineno else 0
        self._replace(start, end, "pass" + "\n" * line_count)

    # What is changed.

    def visit_BinOp(self, node: ast.BinOp) -> None:
        names = (ast.Name, ast.Attribute, ast.BinOp)
        is_union_of_types = isinstance(node.op, ast.BitOr) and (
            isinstance(node.left, names)
            and isinstance(node.right, names)
            and all(part[:1].isupper() or part in _BUILT_IN for part in _last_names(node))
        )
        if is_union_of_types:
            return
        self._swap(node.op, self._span(node.left)[1], self._span(node.right)[0])
        self._value(node.left)
        self._value(node.right)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in pairwise(node.values):
            self._swap(node.op, self._span(left)[1], self._span(right)[0])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operator, (left, right) in zip(node.ops, pairwise(sides), strict=True):
            self._swap(operator, self._span(left)[1], self._span(right)[0])
        for side in sides:
            self._value(side)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, _ = self._span(node)
        self._swap(node.op, start, self._span(node.operand)[0])
        self._value(node.operand)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._swap(node.op, self._span(node.target)[1], self._span(node.value)[0])
        self._value(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._value(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._value(node.value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        for part in (node.test, node.body, node.orelse):
            self._value(part)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in NAMES:
            self._replace(*self._span(node.func), NAMES[node.func.id])
        self.visit(node.func)
        told = [keyword.value for keyword in node.keywords if keyword.arg != "strict"]
        for argument in (*node.args, *told):
            self._value(argument)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        for part in node.elts:
            self._value(part)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(*self._span(node), repr(not node.value))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in NAMES:
            _, end = self._span(node)
            self._replace(end - len(node.attr), end, NAMES[node.attr])
        self.visit(node.value)

    def _value(self, node: ast.expr) -> None:
        """Visit what may be a whole number: it is changed by one, up and down."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            for neighbour in (node.value + 1, node.value - 1):
                text = str(neighbour) if neighbour >= 0 else f"({neighbour})"
                self._replace(*self._span(node), text)
        else:
            self.visit(node)


def _without_comments(source: str) -> str:
    """Return source with spaces in place of each comment's bytes."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            blank = " " * len(token.string.encode())
            whole = lines[line - 1]
            lines[line - 1] = whole[:column] + blank + whole[column + len(token.string) :]
    return "".join(lines)


_BUILT_IN = {"int", "float", "str", "bytes", "bool", "list", "tuple", "dict", "datetime", "date"}


def _last_names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.BinOp):
        yield from _last_names(node.left)
        yield from _last_names(node.right)
    else:
        yield node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
