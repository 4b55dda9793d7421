"""Projections that nobody needs: no query of a long log used them, or others serve as well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from projseg.advisor.shape_costs import Planning
from projseg.advisor.workload import LoggedWorkload
from projseg.algebra.query.bound_query import QuerySpec
from projseg.maintenance.sampled_segments import ProjectionSizes
from projseg.table_layer.metadata.snapshot import Snapshot, read_version


class DropRules(msgspec.Struct, frozen=True):
    """What must be known before a drop is proposed.

    Parameters
    ----------
    days : float
        That the projection is declared, and that the log spans.
    queries : int
        That the log has.
    slower : float
        How much the planned cost of all queries may grow, as a share of it.
    """

    days: float = 30.0
    queries: int = 100
    slower: float = 0.001


def needless_projections(
    planning: Planning,
    queries: Sequence[QuerySpec],
    added: Sequence[ProjectionSizes],
    work: LoggedWorkload,
    rules: DropRules,
) -> dict[str, dict[str, Any]]:
    """Return the projections that may go, with the evidence, one after the other.

    Each is planned without those before it, so of two equal ones only one goes.
    """
    span = work.days
    if span < 0.98 * rules.days or work.query_count < rules.queries:
        return {}
    gone: dict[str, dict[str, Any]] = {}
    for declared in planning.snapshot.properties.projections:
        name = declared.name
        since = declared_since(planning.snapshot, declared.definition_hash)
        if since is None or (datetime.now(UTC) - since).days < rules.days:
            continue
        use = work.uses.get(name)
        if not _is_free(planning, queries, added, [*gone], name, rules.slower):
            continue
        reason = (
            f"no query in {span:.0f} days of {', '.join(work.doors) or 'no door'}"
            if use is None
            else "others serve as well"
        )
        gone[name] = {
            "reason": reason,
            "last_use": None if use is None or use.last is None else use.last.isoformat(),
            "doors": dict(work.doors),
            "log_days": span,
        }
    return gone


def _is_free(
    planning: Planning,
    queries: Sequence[QuerySpec],
    added: Sequence[ProjectionSizes],
    gone: Sequence[str],
    name: str,
    slower: float,
) -> bool:
    """Whether planning without a projection costs what it costs with it."""
    for query in queries:
        with_it = planning.cost(query, added, gone)
        without = planning.cost(query, added, [*gone, name])
        if with_it is None or without is None:
            return False
        if without.cost > with_it.cost * (1 + slower):
            return False
    return True


def declared_since(snapshot: Snapshot, definition_hash: str) -> datetime | None:
    """Return since when, at least, a table declares a projection.

    Versions are halved, as a projection stays declared from one version on.
    """
    low, high = snapshot.kept_from, snapshot.version
    found: int | None = None
    while low <= high:
        middle = (low + high) // 2
        version = read_version(snapshot.storage, middle)
        is_there = version is not None and any(
            one.definition_hash == definition_hash for one in version.file.properties.projections
        )
        if version is None:
            low = middle + 1
        elif is_there:
            found, high = version.timestamp_us, middle - 1
        else:
            low = middle + 1
    return None if found is None else datetime.fromtimestamp(found / 1e6, UTC)
