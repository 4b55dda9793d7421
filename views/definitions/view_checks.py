"""What a view may say, and what is refused: its SELECT, its options, its segments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from projseg.algebra.expressions.binder_names import may_depend_on_instant
from projseg.algebra.query.select_statement import SelectStatement, parse_select
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import (
    InvalidInputError,
    LimitExceededError,
    ProjsegError,
    UnsupportedFeatureError,
    did_you_mean,
)
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.known_properties import ProjectionScope, declare_scope
from projseg.table_layer.metadata.manifest import NO_TIME_MIN
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.text_bounds import check_property_sizes
from projseg.views.view_records import VIEW_SQL_BYTES_MAX, ViewEntry

_RANDOM: Final = re.compile(
    r"\b(rand|random|randn|uuid|shuffle|randstr|monotonically_increasing_id|input_file_name"
    r"|spark_partition_id)\s*\(",
    re.IGNORECASE,
)
_NOW: Final = re.compile(
    r"\b(now|current_\w+|curdate|localtimestamp|unix_timestamp|today)\b", re.IGNORECASE
)

_OPTIONS: Final = ("refresh", "chunk", "retain", "interval", "require", "cluster_by")
_CHUNKS: Final = ("day", "month", "year")
_CHUNK_SEGMENTS_MIN: Final = 16


def checked_statement(sql: str, *, with_joins: bool = False) -> SelectStatement:
    """Return the SELECT of a view, whose clauses may be there."""
    checked_text(sql)
    statement = parse_select(sql, with_joins=with_joins)
    _check_clauses(statement)
    return statement


def checked_text(sql: str) -> str:
    """Return the text of a view's SELECT, if it is one and means the same each time."""
    if not isinstance(sql, str):
        raise bad_view(f"a view is defined by a SELECT as text, found {sql!r}"[:200])
    byte_count = len(sql.encode("utf-8", "surrogatepass"))
    if byte_count > VIEW_SQL_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_EXPRESSION_TOO_LONG",
            f"a view's SELECT has {byte_count} bytes; {VIEW_SQL_BYTES_MAX} is the most",
        )
    require_steady(sql)
    return sql


def _check_clauses(statement: SelectStatement) -> None:
    refused = {
        "VERSION AS OF or TIMESTAMP AS OF": statement.table.is_versioned,
        "a hint": statement.hints,
    }
    for what, is_there in refused.items():
        if is_there:
            raise bad_view(f"{what} has no place in the definition of a view: leave it out")
    beyond_groups = {
        "HAVING": statement.having,
        "ORDER BY": statement.order_by,
        "LIMIT": statement.limit is not None,
        "OFFSET": statement.offset,
        "a SELECT in FROM": statement.source is not None,
    }
    for what, is_there in beyond_groups.items():
        if is_there:
            raise needs_spark(what)


def require_steady(sql: str) -> None:
    """Refuse a text that means something else each time."""
    found = _RANDOM.search(sql) or (_NOW.search(sql) if may_depend_on_instant(sql) else None)
    if found is not None:
        raise InvalidInputError(
            "PROJSEG_VIEW_NOT_DETERMINISTIC",
            f"a view stores what is the same whenever it is asked, and its SELECT calls "
            f"{found[0].rstrip('( ')}: leave it to the queries, or write a constant",
        )


def needs_spark(what: str) -> UnsupportedFeatureError:
    """Return the error of a SELECT that only Spark computes, where there is none."""
    return UnsupportedFeatureError(
        "PROJSEG_VIEW_NEEDS_SPARK",
        f"{what} is no part of groups of all rows. Leave it to the queries, which are answered "
        "from a view of groups; or store the rows of this very SELECT, which Spark computes: "
        "CREATE and REFRESH MATERIALIZED VIEW there",
    )


_ENDS: Final = {"PROJSEG_VIEW_NEEDS_SPARK": ". Leave it", "PROJSEG_UNSUPPORTED_SQL": "; projseg"}
"""What begins the advice in errors of a SELECT that is more than groups."""


def as_required(error: ProjsegError, options: Mapping[str, object]) -> ProjsegError:
    """Return the error of a SELECT; Spark is no way out where a view is to be incremental."""
    end = _ENDS.get(error.code)
    if end is None or "require" not in options:
        return error
    what = error.message.partition(end)[0] + "."
    return InvalidInputError(
        "PROJSEG_VIEW_NOT_INCREMENTAL",
        f"{what} A refresh would compute all of its rows anew, and the view is to be incremental: "
        "leave it to the queries, or leave out the property 'require'",
    )


