"""Names, types and constants of a SELECT of DuckDB's over our tables."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.argument_texts import literal

_DIGITS_MAX: Final = 15  # of a number whose nearest double is the same in every engine
_DECIMAL_MAX: Final = 18  # digits of a decimal column that is compared
_WHOLE_BESIDE: Final = ("integer", "double")  # a whole number as a double
WHOLE: Final = re.compile(r"[0-9]{1,18}")
FRACTION: Final = re.compile(r"[0-9]*\.[0-9]*|[0-9]+\.?[0-9]*[eE][-+]?[0-9]{1,2}")
_DAY: Final = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    r"((?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)"
    r"(Z|[-+][0-9]{2}(?::[0-9]{2})?)?"
)
_FAMILIES: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "double",
    decimal.Decimal: "decimal",
    str: "text",
    datetime.date: "date",
}


class DifferentMeaningError(Exception):
    """Why a part of a statement is DuckDB's own work."""


class Written(NamedTuple):
    """An expression in our SQL; of a text between quotes, what stands between them.

    The family is integer, decimal, double, text, boolean, date, instant, wall clock, null or other.
    A constant has no type, since it takes that of what it is compared with; it is a parameter if
    the caller gives it.
    """

    text: str
    family: str
    type: pa.DataType | None = None
    is_parameter: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether it is written, or given, in the statement."""
        return self.type is None


class Session(NamedTuple):
    """What a statement's meaning depends on besides its text: values of `$name`, time zone, order.

    The usual order sorts upwards and nulls last where a statement does not say it.
    """

    arguments: Mapping[str, Any]
    is_utc: bool = True
    has_usual_order: bool = True


class Scope(NamedTuple):
    """The tables of a SELECT by their aliases in lower case; each has a name of ours.

    `shared` has the table that a column of USING is read from.
    """

    schemas: Mapping[str, pa.Schema]
    names: Mapping[str, str]
    shared: Mapping[str, str]
    session: Session

    def resolved(self, column: exp.Column) -> tuple[str, str] | None:
        """Return the table and the exact name of a column; None if it is no column of a table."""
        if column.args.get("db") or not isinstance(column.this, exp.Identifier):
            raise DifferentMeaningError(f"{column.sql('duckdb')} is no column of a table")
        table = folded(column.table)
        if table and table not in self.schemas:
            raise DifferentMeaningError(f"{column.sql('duckdb')} is of another table")
        name = folded(column.name)
        if not table and name in self.shared:
            table = self.shared[name]
        found = [
            (alias, field)
            for alias in ([table] if table else self.schemas)
            for field in self.schemas[alias].names
            if folded(field) == name
        ]
        if len(found) > 1:
            raise DifferentMeaningError(f"several columns are called {column.name}")
        return found[0] if found else None


def folded(name: str) -> str:
    """Return a name as DuckDB compares it, which ignores the case of ASCII letters."""
    return re.sub("[A-Z]+", lambda found: found[0].lower(), name)


def family_of(kind: pa.DataType) -> str:
    """Return the family of a type, within which values are compared."""
    if pa.types.is_signed_integer(kind):
        return "integer"
    if pa.types.is_timestamp(kind):
        return "wall clock" if kind.tz is None else "instant"
    for family, test in (
        ("decimal", pa.types.is_decimal128),
        ("double", pa.types.is_float64),
        ("text", pa.types.is_string),
        ("boolean", pa.types.is_boolean),
        ("date", pa.types.is_date32),
    ):
        if test(kind):
            return family
    return "other"


def different(node: exp.Expression, why: str) -> DifferentMeaningError:
    """Return why a tree is DuckDB's own work."""
    return DifferentMeaningError(f"{node.sql('duckdb')[:100]} {why}")


