"""Earlier states of tables that a view stands for, and that were the newest not long ago.

A state is a version of each table such that at some instant all of them were the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.views.choice.nominated_views import listed_views
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import StoreVersion

_SECOND: Final = 1_000_000


def earlier_states(
    store: StoreVersion, fact: Snapshot, tables: Mapping[str, Snapshot], seconds: float
) -> Iterator[tuple[ViewEntry, dict[str, Snapshot]]]:
    """Yield views of a fact, smallest first, with the state at which each was refreshed.

    Parameters
    ----------
    store : StoreVersion
        The store of the fact's views.
    fact : Snapshot
        The fact as it is.
    tables : mapping of str to Snapshot
        All tables that a statement reads, the fact among them, by table id.
    seconds : float
        How long ago the last instant of the state may be.

    Yields
    ------
    (ViewEntry, dict of str to Snapshot)
        By table id; views of the present state are left out.
    """
    oldest = now_us() - round(seconds * _SECOND)
    table_id = fact.properties.table_id
    for view in listed_views(store).views:
        is_of_use = view.is_enabled and view.is_built and view.fact.table_id == table_id
        if not is_of_use or table_id not in view.refreshed:
            continue
        state = _state_of(view, tables)
        if state is None or all(state[one].version == tables[one].version for one in tables):
            continue
        lives = [_life_of(one) for one in state.values()]
        ends = [life[1] for life in lives if life is not None and life[1] is not None]
        if None in lives or min(ends, default=oldest) <= oldest:
            continue
        # Of one table alone, every version was the newest once, if only for less than its clock's
        # unit.
        starts = [life[0] for life in lives if life is not None]
        if len(lives) == 1 or max(starts) < min(ends):
            yield view, state


def _state_of(view: ViewEntry, tables: Mapping[str, Snapshot]) -> dict[str, Snapshot] | None:
    """Return tables at the versions that a view was refreshed at; others stay as they are."""
    found: dict[str, Snapshot] = {}
    for table_id, snapshot in tables.items():
        refreshed = view.refreshed.get(table_id)
        if refreshed is None or refreshed.version == snapshot.version:
            found[table_id] = snapshot
            continue
        then = None
        if refreshed.version < snapshot.version:
            then = read_version(snapshot.storage, refreshed.version)
        if then is None or then.file.write_id != refreshed.write_id:
            return None
        found[table_id] = then
    return found


def _life_of(snapshot: Snapshot) -> tuple[int, int | None] | None:
    """Return when a version began to be the newest, and ended; None if it is not known."""
    following = read_version(snapshot.storage, snapshot.version + 1)
    if following is not None:
        return snapshot.timestamp_us, following.timestamp_us
    is_followed = read_version(snapshot.storage, snapshot.version) is None
    return None if is_followed else (snapshot.timestamp_us, None)
