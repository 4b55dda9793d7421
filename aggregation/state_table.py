"""The table of the classes that fold primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from projseg.aggregation.count_and_sum import BitsState, CountState, SumState
from projseg.aggregation.distinct import DistinctState, TuplesState
from projseg.aggregation.extremum import ByTimeState, ExtremumState
from projseg.aggregation.moments import ComomentsState, MomentsState, ShapeState
from projseg.aggregation.state import State
from projseg.algebra.aggregates.primitive import Primitive
from projseg.memory.forks import late_import


class StateClass(Protocol):
    """A class of states."""

    def __call__(self, primitive: Primitive, group_count: int) -> State:
        """Return states of no rows."""


def _hll() -> StateClass:
    with late_import:
        from projseg.aggregation.hash_sketches import HllState
    return HllState


def _theta() -> StateClass:
    with late_import:
        from projseg.aggregation.hash_sketches import ThetaState
    return ThetaState


def _kll() -> StateClass:
    with late_import:
        from projseg.aggregation.kll import KllState
    return KllState


def _values() -> StateClass:
    with late_import:
        from projseg.aggregation.values import ValuesState
    return ValuesState


STATES: Final[dict[str, StateClass]] = {
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
    "comoments": ComomentsState,
    "shape": ShapeState,
    "tuples": TuplesState,
}
SKETCHES: Final[dict[str, Callable[[], StateClass]]] = {
    "hll": _hll,
    "theta": _theta,
    "kll": _kll,
    "values": _values,
}
"""Classes that need many modules and few queries use: they are imported at their first use."""


def new_state(primitive: Primitive, group_count: int) -> State:
    """Return `group_count` states of no rows."""
    return _class(primitive)(primitive, group_count)


def _class(primitive: Primitive) -> StateClass:
    sketch = SKETCHES.get(primitive.function)
    return STATES[primitive.function] if sketch is None else sketch()
