"""Times as text by a pattern of Java's DateTimeFormatter, as Spark's date_format reads it.

A text depends on the coarsest floor of time that shows all its letters, so that a projection that
stores this floor, or a finer one, can serve it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import ANY, TIME_PATTERN, failing_call
from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    check_text_bytes,
    integers,
    literal_of,
    valid_mask,
)
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    unordered,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.time.time_fields import first_of_month, months_since_1970
from projseg.algebra.expressions.functions.time.time_floor import (
    granularity_of,
    time_floor,
    without_implied_floor,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.segment_format.arrow_arrays import array_of, primitive_array, scalar_of
from projseg.segment_format.logical_types import TIMESTAMP

_TEXT: Final = pa.string()
_DEFAULT: Final = "yyyy-MM-dd HH:mm:ss"
_FRACTION_DIGITS_MAX: Final = 9
_Values = NDArray[np.int64]


@dataclass(frozen=True)
class _Clock:
    """What the clock shows, int64[n] microseconds, and its offset from UTC, int64[n] seconds."""

    local: _Values
    offset: _Values

    def months(self) -> _Values:
        """Return the months since 1970."""
        return months_since_1970(self.local // DAY)

    def hour(self) -> _Values:
        """Return the hour of the day."""
        return self.local // HOUR % 24


_Piece = Callable[[_Clock], pa.Array]
_Number = Callable[[_Clock], _Values]

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
)
_PERIODS: Final = ("P1Y", "P3M", "P1M", "P1D", "PT1H", "PT1M", "PT1S")
_PERIOD_OF_LETTERS: Final = dict(
    zip(("Gy", "Qq", "ML", "dDE", "HkKha", "m", "s"), _PERIODS, strict=True)
)
_PERIOD_OF: Final = {
    letter: period for letters, period in _PERIOD_OF_LETTERS.items() for letter in letters
}
"""From a letter to the coarsest floor that shows it; S and the offsets need the time itself."""


def _year(clock: _Clock) -> _Values:
    return clock.months() // 12 + 1970


def _year_of_era(clock: _Clock) -> _Values:
    """Return the year beside its era: where UTC has year 1, a clock may show year 0, 1 BC."""
    year = _year(clock)
    return np.where(year > 0, year, 1 - year)


def _years(number: _Number) -> dict[int, _Piece]:
    several = {width: _padded_years(number, width) for width in (3, 4, 5, 6)}
    return {1: _digits(number, 1), 2: _digits(lambda clock: number(clock) % 100, 2), **several}


def _padded_years(number: _Number, width: int) -> _Piece:
    """Return a piece that is a year of at least `width` digits, with a sign if it has more."""

    def write(clock: _Clock) -> pa.Array:
        year = primitive_array(number(clock))
        text = pc.utf8_lpad(year.cast(_TEXT), width, "0")
        is_longer = pc.greater_equal(year, scalar_of(10**width, pa.int64()))
        signed = pc.binary_join_element_wise("+", text, "")
        return pc.if_else(is_longer, signed, text)

    return write


def _month(clock: _Clock) -> _Values:
    return clock.months() % 12


def _quarter(clock: _Clock) -> _Values:
    return _month(clock) // 3


def _day(clock: _Clock) -> _Values:
    return clock.local // DAY - first_of_month(clock.months()) + 1


def _day_of_year(clock: _Clock) -> _Values:
    return clock.local // DAY - first_of_month(clock.months() // 12 * 12) + 1


def _digits(number: _Number, width: int) -> _Piece:
    """Return a piece that is a number of at least `width` digits."""
    return lambda clock: pc.utf8_lpad(primitive_array(number(clock)).cast(_TEXT), width, "0")


def _named(number: _Number, names: Sequence[str]) -> _Piece:
    """Return a piece that is the name with a number."""
    return lambda clock: array_of(names, _TEXT).take(primitive_array(number(clock)))


def _fraction(width: int) -> _Piece:
    """Return a piece that is the first `width` digits of the second's fraction."""

    def write(clock: _Clock) -> pa.Array:
        micros = pc.utf8_lpad(primitive_array(clock.local % SECOND).cast(_TEXT), 6, "0")
        return pc.utf8_slice_codeunits(pc.utf8_rpad(micros, width, "0"), 0, width)

    return write


