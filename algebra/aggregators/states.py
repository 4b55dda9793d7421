"""The closed table of primitives: what each stores, and its states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import pyarrow as pa

from projseg.algebra.aggregators.bits import BitsState
from projseg.algebra.aggregators.by_time import ByTimeState
from projseg.algebra.aggregators.count import CountState
from projseg.algebra.aggregators.distinct import DistinctState
from projseg.algebra.aggregators.extremum import ExtremumState
from projseg.algebra.aggregators.moments import MomentsState
from projseg.algebra.aggregators.primitive import Primitive, State
from projseg.algebra.aggregators.sum import SumState
from projseg.memory.late_import import late_import


class StateKind(Protocol):
    """What a state's class offers beside its states."""

    def __call__(self, primitive: Primitive, group_count: int) -> State:
        """Return states of no rows."""

    @staticmethod
    def fields(primitive: Primitive) -> tuple[tuple[str, pa.DataType], ...]:
        """Return the stored columns: (part name, type)."""


def _hll() -> StateKind:
    with late_import:
        from projseg.algebra.aggregators.hll import HllState
    return HllState


def _theta() -> StateKind:
    with late_import:
        from projseg.algebra.aggregators.theta import ThetaState
    return ThetaState


STATES: Final[dict[str, StateKind]] = {
    "count": CountState,
    "sum": SumState,
    "min": ExtremumState,
    "max": ExtremumState,
    "min_by": ByTimeState,
    "max_by": ByTimeState,
    "moments": MomentsState,
    "bit_and": BitsState,
    "bit_or": BitsState,
    "bit_xor": BitsState,
    "distinct": DistinctState,
}
SKETCHES: Final[dict[str, Callable[[], StateKind]]] = {"hll": _hll, "theta": _theta}
"""Those whose modules are many and seldom needed."""


def state_fields(primitive: Primitive) -> tuple[tuple[str, pa.DataType], ...]:
    """Return the columns that store a primitive: (part name, logical type) each."""
    return _kind(primitive).fields(primitive)


def new_state(primitive: Primitive, group_count: int) -> State:
    """Return `group_count` states of no rows."""
    return _kind(primitive)(primitive, group_count)


def _kind(primitive: Primitive) -> StateKind:
    sketch = SKETCHES.get(primitive.function)
    return STATES[primitive.function] if sketch is None else sketch()
