"""How a pool's workers are started: by the method asked for, or by the best that is safe."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from projseg.memory.cache import KEPT
from projseg.query_pool.channel import Channel
from projseg.query_pool.nursery import Nursery
from projseg.query_pool.refusals import bad_argument
from projseg.query_pool.spawning import Spawning
from projseg.query_pool.started_worker import WorkerStarter
from projseg.query_pool.worker import VersionsOf, work
from projseg.table_layer.snapshot import Snapshot


def starter_of(
    tables: Mapping[str, Snapshot], workers: int, threads: int, method: str | None
) -> WorkerStarter:
    """Return what starts a pool's workers.

    Parameters
    ----------
    tables : mapping of str to Snapshot
        A version of each table, by its name in the pool.
    workers : int
        How many share the cache's budget.
    threads : int
        For a question that does not name a number.
    method : str or None
        `fork`, `spawn` or None.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT.
    OSError
        If the system has no room for another process.
    """
    remote = [name for name, snapshot in tables.items() if snapshot.storage.is_remote]
    if method is None:
        method = "fork" if sys.platform == "linux" and not remote else "spawn"
    if method == "spawn":
        storages = {name: snapshot.storage for name, snapshot in tables.items()}
        return Spawning(storages, threads, workers)
    if method != "fork":
        raise bad_argument(f"start_method is {method!r}; it is 'fork' or 'spawn'")
    if remote:
        raise bad_argument(
            f"start_method is 'fork', and {', '.join(remote)} lies in an object store, whose "
            "connections do not survive that; use 'spawn'"
        )

    def life(channel: Channel) -> None:
        KEPT.keep_inherited(workers)
        versions = {name: VersionsOf(one.storage, one) for name, one in tables.items()}
        work(channel, versions, threads)

    return Nursery(life)
