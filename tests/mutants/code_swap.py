"""A mutant in a process that has imported the module, or will import it; no file is written."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

Source = str | ast.Module
NOTE = "_mutants_note"


def noting(source: str) -> ast.Module:
    """Return source whose functions call NOTE with their first lines."""
    return ast.fix_missing_locations(_Noting().visit(ast.parse(source)))


class _Noting(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        line = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        has_docstring = ast.get_docstring(node) is not None
        node.body.insert(int(has_docstring), ast.Expr(_note(line)))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self.generic_visit(node)
        both = ast.Tuple([_note(node.lineno), node.body], ast.Load())
        node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node


def _note(line: int) -> ast.Call:
    return ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(line)], [])


def functions_of(module: ModuleType) -> list[FunctionType]:
    """Return all functions made of a module's source, closures and methods among them."""
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and each.__code__.co_filename == module.__file__
    ]


def forget() -> None:
    """Empty the caches of functions: what they remember was computed before the change."""
    for each in gc.get_objects():
        if isinstance(each, _lru_cache_wrapper) and each.__module__.startswith("projseg."):
            each.cache_clear()


def swap(functions: list[FunctionType], path: str, original: Source, changed: Source) -> bool:
    """Give functions the bodies of changed source; return False if a closure does not fit."""
    codes = dict(zip(_codes(original, path), _codes(changed, path), strict=True))
    for function in functions:
        try:
            function.__code__ = codes[function.__code__]
        except (KeyError, ValueError):  # made otherwise, or another count of free variables
            return False
    return True


def private_constant(source: str, path: str, line: int) -> tuple[str, CodeType] | None:
    """Return the name of the private constant that source sets at a line, and its expression.

    None where importing the module reads it: what was made of the old value would stay.
    """
    body = ast.parse(source).body
    for node in body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            name = ast.unparse(node.target)
            is_there = node.lineno <= line <= (node.end_lineno or line)
            if is_there and name.startswith("_") and not name.startswith("__"):
                is_read = any(name in _read_by_import(other) for other in body if other is not node)
                value = compile(ast.Expression(node.value), path, "eval")
                return None if is_read else (name, value)
    return None


def _read_by_import(statement: ast.stmt) -> set[str]:
    """Return the names that a statement outside of functions reads, or a class in any place."""
    parts: list[ast.AST] = [statement]
    if isinstance(statement, ast.FunctionDef):
        arguments = statement.args
        defaults = [each for each in arguments.kw_defaults if each is not None]
        parts = [*arguments.defaults, *defaults, *statement.decorator_list]
    walked = (node for part in parts for node in ast.walk(part))
    return {node.id for node in walked if isinstance(node, ast.Name)}


def users_of(functions: list[FunctionType], name: str) -> set[int]:
    """Return the first lines of the functions that read a global name."""
    todo = [(each.__code__, each.__code__.co_firstlineno) for each in functions]
    lines = set()
    for code, line in todo:
        if name in code.co_names:
            lines |= {line, code.co_firstlineno}
        todo += [(part, line) for part in code.co_consts if isinstance(part, CodeType)]
    return lines


def _codes(source: Source, path: str) -> Iterator[CodeType]:
    todo = [compile(source, path, "exec", dont_inherit=True)]
    for code in todo:
        yield code
        todo += [part for part in code.co_consts if isinstance(part, CodeType)]


class _ChangedLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class ChangedModule(MetaPathFinder):
    """Imports one module from changed source.

    Parameters
    ----------
    name : str
        The module.
    source : str
        What takes the place of its file.
    """

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the module's spec with another loader; None for all other modules."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _ChangedLoader(fullname, spec.origin, self._source)
        return spec

    def install(self) -> None:
        """Come before all other finders."""
        assert self._name not in sys.modules
        sys.meta_path.insert(0, self)