def only(node: exp.Expression, *names: str) -> None:
    """Raise DifferentMeaningError if a tree has other parts than those named."""
    for name, part in node.args.items():
        # A mark of sqlglot's own is True; what is written stands in lists and trees.
        if part not in (None, False, [], "") and name.rstrip("_") not in names:
            raise different(node, f"has {name.rstrip('_').replace('_', ' ')}")


# ---- constants


def coerced(value: Written, other: Written) -> str:
    """Return an expression as text, a constant in the type of what it is compared with.

    Raises DifferentMeaningError if a constant is not of that type in both engines.
    """
    if not value.is_constant or value.family == "null":
        return value.text
    kind = other.family
    pair = (value.family, kind)
    if value.is_parameter:
        is_exact = kind != "decimal" or _is_short(other)
        text = value.text if is_exact and (pair[0] == kind or pair == _WHOLE_BESIDE) else None
    elif pair == ("text", "text"):
        text = quoted(value.text)
    elif kind in ("date", "instant", "wall clock") and value.family in ("text", kind, "date"):
        text = time_text(value.text, kind)
    elif pair[0] == kind and kind in ("boolean", "integer"):
        text = value.text
    else:
        text = _number_text(value, other)
    if text is None:
        raise DifferentMeaningError(f"{value.text[:50]} is compared with {kind}")
    return text


def _number_text(value: Written, other: Written) -> str | None:
    """Return a number as a double or a decimal; None if it is none of both engines."""
    is_narrow = sum(map(str.isdigit, value.text)) <= _DIGITS_MAX
    if not is_narrow or value.family not in ("integer", "decimal", "double"):
        return None
    if other.family == "double":
        return f"{value.text}D"
    is_decimal = other.family == "decimal" and value.family != "double"
    return value.text if is_decimal and _is_short(other) else None


def _is_short(decimals: Written) -> bool:
    return decimals.type is not None and bool(decimals.type.precision <= _DECIMAL_MAX)


def quoted(text: str) -> str:
    """Return a text between quotes; DifferentMeaningError if one engine may read it otherwise."""
    if "\\" in text or not text.isprintable():
        raise DifferentMeaningError("a text has a backslash or a control character")
    return str(literal(text))


def time_text(text: str, kind: str) -> str:
    """Return a date or a time between quotes as a constant of a type."""
    found = _TIME.fullmatch(text)
    try:
        if _DAY.fullmatch(text):
            day = datetime.date.fromisoformat(text)
            moment = datetime.datetime.combine(day, datetime.time())
            if kind == "date":
                return str(literal(day))
        elif found and kind != "date":
            zone = found[3] if kind == "instant" else None
            if found[3] and kind == "wall clock":
                raise DifferentMeaningError(f"'{text}' has a zone, and the column has none")
            moment = datetime.datetime.fromisoformat(f"{found[1]}T{found[2]}{zone or ''}")
        else:
            raise DifferentMeaningError(f"'{text[:50]}' is no plain {kind}")
    except ValueError as error:
        raise DifferentMeaningError(f"'{text[:50]}' is no {kind}") from error
    if kind == "instant":
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return str(literal(moment))


def is_instant(value: Written) -> bool:
    """Whether a value means the same instant in every time zone."""
    if not value.is_constant or value.is_parameter or value.family == "null":
        return True
    found = _TIME.fullmatch(value.text)
    return found is not None and found[3] is not None


def argument_family(value: Any) -> str | None:
    """Return the family of a parameter's value; None if the engines may read it differently."""
    kind = type(value)
    if kind is datetime.datetime:
        return "wall clock" if value.tzinfo is None else "instant"
    is_kept = True
    if kind is int:
        is_kept = abs(value) < 10**_DIGITS_MAX
    elif kind is str:
        is_kept = value.isprintable()
    elif kind is decimal.Decimal:
        digits, exponent = value.as_tuple()[1:]
        is_kept = isinstance(exponent, int) and -9 < exponent <= 0 and len(digits) < 9
    return _FAMILIES.get(kind) if is_kept else None
