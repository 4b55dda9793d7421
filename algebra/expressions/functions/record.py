"""The record of a scalar function: one place for all that is known of it.

Each family of functions holds its records in `FUNCTIONS`; `table.py` joins them, and every list of
functions derives from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.tree import Call, Expression

Evaluator: TypeAlias = Callable[[Call, Sequence[Any], int], pa.Array]
"""(call, one datum for each argument, row count) -> array of `call.type`."""

Writer: TypeAlias = Callable[[Expression], str]
"""An argument's text, in the zone in which its call is written."""


class Operands(Protocol):
    """What a function that chooses which arguments it computes may ask for."""

    row_count: int

    def value(self, operand: Expression) -> Any:
        """Return an operand's datum over all rows."""

    def value_where(self, operand: Expression, wanted: NDArray[np.bool_]) -> pa.Array:
        """Return an operand's values where wanted, bool[n]; elsewhere null if it may fail."""

    def may_fail(self, operand: Expression) -> bool:
        """Whether an operand must not be computed where it is not asked for."""


class Lazy(msgspec.Struct, frozen=True):
    """The evaluation of a function that chooses which of its arguments it computes for which rows.

    Parameters
    ----------
    compute : (call, operands) -> array of `call.type`
        Asks for what it needs.
    """

    compute: Callable[[Call, Operands], pa.Array]


class Spelling(msgspec.Struct, frozen=True):
    """How a written function becomes a node.

    Parameters
    ----------
    name : str
        As Spark knows it, lower case.
    build : (arguments, time zone) -> Expression
        Casts the arguments as Spark does and gives the node its type.
    fewest, most : int
        How many arguments may be written.
    aliases : tuple of str
        Spark's other names for it.
    druid_names : tuple of str
        Functions of Druid's expressions that take the same arguments and mean the same.
    """

    name: str
    build: Callable[[tuple[Expression, ...], str], Expression]
    fewest: int
    most: int
    aliases: tuple[str, ...] = ()
    druid_names: tuple[str, ...] = ()


class Nulls(Enum):
    """Which nulls among the arguments make the value null."""

    FROM_ANY = "null if any argument is"
    NEVER = "never null"
    OWN = "by a rule of its own"


class Order(Enum):
    """What becomes of the value as one argument ascends and the others stay.

    Of two values of the argument, neither null, the greater one has no smaller value (RISES), or no
    greater one (FALLS), where neither value is null and none raises. Order is Spark's, in which NaN
    is above all numbers. NONE says nothing.
    """

    RISES = "rises"
    FALLS = "falls"
    NONE = "none"


Orders: TypeAlias = Callable[[Call], tuple[Order, ...]]
"""The order in each argument of a call."""


def never(call: Call) -> bool:
    """Return False: so it is of no call."""
    del call
    return False


def always(call: Call) -> bool:
    """Return True: so it is, or may be, of every call."""
    del call
    return True


def unordered(call: Call) -> tuple[Order, ...]:
    """Say nothing of any argument."""
    return (Order.NONE,) * len(call.arguments)


def rising(call: Call) -> tuple[Order, ...]:
    """Rise in every argument."""
    return (Order.RISES,) * len(call.arguments)


def ordered(*orders: Order) -> Orders:
    """Return the orders of a function of as many arguments, the same in every call."""
    return lambda call: orders


def written_as_call(call: Call, write: Writer) -> str:
    """Return `function(argument, ...)`."""
    return f"{call.function}({', '.join(map(write, call.arguments))})"


def written_infix(call: Call, write: Writer) -> str:
    """Return `(argument FUNCTION argument ...)`."""
    return f"({f' {call.function.upper()} '.join(map(write, call.arguments))})"


def written_prefix(call: Call, write: Writer) -> str:
    """Return `(FUNCTIONargument)`."""
    return f"({call.function}{write(call.arguments[0])})"


def without_zone(call: Call) -> str | None:
    """Return None: the text means the same in all zones."""
    del call
    return None


def zone_in_parameters(call: Call) -> str | None:
    """Return the last parameter, which is a zone if there is one."""
    return str(call.parameters[-1]) if call.parameters else None


class ScalarFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a function that nodes of trees have.

    Parameters
    ----------
    evaluate : Evaluator or Lazy
        What it computes.
    nulls : Nulls
        Which nulls among its arguments make it null.
    null_only_from_null : function of the call
        Whether proofs may take it that the value is null only where an argument is. False also of
        functions that raise, such as division, unless proofs have always used it: a condition that
        is proved is not computed, and the error that it would raise goes with it.
    may_fail : function of the call
        Whether it may raise an EvaluationError for some values of its arguments. True also where
        nobody has shown that it cannot. Canonical AND and OR put what may fail last, so to make it
        False of a released function changes stored hashes.
    order : function of the call
        In which arguments it rises or falls, as far as known; only of functions that are null if
        any argument is, so that what holds of a range of values holds of nulls beside them too.
    canonical_folds_null : bool
        Whether the canonical form of a call with a constant null is null. It would be right of all
        functions that are null if any argument is, but the canonical forms of those released
        without it are in stored hashes.
    spellings : tuple of Spelling
        The written functions that become this node, or one over it; each stands in one record.
    text : (call, writer of arguments) -> str
        The canonical text of a call.
    zone : function of the call
        The time zone in which that text must be read, or None if any will do.
    """

    evaluate: Evaluator | Lazy
    nulls: Nulls
    null_only_from_null: Callable[[Call], bool]
    may_fail: Callable[[Call], bool]
    order: Orders
    canonical_folds_null: bool = False
    spellings: tuple[Spelling, ...] = ()
    text: Callable[[Call, Writer], str] = written_as_call
    zone: Callable[[Call], str | None] = without_zone