def bad_view(problem: str) -> InvalidInputError:
    """Return the error of a definition or an option that no view can have."""
    return InvalidInputError("PROJSEG_BAD_VIEW", problem)


def read_options(given: Mapping[str, object]) -> dict[str, str]:
    """Return checked options as they are stored, without those that are None."""
    known = {name.casefold(): name for name in _OPTIONS}
    found: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(str(key).casefold())
        if name is None:
            raise bad_view(
                f"'{key}' is not an option of a view{did_you_mean(str(key), _OPTIONS)}; known are "
                f"{', '.join(_OPTIONS)}"
            )
        if value is not None:
            found[name] = str(value)
    check_property_sizes("option", found)
    if found.get("refresh", "commit") not in ("commit", "deferred"):
        raise bad_view(f"refresh '{found['refresh']}' is neither commit nor deferred")
    if found.get("require", "incremental") != "incremental":
        raise bad_view(f"require '{found['require']}' is not incremental")
    if "chunk" in found:
        found["chunk"] = Granularity.parse(found["chunk"]).period_text
    declare_scope(retain=found.get("retain"))
    if "interval" in found:
        Interval.parse(found["interval"])
    return found


def check_result_options(options: Mapping[str, str]) -> None:
    """Refuse options of parts for a stored result, which Spark runs anew when REFRESH says so."""
    wrong = options.keys() - {"refresh"}
    if wrong:
        raise bad_view(f"a stored result has no {', '.join(sorted(wrong))}, as it has no parts")
    if options.get("refresh") == "commit":
        raise bad_view("no commit refreshes a stored result: REFRESH does, which runs its SELECT")


def default_chunk(snapshot: Snapshot) -> str:
    """Return the unit of time of a new view's parts, long enough for most to hold many segments."""
    properties = snapshot.properties
    own = Granularity.parse(properties.segment_granularity)
    if properties.time_column is None:
        return "all"
    loaded = snapshot.load_all()
    several = [manifest.min_times for manifest in loaded]
    times = np.concatenate(several) if several else np.zeros(0, np.int64)
    times = times[times != NO_TIME_MIN]
    units = [Granularity.parse(name) for name in _CHUNKS]
    longer = [unit for unit in units if unit.length_micros > own.length_micros]
    if own.is_all:
        longer = units
    for unit in [*([] if own.is_all else [own]), *longer]:
        chunks = len(np.unique(unit.floor(times)))
        if len(times) >= _CHUNK_SEGMENTS_MIN * max(chunks, 1):
            return unit.period_text
    return (longer[-1] if longer else own).period_text


def scope_of(*intervals: Interval | None) -> tuple[int, int] | None:
    """Return the times that lie in every interval; None for all."""
    found: Interval | None = None
    for interval in intervals:
        if interval is None:
            continue
        both = interval if found is None else found.intersect(interval)
        if both is None:
            raise InvalidInputError(
                "PROJSEG_BAD_VIEW", f"no time lies in {interval} and in the view's WHERE"
            )
        found = both
    return None if found is None else (found.start_us, found.end_us)


class CoveredSegments(msgspec.Struct, frozen=True):
    """The segments that a view is kept for, and the chunks of time that its parts lie in.

    Segments that do not lie wholly in `scope`, and those whose rows are all older than `retain`,
    are left out. A segment belongs to the chunk of its smallest time.
    """

    scope: Interval | None
    retain: ProjectionScope
    chunk: Granularity
    now_us: int

    @classmethod
    def of(cls, view: ViewEntry) -> CoveredSegments:
        """Return the segments that a view is kept for now."""
        return cls(
            None if view.scope is None else Interval(*view.scope),
            declare_scope(retain=view.options.get("retain")),
            Granularity.parse(view.options["chunk"]),
            now_us(),
        )

    def holds(self, entry: SegmentEntry) -> bool:
        """Whether a segment is one of them."""
        low, high = entry.min_time_us, entry.max_time_us
        if low is None or high is None:
            return self.scope is None
        if self.scope is not None and not (self.scope.start_us <= low and high < self.scope.end_us):
            return False
        return self.retain.reason_against(low, high, self.now_us) is None

    def chunk_of(self, entry: SegmentEntry) -> int | None:
        """Return the start of a segment's chunk; None for the chunk of all time."""
        if entry.min_time_us is None or self.chunk.is_all:
            return None
        return self.chunk.floor_one(entry.min_time_us)
