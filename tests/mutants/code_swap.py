"""A mutant in a process that has imported the module, or will import it; no file is written."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any


def functions_of(module: ModuleType) -> list[FunctionType]:
    """Return all functions made of a module's source, closures and methods among them."""
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and each.__code__.co_filename == module.__file__
    ]


def swap(functions: list[FunctionType], path: str, original: str, changed: str) -> bool:
    """Give functions the bodies of changed source; return False if a closure does not fit."""
    codes = dict(zip(_codes(original, path), _codes(changed, path), strict=True))
    for function in functions:
        try:
            function.__code__ = codes[function.__code__]
        except (KeyError, ValueError):  # made otherwise, or another count of free variables
            return False
    return True


def _codes(source: str, path: str) -> Iterator[CodeType]:
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