def _offset(zero: str, *, colon: str = "", minutes: bool = True, seconds: bool = False) -> _Piece:
    """Return a piece that is the offset from UTC, or `zero` if all that it would show is zero.

    `colon` stands between hours, minutes and seconds; minutes are shown even if they are zero,
    seconds if they are not.
    """

    def written(offset: int) -> str:
        size = abs(offset)
        hour, minute, second = size // 3600, size // 60 % 60, size % 60 if seconds else 0
        if not (hour or minute or second):
            return zero
        text = f"{'-' if offset < 0 else '+'}{hour:02}"
        text += f"{colon}{minute:02}" if minutes or minute else ""
        return text + (f"{colon}{second:02}" if second else "")

    def write(clock: _Clock) -> pa.Array:
        offsets, positions = np.unique(clock.offset, return_inverse=True)
        texts = array_of([written(int(offset)) for offset in offsets], _TEXT)
        return texts.take(primitive_array(positions.astype(np.int64).ravel()))

    return write


def _widths(number: _Number, *widths: int) -> dict[int, _Piece]:
    return {width: _digits(number, width) for width in widths}


def _month_pieces() -> dict[int, _Piece]:
    numbers = _widths(lambda clock: _month(clock) + 1, 1, 2)
    return {**numbers, 3: _named(_month, [m[:3] for m in _MONTHS]), 4: _named(_month, _MONTHS)}


def _quarter_pieces() -> dict[int, _Piece]:
    numbers = _widths(lambda clock: _quarter(clock) + 1, 1, 2)
    texts = [f"{n} quarter" for n in ("1st", "2nd", "3rd", "4th")]
    return {**numbers, 3: _named(_quarter, ["Q1", "Q2", "Q3", "Q4"]), 4: _named(_quarter, texts)}


