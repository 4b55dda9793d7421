"""Projections, indexes and views that nobody needs.

They are unused, replaceable by others, or slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from projseg.advisor.shape_costs import Imagined, Planning
from projseg.advisor.workload import INDEX_USE, LoggedWorkload
from projseg.algebra.query.bound_query import QuerySpec
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.table_properties import TableProperties


class DropRules(msgspec.Struct, frozen=True):
    """What is required before a drop is proposed.

    The thing was declared at least `days` days ago, and the log spans as many days and has at least
    `queries` queries. Without the thing, the planned cost of all queries grows by at most the share
    `slower`.
    """

    days: float = 30.0
    queries: int = 100
    slower: float = 0.001


class Needless(msgspec.Struct, frozen=True):
    """A projection, index or view that may be dropped.

    The evidence is why, when it answered last, and by which doors the log came.
    """

    kind: str
    name: str
    evidence: dict[str, Any]


def needless(
    planning: Planning,
    queries: Sequence[QuerySpec],
    added: Sequence[Imagined],
    work: LoggedWorkload,
    worse: Mapping[str, tuple[str, str]],
    rules: DropRules,
) -> list[Needless]:
    """Return the projections, indexes and views that may go, in turn, once `added` is there.

    Each projection is planned without those before it, so of two equal ones only one goes. `worse`
    has, by name, the kind of advice that was applied and made its queries slower, and how much.
    """
    found = [
        Needless(kind, name, _evidence(reason, work, name))
        for name, (kind, reason) in worse.items()
    ]
    if work.days < 0.98 * rules.days or work.query_count < rules.queries:
        return found
    gone = set(worse)
    for name in _old_projections(planning.snapshot, rules.days):
        use = work.uses.get(name)
        if name in gone or not _is_free(planning, queries, added, sorted(gone), name, rules.slower):
            continue
        reason = _unused(work) if use is None else "others serve as well"
        gone.add(name)
        found.append(Needless("projection", name, _evidence(reason, work, name)))
    unused = (
        name
        for name in _old_indexes(planning.snapshot, rules.days)
        if name not in gone and f"{INDEX_USE}{name}" not in work.uses
    )
    return found + [
        Needless("index", name, _evidence(_unused(work), work, name)) for name in unused
    ]


def _unused(work: LoggedWorkload) -> str:
    return f"no query in {work.days:.0f} days of {', '.join(work.doors) or 'no door'}"


def _evidence(reason: str, work: LoggedWorkload, name: str) -> dict[str, Any]:
    use = work.uses.get(name)
    return {
        "reason": reason,
        "last_use": None if use is None or use.last is None else use.last.isoformat(),
        "doors": dict(work.doors),
        "log_days": work.days,
    }


def _old_projections(snapshot: Snapshot, days: float) -> Iterable[str]:
    for one in snapshot.properties.projections:
        digest = one.definition_hash

        def has(properties: TableProperties, digest: str = digest) -> bool:
            return any(each.definition_hash == digest for each in properties.projections)

        if _is_old(declared_since(snapshot, has), days):
            yield one.name


def _old_indexes(snapshot: Snapshot, days: float) -> Iterable[str]:
    for one in snapshot.properties.declared_indexes:

        def has(properties: TableProperties, name: str = one.name) -> bool:
            return any(each.name == name for each in properties.declared_indexes)

        if _is_old(declared_since(snapshot, has), days):
            yield one.name


def _is_old(since: datetime | None, days: float) -> bool:
    return since is not None and (datetime.now(UTC) - since).days >= days


def _is_free(
    planning: Planning,
    queries: Sequence[QuerySpec],
    added: Sequence[Imagined],
    gone: Sequence[str],
    name: str,
    slower: float,
) -> bool:
    """Whether planning without a projection costs what it costs with it."""
    declared = {one.name for one in planning.snapshot.properties.projections}
    without = [one for one in gone if one in declared]
    for query in queries:
        with_it = planning.cost(query, added, without)
        found = planning.cost(query, added, [*without, name])
        if with_it is None or found is None:
            return False
        if found.cost > with_it.cost * (1 + slower):
            return False
    return True


def declared_since(snapshot: Snapshot, has: Callable[[TableProperties], bool]) -> datetime | None:
    """Return since when, at least, the declarations of a table satisfy a predicate.

    Versions are halved, as a declaration stays from one version on.
    """
    low, high = snapshot.kept_from, snapshot.version
    found: int | None = None
    while low <= high:
        middle = (low + high) // 2
        version = read_version(snapshot.storage, middle)
        if version is not None and has(version.file.properties):
            found, high = version.timestamp_us, middle - 1
        else:
            low = middle + 1
    return None if found is None else datetime.fromtimestamp(found / 1e6, UTC)
