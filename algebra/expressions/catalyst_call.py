"""Expressions of Spark's optimizer, Catalyst, that mean the same as functions of projseg.

Records of functions and aggregates list them; Spark's extension reads them from its jar, and writes
such an expression of a plan as a call of the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec


class ArgumentKind(Enum):
    """What an argument must be, so that the call means the same."""

    ANY = "any"
    TEXT = "a text of the default collation"
    CONSTANT = "a constant"
    SIZE = "a constant that is written as a plain number"
    TIME_PATTERN = "a constant, where the session formats times as Spark does since 3.0"
    BYTES = "a binary; a cast of a text is written as the text"
    DOUBLE = "a double"
    NO_DOUBLE = "neither double nor float"
    NO_WHOLE_NUMBER = "no whole number"


ANY, TEXT, BYTES = ArgumentKind.ANY, ArgumentKind.TEXT, ArgumentKind.BYTES
CONSTANT, TIME_PATTERN = ArgumentKind.CONSTANT, ArgumentKind.TIME_PATTERN
DOUBLE, NO_DOUBLE = ArgumentKind.DOUBLE, ArgumentKind.NO_DOUBLE
NO_WHOLE_NUMBER = ArgumentKind.NO_WHOLE_NUMBER


class CatalystCall(msgspec.Struct, frozen=True):
    """An expression of Catalyst, by the name of its class, that is written as a call.

    `arguments` are what its children must be, in order, the last any number of times if it is
    variadic; `parameters` are what other parts must be, as texts. With `may_fail`, it may raise an
    error for some values, or projseg may refuse what Spark answers. `text` has `{0}` for the first
    child; empty: it is a call of the function.
    """

    expression: str
    arguments: tuple[ArgumentKind, ...] = (ANY,)
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_variadic: bool = False
    may_fail: bool = False
    text: str = ""

    def listed(self, function: str, is_approximate: bool = False) -> dict[str, Any]:
        """Return what Spark's extension reads; `is_approximate` of an aggregate by sketches."""
        return {
            "expression": self.expression,
            "function": function,
            "arguments": [argument.name for argument in self.arguments],
            "parameters": dict(self.parameters),
            "isVariadic": self.is_variadic,
            "mayFail": self.may_fail,
            "text": self.text or None,
            "isApproximate": is_approximate,
        }


def spark_call(
    expression: str, *arguments: ArgumentKind, **parameters: str
) -> tuple[CatalystCall, ...]:
    """Return the record of an expression that never fails, alone."""
    return (CatalystCall(expression, arguments, parameters),)


def spark_call_of_all(
    expression: str, argument: ArgumentKind, **parameters: str
) -> tuple[CatalystCall, ...]:
    """Return the record of an expression of any number of such arguments, alone."""
    return (CatalystCall(expression, (argument,), parameters, is_variadic=True),)


def failing_call(
    expression: str, *arguments: ArgumentKind, **parameters: str
) -> tuple[CatalystCall, ...]:
    """Return the record of an expression that may raise or be refused, alone."""
    return (CatalystCall(expression, arguments, parameters, may_fail=True),)
