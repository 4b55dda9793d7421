"""Why no view answers a statement whose joins are no star."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.join import refused_join
from projseg.errors import ProjsegError
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.choice.nominated_views import listed_views
from projseg.views.choose_view import sources_of

_CODES: Final = {
    "PROJSEG_NOT_A_STAR": ReasonCode.NOT_A_STAR,
    "PROJSEG_JOIN_KEY_NOT_UNIQUE": ReasonCode.KEY_NOT_UNIQUE,
}


def reasons_of_views(tables: Iterable[Snapshot], error: ProjsegError) -> dict[str, Reason]:
    """Return why views do not answer a statement over several tables that was refused.

    Parameters
    ----------
    tables : iterable of Snapshot
        The tables of the statement, at the versions that it reads.
    error : ProjsegError
        Why it was refused.

    Returns
    -------
    dict of str to Reason
        By name, of each view that joins two of the tables or more; none for another error.
    """
    why = refused_join(error)
    if error.code not in _CODES or why is None:
        return {}
    by_id = {table.properties.table_id: table for table in tables}
    found: dict[str, Reason] = {}
    for table_id, fact in by_id.items():
        sources = sources_of(fact)
        for view in () if sources is None else listed_views(sources.store).views:
            joined = {one.table_id for one in view.dimensions}
            if view.fact.table_id == table_id and not joined.isdisjoint(by_id):
                found[view.name] = Reason(_CODES[error.code], why)
    return found
