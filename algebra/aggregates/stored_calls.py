"""The aggregates that a projection stores so that its outputs can be computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregates.expression import AggregateOutput


def stored_calls(
    outputs: Sequence[AggregateOutput], taken: Iterable[str]
) -> tuple[AggregateCall, ...]:
    """Return the calls of outputs.

    An output that is one call gives it its name. Those of an expression, which is computed when it
    is asked for, bear their own text, and are left out if another output has them.

    Parameters
    ----------
    outputs : sequence of AggregateOutput
        The outputs as declared.
    taken : iterable of str
        Names that no call may be given.
    """
    plain = [output for output in outputs if output.is_call]
    names = {*taken, *(output.name for output in plain)}
    known = {replace(call, name="") for output in plain for call in output.calls}
    found: list[AggregateCall] = []
    for output in outputs:
        if output.is_call:
            found += [replace(call, name=output.name) for call in output.calls]
            continue
        for call in output.calls:
            if replace(call, name="") not in known:
                name = _free(call.name, names)
                known.add(replace(call, name=""))
                names.add(name)
                found.append(replace(call, name=name))
    return tuple(found)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name
