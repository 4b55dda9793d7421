"""`cached_property` without the lock that Python 3.11 holds while it computes.

That lock belongs to the class: a child forked while another thread computes any object's value
would wait for it for ever. Without the lock two threads may both compute a value; one of the two is
kept.
"""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_property(functools.cached_property[Value]):
    """A property that is computed once for each object, which must have a `__dict__`."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Value: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Return the value, computed if this is the first time it is asked for."""
        if instance is None:
            return self
        assert self.attrname is not None, "set when the class is made"
        return instance.__dict__.setdefault(self.attrname, self.func(instance))
