"""The declaration of a projection, as a caller writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Projection:
    """A pre-grouped table that every segment written from now on embeds.

    Nothing is checked here: that takes the table's schema.

    Parameters
    ----------
    name : str
        Its name, for people and for `useProjection`.
    group_by : sequence of str
        Grouping columns as Spark SQL, `"date_trunc('HOUR', time) AS hour"`, in sort order.
    aggregators : sequence of str
        Such as `"sum(added) AS added"`.
    where : str or None
        Only rows where it is true are in the projection.
    """

    name: str
    group_by: Sequence[str] = ()
    aggregators: Sequence[str] = ()
    where: str | None = None
