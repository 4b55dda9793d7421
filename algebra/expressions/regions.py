"""The time zones with changes of clocks by which an expression reads or cuts times."""

from __future__ import annotations

from collections.abc import Iterator

from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import without_zone
from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.time_zones import is_fixed


def regions_of(tree: Expression) -> Iterator[str]:
    """Yield the zones of a tree's calls; a field's name is a parameter, too, and no zone."""
    for node in tree.walk():
        if not isinstance(node, Call) or FUNCTIONS[node.function].zone is without_zone:
            continue
        for parameter in node.parameters:
            zone = parameter.timezone if isinstance(parameter, Granularity) else parameter
            if isinstance(zone, str) and not is_fixed(zone):
                yield zone
