"""The query context: options that steer how a query is run, each a field that says all of it."""

# Annotations are read at import, so they are no texts here.
import re
from collections.abc import Callable, Mapping
from threading import TIMEOUT_MAX
from typing import Annotated, Any, Final, Literal

import msgspec

from projseg.errors import InvalidInputError, did_you_mean
from projseg.memory.forks import late_import

THREADS_MAX: Final = 256  # the size of the pool that all queries of a process share
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_LENGTH: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(second|minute|hour|day)s?")


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
    with late_import:  # Spark looks for the format by the options, and zones need NumPy
        from projseg.algebra.time.time_zones import zone_name
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


class SteeringForm(msgspec.Struct, frozen=True):
    """A form of the values of steering options.

    Options of Spark, settings and the shell read it as `takes` says; `read` raises
    PROJSEG_BAD_CONTEXT_VALUE. A text matches `pattern` in lower case and without spaces around it,
    anything if that is empty; `expected` describes one that does.
    """

    takes: Literal["text", "flag", "list", "integer"]
    read: Callable[[str, object], Any]
    pattern: str = ""
    expected: str = ""


_FLAG: Final = SteeringForm("flag", _read_flag)
_NAME: Final = SteeringForm("text", _read_name)
_NAMES: Final = SteeringForm("list", _read_names)
_ZONE: Final = SteeringForm("text", _read_timezone)
_COUNT: Final = SteeringForm("integer", _read_threads)
_LIMIT: Final = SteeringForm("integer", _read_time_limit)
_AGE: Final = SteeringForm(
    "text", _read_staleness, _LENGTH.pattern, "a length of time such as '15 minutes'"
)


class Steering(msgspec.Struct, frozen=True):
    """A steering option, by its name in a context and as an option of Spark, and its doors.

    `about` says what it steers: Spark has settings, and SQL hints, of options that are about
    something, and a hint stands in place of all that a context says about the same, but for lists
    of names. `meaning` is one sentence for every door's documentation. The setting in Spark, after
    `spark.projseg.`, is the key unless `setting` says otherwise; `is_option` is about Spark's reads
    and the shell.
    """

    key: str
    form: SteeringForm
    about: str
    meaning: str
    setting: str = ""
    is_option: bool = True

    @property
    def hint(self) -> str:
        """The hint of SQL; empty: there is none."""
        has_hint = self.about and self.form.takes != "list"
        return re.sub("(?=[A-Z])", "_", self.key).upper() if has_hint else ""


class QueryContext(msgspec.Struct, frozen=True):
    """How a query is to be run; each field is a steering option."""

    use_projection: Annotated[
        str | None,
        Steering("useProjection", _NAME, "projections", "The only projection that may answer."),
    ] = None
    force_projections: Annotated[
        bool, Steering("forceProjections", _FLAG, "projections", "Base rows must not answer.")
    ] = False
    no_projections: Annotated[
        bool,
        Steering("noProjections", _FLAG, "projections", "Base rows answer; wins over other flags."),
    ] = False
    exclude_projections: Annotated[
        frozenset[str],
        Steering("excludeProjections", _NAMES, "projections", "Projections not to use."),
    ] = frozenset()
    use_view: Annotated[
        str | None, Steering("useView", _NAME, "views", "The only view that may answer groups.")
    ] = None
    force_views: Annotated[
        bool, Steering("forceViews", _FLAG, "views", "Views answer groups for all segments.")
    ] = False
    no_views: Annotated[bool, Steering("noViews", _FLAG, "views", "No view answers groups.")] = (
        False
    )
    exclude_views: Annotated[
        frozenset[str], Steering("excludeViews", _NAMES, "views", "Views that must not answer.")
    ] = frozenset()
    max_staleness: Annotated[
        float | None,
        Steering(
            "maxStaleness",
            _AGE,
            "staleness",
            "How old groups may be, `15 minutes`, if a view answers; now if left out.",
            setting="views.maxStaleness",
        ),
    ] = None
    no_indexes: Annotated[
        bool, Steering("noIndexes", _FLAG, "indexes", "Leave out no segment by an index.")
    ] = False
    exclude_indexes: Annotated[
        frozenset[str],
        Steering("excludeIndexes", _NAMES, "indexes", "Indexes that must not be asked."),
    ] = frozenset()
    timezone: Annotated[
        str | None,
        Steering(
            "timezone",
            _ZONE,
            "",
            "Zone of time functions and of times without one; if left out, the session's or UTC.",
        ),
    ] = None
    threads: Annotated[
        int | None,
        Steering(
            "threads",
            _COUNT,
            "",
            "Threads of a query, or of one task; one a processor if left out.",
        ),
    ] = None
    time_limit: Annotated[
        float | None,
        Steering(
            "timeLimit",
            _LIMIT,
            "",
            "Seconds in which an answer must be there, of a row scan its last batch.",
            is_option=False,
        ),
    ] = None

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


STEERING: Final[dict[str, Steering]] = {
    name: annotation.__metadata__[0] for name, annotation in QueryContext.__annotations__.items()
}
"""By the names of a context's fields."""
HINTS: Final = {one.hint: one for one in STEERING.values() if one.hint}
_FIELDS: Final = {one.key: name for name, one in STEERING.items()}
_KEYS: Final = {key.casefold(): key for key in _FIELDS}
_DEFAULTS: Final = QueryContext()


def steering_about(subject: str) -> frozenset[str]:
    """Return the keys that contradict each other, as they steer the same."""
    return frozenset(one.key for one in HINTS.values() if one.about == subject)


def parse_context(options: Mapping[str, Any] | QueryContext | None) -> QueryContext:
    """Read a query context from options such as `{"forceProjections": "true"}`.

    Keys are case-insensitive; values may be text.
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
                f"'{given}' is not a query context key{did_you_mean(str(given), _FIELDS)}; "
                f"known are {', '.join(_FIELDS)}",
            )
        name = _FIELDS[key]
        if value is not None:
            fields[name] = STEERING[name].form.read(key, value)
    return QueryContext(**fields)


def context_options(context: QueryContext) -> dict[str, Any]:
    """Return the options that `parse_context` reads as this context, without defaults."""
    options = {}
    for key, name in _FIELDS.items():
        value = getattr(context, name)
        if value != getattr(_DEFAULTS, name):
            options[key] = sorted(value) if isinstance(value, frozenset) else value
    return options
