"""The record of a scalar function, which holds all that projseg knows of it.

Each family of functions has its records in `FUNCTIONS`; `function_table.py` joins them, and every
list of functions is derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks.block_builder import Form, LazyForm
from projseg.algebra.expressions.catalyst_call import CatalystCall
from projseg.algebra.expressions.tree import Call, Cut, Expression

Evaluator: TypeAlias = Callable[[Call, Sequence[Any], int], pa.Array]
"""(call, one datum for each argument, row count) -> array of `call.type`."""

Writer: TypeAlias = Callable[[Expression], str]
"""From an argument to its text, in the time zone in which the call is written."""


class Operands(Protocol):
    """The arguments of a lazy function, which computes each only for the rows that need it."""

    row_count: int

    def value(self, operand: Expression) -> Any:
        """Return an operand's datum over all rows."""

    def value_where(self, operand: Expression, wanted: NDArray[np.bool_]) -> pa.Array:
        """Return an operand's values where `wanted`, bool[n], is true.

        In other rows they may be null or computed; an operand that may fail is not computed there.
        """

    def may_fail(self, operand: Expression) -> bool:
        """Whether computing an operand may raise an error for some row."""


class Lazy(msgspec.Struct, frozen=True):
    """The evaluation of a lazy function, which chooses for which rows it computes its arguments.

    `compute` asks its operands for the arguments it needs.
    """

    compute: Callable[[Call, Operands], pa.Array]


class NoBlocks(Enum):
    """Why no steps of a block program compute a function."""

    NO_NUMBERS = "its arguments or its values are texts, arrays or structs"
    BUCKETS = "it is computed once for each bucket of time"
    COLUMNS = "NumPy or Arrow computes it over whole columns"
    DIMENSION = "it is computed over the rows of a dimension"
    ERRORS = "it makes nulls of errors, which end a program"


class Spelling(msgspec.Struct, frozen=True):
    """How a function that is written in SQL, by Spark's lower-case name, becomes a node.

    `build` casts the arguments, from `fewest` to `most`, as Spark does and gives the node its type.
    Aliases are Spark's, `druid_names` functions of Druid's expressions that take the same arguments
    and mean the same, `catalyst` expressions of Spark's plans that do, the first that fits.
    """

    name: str
    build: Callable[[tuple[Expression, ...], str], Expression]
    fewest: int
    most: int
    aliases: tuple[str, ...] = ()
    druid_names: tuple[str, ...] = ()
    catalyst: tuple[CatalystCall, ...] = ()


class Nulls(Enum):
    """Which nulls among the arguments make the value null."""

    FROM_ANY = "null if any argument is"
    NEVER = "never null"
    OWN = "by a rule of its own"


class Order(Enum):
    """How the value changes as one argument increases and the others stay the same.

    A greater argument never makes a smaller value (RISES), or never a greater value (FALLS). That
    holds for arguments that are not null and whose values are not null and do not raise. Order is
    Spark's, in which NaN is above all numbers. NONE promises nothing.
    """

    RISES = "rises"
    FALLS = "falls"
    NONE = "none"


Inverse: TypeAlias = Callable[[Call, Cut], tuple[Cut, ...] | None]
"""From a cut among the values of a call to cuts among those of its first argument.

The call's value lies after the cut where the argument lies after the first of these and before the
second, after the third and before the fourth, and so on. From `BOTTOM` it is where there is a value
at all; for other arguments the call raises. None means that this is not known.
"""

Orders: TypeAlias = Callable[[Call], tuple[Order, ...]]
"""From a call to the order in each of its arguments."""


def never(call: Call) -> bool:
    """Return False, for a property that no call has."""
    del call
    return False


def always(call: Call) -> bool:
    """Return True, for a property that every call has or may have."""
    del call
    return True


def unordered(call: Call) -> tuple[Order, ...]:
    """Return Order.NONE for every argument."""
    return (Order.NONE,) * len(call.arguments)


def rising(call: Call) -> tuple[Order, ...]:
    """Return Order.RISES for every argument."""
    return (Order.RISES,) * len(call.arguments)


def ordered(*orders: Order) -> Orders:
    """Return a function that gives these orders for every call."""
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
    """Return the zone that is the call's last parameter, None without parameters."""
    return str(call.parameters[-1]) if call.parameters else None


class ScalarFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a function that nodes of trees call.

    Parameters
    ----------
    evaluate : Evaluator or Lazy
        How it is computed.
    in_blocks : Form, LazyForm or NoBlocks
        The steps of a block program that compute it, lazily where `evaluate` is lazy, or why there
        are none.
    nulls : Nulls
        Which nulls among its arguments make its value null.
    null_only_from_null : function of the call
        Whether proofs may assume that the value is null only where an argument is. It is False of
        functions that raise, such as division, because a condition that is proved is not computed,
        and then does not raise either; functions of which proofs have always used it are excepted.
    may_fail : function of the call
        Whether it may raise an EvaluationError for some values of its arguments. It is True unless
        somebody has shown the contrary. Canonical AND and OR put operands that may fail last, so
        making it False for a released function changes stored hashes.
    order : function of the call
        In which arguments it rises or falls, as far as known. Only functions that are null if any
        argument is have one, so that bounds on the arguments bound the value despite nulls.
    inverse : Inverse or None
        For which first arguments the value lies after a cut, while the others are constants. Only
        functions that are null where that argument is, and nowhere else, have one.
    parts_zeros : function of the call
        Whether its values of 0.0 and -0.0 may differ, which are one group.
    canonical_folds_null : bool
        Whether the canonical form of a call with a constant null is null. That would be correct for
        all functions that are null if any argument is, but stored hashes contain canonical forms of
        functions that were released without it.
    spellings : tuple of Spelling
        The functions in SQL that become this node, or a node around it; each is in one record.
    text : (call, writer of arguments) -> str
        The canonical text of a call.
    zone : function of the call
        The time zone in which that text must be read, or None if any will do.
    """

    evaluate: Evaluator | Lazy
    in_blocks: Form | LazyForm | NoBlocks
    nulls: Nulls
    null_only_from_null: Callable[[Call], bool]
    may_fail: Callable[[Call], bool]
    order: Orders
    inverse: Inverse | None = None
    parts_zeros: Callable[[Call], bool] = never
    canonical_folds_null: bool = False
    spellings: tuple[Spelling, ...] = ()
    text: Callable[[Call, Writer], str] = written_as_call
    zone: Callable[[Call], str | None] = without_zone
