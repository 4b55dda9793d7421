"""The query context: flags that steer how a query is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from threading import TIMEOUT_MAX
from typing import Any, Final

import msgspec

from projseg.algebra.time.time_zones import zone_name
from projseg.errors import InvalidInputError, did_you_mean

THREADS_MAX: Final = 256  # the size of the pool that all queries of a process share


class QueryContext(msgspec.Struct, frozen=True):
    """How a query is to be run.

    Parameters
    ----------
    use_projection : str or None
        The only projection that may serve; the query fails if it cannot.
    force_projections : bool
        Whether the query fails where no projection can serve.
    no_projections : bool
        Whether only base rows may serve; this flag wins over the others.
    exclude_projections : frozenset of str
        Names that must not serve.
    use_view : str or None
        The only view that may serve; the query fails if it cannot.
    force_views : bool
        Whether the query fails where a view does not stand for every segment.
    no_views : bool
        Whether no view may serve; so it is without projections, or with one that is named.
    exclude_views : frozenset of str
        Names of views that must not serve.
    max_staleness : float or None
        Seconds by which the answer may be old, where a view answers then; None: not at all.
    no_indexes : bool
        Whether no declared index may leave out segments.
    exclude_indexes : frozenset of str
        Names of indexes that must not, in any case.
    timezone : str or None
        The session time zone of time functions; None: UTC.
    threads : int or None
        How many threads may work on the query, at most THREADS_MAX; None: the reader decides.
    time_limit : float or None
        Seconds in which the query must be answered, of a row scan until its last batch is taken;
        None: any time.
    """

    use_projection: str | None = None
    force_projections: bool = False
    no_projections: bool = False
    exclude_projections: frozenset[str] = frozenset()
    use_view: str | None = None
    force_views: bool = False
    no_views: bool = False
    exclude_views: frozenset[str] = frozenset()
    max_staleness: float | None = None
    no_indexes: bool = False
    exclude_indexes: frozenset[str] = frozenset()
    timezone: str | None = None
    threads: int | None = None
    time_limit: float | None = None

    @property
    def zone(self) -> str:
        """The time zone of time functions, UTC if none was named."""
        return self.timezone or "UTC"

    @property
    def allows_views(self) -> bool:
        """Whether a view may serve."""
        return not (self.no_views or self.no_projections or self.use_projection is not None)

    @property
    def uses_postings(self) -> bool:
        """Whether postings may say which values hold a word; as for all or none."""
        return not (self.no_indexes or self.exclude_indexes)

    @property
    def is_forced(self) -> bool:
        """Whether base rows may not serve."""
        return not self.no_projections and (
            self.force_projections or self.use_projection is not None
        )


_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_LENGTH: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(second|minute|hour|day)s?")


def parse_context(options: Mapping[str, Any] | QueryContext | None) -> QueryContext:
    """Read a query context from options such as `{"forceProjections": "true"}`.

    Keys are case-insensitive; values may be text.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_CONTEXT_KEY or PROJSEG_BAD_CONTEXT_VALUE.
    """
    if isinstance(options, QueryContext):
        return options
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            "PROJSEG_BAD_CONTEXT_VALUE", f"a query's context is {options!r}; it is a mapping"
        )
    fields: dict[str, Any] = {}
    for given, value in (options or {}).items():
        key = _KEYS.get(str(given).casefold())
        if key is None:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_CONTEXT_KEY",
                f"'{given}' is not a query context key{did_you_mean(str(given), _READERS)}; "
                f"known are {', '.join(_READERS)}",
            )
        field_name, read = _READERS[key]
        if value is not None:
            fields[field_name] = read(key, value)
    return QueryContext(**fields)


def context_options(context: QueryContext) -> dict[str, Any]:
    """Return the options that `parse_context` reads as this context, without defaults."""
    options = {}
    for key, (name, _) in _READERS.items():
        value = getattr(context, name)
        if value != getattr(_DEFAULTS, name):
            options[key] = sorted(value) if isinstance(value, frozenset) else value
    return options


def _refuse(key: str, value: object, expected: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_CONTEXT_VALUE", f"context key {key} is {value!r}; it takes {expected}"
    )


def _read_flag(key: str, value: object) -> bool:
    text = str(value).strip().casefold()
    if text not in ("true", "false"):
        raise _refuse(key, value, "true or false")
    return text == "true"


def _read_name(key: str, value: object) -> str | None:
    if not isinstance(value, str):
        raise _refuse(key, value, "the name of a projection or view")
    return value.strip() or None


def _read_names(key: str, value: object) -> frozenset[str]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple | set | frozenset) or not all(
        isinstance(name, str) for name in names
    ):
        raise _refuse(key, value, "names, comma-separated or as a list")
    return frozenset(name.strip() for name in names if name.strip())


def _read_timezone(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refuse(key, value, "a time zone's name, such as 'Europe/Madrid'")
    return zone_name(value)


def _read_threads(key: str, value: object) -> int:
    try:
        count = int(str(value))
    except ValueError as error:
        raise _refuse(key, value, f"a count of threads from 1 to {THREADS_MAX}") from error
    if not 1 <= count <= THREADS_MAX:
        raise _refuse(key, value, f"a count of threads from 1 to {THREADS_MAX}")
    return count


def _read_staleness(key: str, value: object) -> float | None:
    if isinstance(value, float | int) and not isinstance(value, bool):
        found, unit = re.fullmatch(r"(\d+(?:\.\d*)?)", str(value)), "second"
    else:
        found = _LENGTH.fullmatch(str(value).strip().casefold())
        unit = "" if found is None else found[2]
    seconds = None if found is None else float(found[1]) * _SECONDS[unit]
    if seconds is None or seconds > TIMEOUT_MAX:
        raise _refuse(key, value, "a length of time such as '15 minutes'")
    return seconds or None


def _read_time_limit(key: str, value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError as error:
        raise _refuse(key, value, "seconds above 0") from error
    if isinstance(value, bool) or not 0 < seconds <= TIMEOUT_MAX:
        raise _refuse(key, value, f"seconds above 0, at most {TIMEOUT_MAX:.0f}")
    return seconds


_READERS: Final[dict[str, tuple[str, Callable[[str, object], Any]]]] = {
    "useProjection": ("use_projection", _read_name),
    "forceProjections": ("force_projections", _read_flag),
    "noProjections": ("no_projections", _read_flag),
    "excludeProjections": ("exclude_projections", _read_names),
    "useView": ("use_view", _read_name),
    "forceViews": ("force_views", _read_flag),
    "noViews": ("no_views", _read_flag),
    "excludeViews": ("exclude_views", _read_names),
    "maxStaleness": ("max_staleness", _read_staleness),
    "noIndexes": ("no_indexes", _read_flag),
    "excludeIndexes": ("exclude_indexes", _read_names),
    "timezone": ("timezone", _read_timezone),
    "threads": ("threads", _read_threads),
    "timeLimit": ("time_limit", _read_time_limit),
}
_KEYS: Final = {key.casefold(): key for key in _READERS}
_DEFAULTS: Final = QueryContext()
