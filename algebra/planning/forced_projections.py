"""Checks of what a query's context says of projections: it may force, name or exclude them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from projseg.algebra.planning.source_plan import SourceChoice
from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import InvalidInputError, ProjectionNotUsableError, did_you_mean

_SEGMENTS_SHOWN: Final = 3


def check_forced(query: QuerySpec, choices: Mapping[str, SourceChoice]) -> None:
    """Raise if the query context asks for projections and a segment is read without one.

    Parameters
    ----------
    query : QuerySpec
        The query, with its context.
    choices : mapping of str to SourceChoice
        The choice for each segment by name; segments that need not be read are ignored.

    Raises
    ------
    ProjectionNotUsableError
        PROJSEG_PROJECTION_NOT_USABLE, naming segments and the reason of each candidate.
    """
    context = query.context
    if not context.is_forced:
        return
    failed = {
        name: choice
        for name, choice in choices.items()
        if not choice.is_empty and choice.projection is None
    }
    if not failed:
        return
    what, hint = "Force projections specified, but none satisfy query", ""
    if context.use_projection is not None:
        what = f"Projection[{context.use_projection}] specified, but does not satisfy query"
        known = {name for choice in failed.values() for name in choice.rejected}
        hint = (
            "" if context.use_projection in known else did_you_mean(context.use_projection, known)
        )
    shown = "; ".join(_explained(*item, context.use_projection) for item in _first(failed))
    more = len(failed) - _SEGMENTS_SHOWN
    tail = f"; and {more} more segments" if more > 0 else ""
    raise ProjectionNotUsableError("PROJSEG_PROJECTION_NOT_USABLE", f"{what}: {shown}{tail}{hint}")


def check_excluded(query: QuerySpec, known: Iterable[str]) -> None:
    """Raise if `excludeProjections` names something that is not a projection of the table.

    Parameters
    ----------
    query : QuerySpec
        The query, with its context.
    known : iterable of str
        Names of all projections that the table declares or its segments hold.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_PROJECTION, with the names that are known.
    """
    if not query.context.exclude_projections:
        return
    names = sorted(set(known))
    for name in sorted(query.context.exclude_projections.difference(names)):
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"excludeProjections names '{name}'{did_you_mean(name, names)}; the table's "
            f"projections are {', '.join(names) or 'none'}",
        )


def _first(failed: Mapping[str, SourceChoice]) -> list[tuple[str, SourceChoice]]:
    return list(failed.items())[:_SEGMENTS_SHOWN]


def _explained(segment: str, choice: SourceChoice, wanted: str | None) -> str:
    reasons = choice.rejected
    if wanted is not None:
        found = reasons.get(wanted)
        return f"segment {segment}: {'NOT_IN_SEGMENT' if found is None else found}"
    listed = ", ".join(f"{name} {reason}" for name, reason in sorted(reasons.items()))
    return f"segment {segment}: {listed or 'it holds no projection'}"