def _weekday_pieces() -> dict[int, _Piece]:
    def weekday(clock: _Clock) -> _Values:
        return (clock.local // DAY + 3) % 7

    short = _named(weekday, [name[:3] for name in _WEEKDAYS])
    return {1: short, 2: short, 3: short, 4: _named(weekday, _WEEKDAYS)}


def _era_pieces() -> dict[int, _Piece]:
    def is_common(clock: _Clock) -> _Values:
        return (_year(clock) > 0).astype(np.int64)

    short = _named(is_common, ["BC", "AD"])
    return {1: short, 2: short, 3: short, 4: _named(is_common, ["Before Christ", "Anno Domini"])}


_ISO_OFFSETS: Final[dict[int, dict[str, Any]]] = {
    1: {"minutes": False},
    2: {},
    3: {"colon": ":"},
    4: {"seconds": True},
    5: {"colon": ":", "seconds": True},
}
_SMALL_OFFSETS: Final = ("+00", "+0000", "+00:00", "+0000", "+00:00")

_PIECES: Final[dict[str, dict[int, _Piece]]] = {
    "G": _era_pieces(),
    "y": _years(_year),
    "Q": _quarter_pieces(),
    "q": _quarter_pieces(),
    "M": _month_pieces(),
    "L": _month_pieces(),
    "d": _widths(_day, 1, 2),
    "D": _widths(_day_of_year, 1, 2, 3),
    "E": _weekday_pieces(),
    "a": {1: _named(lambda clock: clock.hour() // 12, ["AM", "PM"])},
    "H": _widths(lambda clock: clock.hour(), 1, 2),
    "k": _widths(lambda clock: (clock.hour() + 23) % 24 + 1, 1, 2),
    "K": _widths(lambda clock: clock.hour() % 12, 1, 2),
    "h": _widths(lambda clock: (clock.hour() + 11) % 12 + 1, 1, 2),
    "m": _widths(lambda clock: clock.local // MINUTE % 60, 1, 2),
    "s": _widths(lambda clock: clock.local // SECOND % 60, 1, 2),
    "S": {width: _fraction(width) for width in range(1, _FRACTION_DIGITS_MAX + 1)},
    "X": {count: _offset("Z", **style) for count, style in _ISO_OFFSETS.items()},
    "x": {
        count: _offset(_SMALL_OFFSETS[count - 1], **style) for count, style in _ISO_OFFSETS.items()
    },
    "Z": {
        **dict.fromkeys((1, 2, 3), _offset("+0000")),
        5: _offset("Z", colon=":", seconds=True),
    },
}
"""From a letter, and how often it stands, to what it writes."""

_BESIDE_ERA: Final = {**_PIECES, "y": _years(_year_of_era)}
"""The same for patterns that show the era."""


@lru_cache(maxsize=1024)
def _parsed(pattern: str) -> tuple[tuple[str | _Piece, ...], str | None]:
    """Return what a pattern writes, piece by piece, and the floor that shows all of it."""
    pieces: list[str | _Piece] = []
    letters = set()
    runs = [*_runs(pattern)]
    written = _BESIDE_ERA if any(run[0] == "G" for run in runs) else _PIECES
    for run in runs:
        if not (run[0].isascii() and run[0].isalpha()):
            pieces.append(_literal(run, pattern))
            continue
        known = written.get(run[0], {})
        if len(run) not in known:
            what = f"{len(run)} times '{run[0]}'" if known else f"the letter '{run[0]}'"
            raise bad_expression(
                f"the pattern '{pattern}' of a time has {what}, which is not supported; letters are"
                f" {', '.join(_PIECES)}, and other text stands in single quotes"
            )
        pieces.append(known[len(run)])
        letters.add(run[0])
    if not letters <= set(_PERIOD_OF):
        return tuple(pieces), None
    finest = max((_PERIODS.index(_PERIOD_OF[letter]) for letter in letters), default=0)
    return tuple(pieces), _PERIODS[finest]


def _runs(pattern: str) -> Iterator[str]:
    """Yield runs of one letter, quoted parts with their quotes, and other characters one by one."""
    at = 0
    while at < len(pattern):
        start = at
        at += 1
        if pattern[start] == "'":
            while at < len(pattern) and (pattern[at] != "'" or pattern[at : at + 2] == "''"):
                at += 2 if pattern[at] == "'" else 1
            at += 1
            if at > len(pattern):
                raise bad_expression(f"the pattern '{pattern}' of a time has an open quote")
        elif pattern[start].isascii() and pattern[start].isalpha():
            while pattern[at : at + 1] == pattern[start]:
                at += 1
        yield pattern[start:at]


def _literal(run: str, pattern: str) -> str:
    if run in ("[", "]", "{", "}", "#"):
        raise bad_expression(f"the pattern '{pattern}' of a time has '{run}'; put it in quotes")
    if run == "''":
        return "'"
    return run[1:-1].replace("''", "'") if run[0] == "'" else run


def _build_date_format(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return _formatted(cast_to(arguments[0], TIMESTAMP, zone), arguments, "date_format", zone)


def _build_from_unixtime(arguments: tuple[Expression, ...], zone: str) -> Expression:
    seconds = cast_to(arguments[0], pa.int64(), zone)
    time = Call(TIMESTAMP, "timestamp_seconds", (seconds,))
    return _formatted(time, arguments, "from_unixtime", zone)


def _formatted(
    time: Expression, arguments: tuple[Expression, ...], function: str, zone: str
) -> Expression:
    pattern = _DEFAULT
    if len(arguments) > 1:
        pattern = str(literal_of(arguments, 1, f"the pattern of {function}"))
    _, period = _parsed(pattern)
    if period is not None:
        time = time_floor(time, replace(Granularity.parse(period, zone), by_clock=True))
    return Call(_TEXT, "date_format", (time, Literal(_TEXT, pattern)), (zone,))


def _date_format(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    micros, valid = integers(arguments[0], row_count), valid_mask(arguments[0], row_count)
    last = int(micros.max()) if row_count else 0
    local = zone_table(str(call.parameters[0]), last).to_local(micros)
    clock = _Clock(local, (local - micros) // SECOND)
    pieces, _ = _parsed(_pattern_of(call))
    texts = [
        scalar_of(piece, _TEXT) if isinstance(piece, str) else piece(clock) for piece in pieces
    ]
    sizes = [
        row_count * len(text.as_buffer()) if isinstance(text, pa.Scalar) else text.nbytes
        for text in texts
    ]
    check_text_bytes(sum(sizes), arguments, row_count)
    first = pc.if_else(primitive_array(valid), scalar_of("", _TEXT), scalar_of(None, _TEXT))
    return pc.binary_join_element_wise(
        first, *texts, scalar_of("", _TEXT), null_handling="emit_null"
    )


def _pattern_of(call: Call) -> str:
    pattern = call.arguments[1]
    assert isinstance(pattern, Literal)
    return str(pattern.value)


def _text(call: Call, write: Writer) -> str:
    """Return the text without the floor that binding it adds again."""
    time, pattern = call.arguments
    _, period = _parsed(_pattern_of(call))
    if period is not None and isinstance(time, Call) and time.function == "time_floor":
        is_same_clock = granularity_of(time).timezone == call.parameters[0]
        time = without_implied_floor(time, period) if is_same_clock else time
    return f"date_format({write(time)}, {write(pattern)})"


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "date_format": ScalarFunction(
        spellings=(
            Spelling(
                "date_format",
                _build_date_format,
                2,
                2,
                catalyst=failing_call("DateFormatClass", ANY, TIME_PATTERN),
            ),
            Spelling(
                "from_unixtime",
                _build_from_unixtime,
                1,
                2,
                catalyst=failing_call("FromUnixTime", ANY, TIME_PATTERN),
            ),
        ),
        evaluate=_date_format,
        in_blocks=NoBlocks.NO_NUMBERS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=_text,
        zone=zone_in_parameters,
    )
}
