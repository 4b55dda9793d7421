"""Values that break out of SQL texts that are glued together, and those at the edges of types."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from itertools import product
from uuid import UUID

import numpy as np
import pyarrow as pa

_MARKS = (
    "'",
    "''",
    "\\",
    "\\'",
    "\\\\'",
    '"',
    "`",
    "\0",
    "--",
    "/*",
    "*/",
    ";",
    "\n",
    "\r\n",
    "\t",
)
_TAILS = ("", " OR true -- ", " OR 1 = 1 /*", ") OR (true", "\\")
_NAMES = (":name", "?", ":1", ":x", "a ? b", "@x", "$x", "{x}", "{{x}}", "%s", "%(x)s", "#", "~")
_ODD = (
    "",
    " ",
    "NULL",
    "true",
    "TRUE",
    "NaN",
    "2024-05-01",
    "1 day",
    "X'41'",
    "\\u0041",
    "\\0",
    "\\n",
    "\\%",
    "\\_",
    "%",
    "_",
    "é",
    "é",
    "ß",
    "İ",
    "\u200b",
    "\ufeff",
    "\U0001f600",
    "\U0010ffff",
    "\ud7ff",
    "￿",
    "x" * 70_000,
    "'" * 5_000,
    "\\" * 5_001,
    "((((((",
    "DROP TABLE t",
    "in_zone('UTC', 1)",
)

TEXTS = tuple(
    dict.fromkeys(
        [mark + tail for mark, tail in product(_MARKS, _TAILS)]
        + ["a" + mark for mark in _MARKS]
        + [*_NAMES, *_ODD]
    )
)
"""Texts of which each is a value of a column."""

LONE_SURROGATES = ("\ud800", "\udfff", "a\ud83d", "\ude00\ud83d")


class _Kind(Enum):
    ONE = 1


class Text(StrEnum):
    """Texts with names."""

    QUOTE = "'"


class Number(IntEnum):
    """Numbers with names."""

    SEVEN = 7


BY_TYPE = {
    pa.bool_(): (True, False),
    pa.int32(): (0, 7, -7, 2**31 - 1, -(2**31)),
    pa.int64(): (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)),
    pa.float64(): (
        0.0,
        -0.0,
        1.5,
        0.1,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        -math.inf,
        math.inf,
        math.nan,
    ),
    pa.decimal128(38, 18): (
        Decimal("0"),
        Decimal("-0.000000000000000001"),
        Decimal("99999999999999999999.999999999999999999"),
        Decimal("1E+19"),
        Decimal("1.10"),
    ),
    pa.decimal128(38, 0): (Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal("1E+30")),
    pa.date32(): (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)),
    pa.timestamp("us", "UTC"): (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2024, 5, 1, 2, tzinfo=timezone(timedelta(hours=14))),
        datetime(2024, 5, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-11, minutes=-30))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ),
    pa.timestamp("us"): (
        datetime(1, 1, 1),
        datetime(2024, 5, 1, 2, 3, 4, 5),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ),
    pa.binary(): (b"", b"'", b"\\' OR true -- ", b"\0\xff", bytes(range(256))),
    pa.string(): TEXTS,
}
"""Values by the type of the column that holds each of them."""

FORMS = (
    (Text.QUOTE, "'"),
    (np.str_("' OR true -- "), "' OR true -- "),
    (pa.scalar(":x"), ":x"),
    (pa.scalar("?", pa.large_string()), "?"),
    (pa.scalar("/*").cast(pa.dictionary(pa.int8(), pa.string())), "/*"),
    (Number.SEVEN, 7),
    (np.int8(7), 7),
    (np.uint16(7), 7),
    (np.int64(7), 7),
    (np.uint64(7), 7),
    (np.float32(1.5), 1.5),
    (np.float16(1.5), 1.5),
    (np.float64(0.1), 0.1),
    (np.bool_(True), True),
    (np.datetime64("1970-01-01"), date(1970, 1, 1)),
    (np.datetime64("2024-05-01T02:03:04.000005"), datetime(2024, 5, 1, 2, 3, 4, 5)),
    (np.datetime64("2024-05-01T02:03:04.000005000", "ns"), datetime(2024, 5, 1, 2, 3, 4, 5)),
    (np.bytes_(b"'"), b"'"),
    (bytearray(b"\0\xff"), b"\0\xff"),
    (memoryview(b"\0\xff"), b"\0\xff"),
    (pa.scalar(7, pa.int16()), 7),
    (pa.scalar(Decimal("1.10")), Decimal("1.10")),
    (pa.scalar(Decimal("1.10"), pa.decimal256(50, 2)), Decimal("1.10")),
    (pa.scalar(date(1970, 1, 1)), date(1970, 1, 1)),
    (pa.scalar(date(1970, 1, 1), pa.date64()), date(1970, 1, 1)),
)
"""Values in other forms than Python's own, and the equal value of a column."""

REFUSED = (
    *LONE_SURROGATES,
    10**38,
    -(10**5000),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1E+38"),
    Decimal("1E-39"),
    Decimal("1E+999999"),
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    datetime(9999, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-1))),
    timedelta.max,
    np.datetime64("2024-05-01T02:03:04.000005001", "ns"),
    np.datetime64("20000-01-01"),
    np.timedelta64(1, "ns"),
    np.timedelta64(1, "Y"),
    np.longdouble(1) if np.dtype(np.longdouble).itemsize > 8 else object(),
    np.complex128(1),
    np.void(b"a"),
    pa.scalar({"a": 1}),
    pa.scalar([[1]]),
    pa.scalar(1, pa.time64("ns")),
    pa.scalar(10**14, pa.timestamp("s")),
    [[1]],
    [1, timedelta(1)],
    {"a": 1},
    [object()],
    np.zeros((2, 2)),
    range(100_001),
    object(),
    _Kind.ONE,
    1j,
    int,
    Exception("x"),
)
"""Values that no constant is, in a list or alone."""

UUIDS = (UUID(int=0), UUID("12345678-1234-5678-1234-567812345678"))
LISTS = (
    [],
    (),
    set(),
    ["'", "\\' OR true -- ", ":x"],
    ("?", None),
    {None},
    [None, "a\0", "--"],
    np.array(["'", "/*"]),
    pa.array(["'", None, ";"]),
    pa.chunked_array([["'"], [";"]]),
    pa.array(["'", ";"]).dictionary_encode(),
    pa.scalar(["'", ";"]),
    frozenset(TEXTS),
)
"""Lists of texts."""
