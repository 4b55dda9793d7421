"""Translate Druid's filter objects into Spark SQL text; read the JSON objects of a declaration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, NoReturn

import pyarrow as pa

from projseg.algebra.expressions.sql_words import quoted_text
from projseg.algebra.projection.druid_expressions import quote_column, translate_expression
from projseg.algebra.time.interval import micros_to_iso
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.errors import InvalidInputError, did_you_mean

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]+")
_COLUMN: Final = ("column", "dimension")


class DruidObject:
    """A JSON object with an owner, so that an error says where the object stands.

    Messages begin with the owner ("projection 'hourly'"); the role is as in "aggregator". Methods
    that read a field raise PROJSEG_BAD_PROJECTION if it has another type.
    """

    def __init__(self, given: Any, owner: str, role: str) -> None:
        self.owner = owner
        self.role = role
        if not isinstance(given, dict):
            self.fields: dict[str, Any] = {}
            self.refuse(f"must be a JSON object, not {given!r}")
        self.fields = given

    def refuse(self, problem: str) -> NoReturn:
        """Raise PROJSEG_BAD_PROJECTION about this object."""
        named = f" '{self.fields['name']}'" if isinstance(self.fields.get("name"), str) else ""
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"{self.owner}: {self.role}{named} {problem}"
        )

    def allow(self, *keys: str) -> None:
        """Refuse any key that is not among `keys`."""
        for key in self.fields:
            if key not in keys:
                self.refuse(f"has an unknown key '{key}'{did_you_mean(str(key), keys)}")

    def has(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return self.fields.get(key) is not None

    def value(self, key: str) -> Any:
        """Return the value, whatever its type; None if absent."""
        return self.fields.get(key)

    def text(self, key: str) -> str:
        """Return a value that must be non-empty text."""
        value = self.fields.get(key)
        if not isinstance(value, str) or not value:
            self.refuse(f"needs '{key}' as text, found {value!r}")
        return value

    def choice(self, key: str, known: Iterable[str]) -> str:
        """Return text that must be one of `known`."""
        known = tuple(known)
        value = self.text(key)
        if value not in known:
            self.refuse(
                f"has {key} '{value}', which is not known{did_you_mean(value, known)}; "
                f"known are {', '.join(known)}"
            )
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean, False if absent."""
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            self.refuse(f"needs '{key}' as true or false, found {value!r}")
        return value

    def integer(self, key: str, default: int) -> int:
        """Return an integer, `default` if absent."""
        value = self.fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(f"needs '{key}' as an integer, found {value!r}")
        return value

    def items(self, key: str) -> list[Any]:
        """Return a list, empty if absent."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.refuse(f"needs '{key}' as a list, found {value!r}")
        return list(value)


class DruidFilters:
    """Translates filters of one declaration.

    `names` has the SQL text for `__time` and virtual columns, `types` those of the names a filter
    may compare, by Druid's name.
    """

    def __init__(self, names: Mapping[str, str], types: Mapping[str, pa.DataType]) -> None:
        self.names = names
        self.types = types

    def translate(self, given: Any, owner: str) -> str:
        """Return SQL text for a filter object; error messages begin with `owner`."""
        node = DruidObject(given, owner, "filter")
        keys, translate = _KINDS[node.choice("type", _KINDS)]
        node.allow("type", *keys)
        return translate(self, node)

    def column(self, node: DruidObject) -> tuple[str, pa.DataType | None]:
        """Return the SQL text of the column that a filter reads, and its type if known."""
        name = node.text("column") if node.has("column") else node.text("dimension")
        return quote_column(name, self.names), self.types.get(name)

    def nested(self, node: DruidObject, joiner: str) -> str:
        """Return the filters in `fields`, joined by AND or OR."""
        fields = node.items("fields")
        if not fields:
            node.refuse("fields must name at least one filter")
        return "(" + f" {joiner} ".join(self.translate(f, node.owner) for f in fields) + ")"


def sql_literal(value: object, arrow_type: pa.DataType | None, owner: str) -> str:
    """Return SQL text for a JSON value that is compared with a column of `arrow_type`."""
    if value is None:
        return "NULL"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if arrow_type is None:
        return quoted_text(text)
    for is_kind, write in _LITERALS:
        if is_kind(arrow_type):
            return write(text, owner)
    raise InvalidInputError(
        "PROJSEG_BAD_PROJECTION", f"{owner}: value '{text}' cannot be compared with {arrow_type}"
    )


def _boolean(text: str, owner: str) -> str:
    if text.lower() not in ("true", "false"):
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"{owner}: filter value '{text}' is neither true nor false"
        )
    return text.lower()


def _timestamp(text: str, owner: str) -> str:
    """Return the SQL of milliseconds since 1970, as Druid counts, or of ISO 8601 text."""
    if not _WHOLE_NUMBER.fullmatch(text):
        return f"TIMESTAMP {quoted_text(text)}"
    micros = int(Decimal(text)) * 1000
    if not MIN_MICROS <= micros < MAX_MICROS:
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"{owner}: filter value '{text}' leaves years 1 to 9999"
        )
    return f"TIMESTAMP '{micros_to_iso(micros)}'"


def _number(text: str, owner: str) -> str:
    try:
        float(text)
    except ValueError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"{owner}: filter value '{text}' is not a number"
        ) from error
    return text


def _equality(filters: DruidFilters, node: DruidObject, key: str) -> str:
    column, arrow_type = filters.column(node)
    value = node.value(key)
    if value is None:
        return f"({column} IS NULL)"
    return f"({column} = {sql_literal(value, arrow_type, node.owner)})"


def _membership(filters: DruidFilters, node: DruidObject, key: str) -> str:
    column, arrow_type = filters.column(node)
    values = node.items(key)
    literals = [sql_literal(v, arrow_type, node.owner) for v in values if v is not None]
    parts = [f"{column} IN ({', '.join(literals)})"] if literals else []
    parts += [f"{column} IS NULL"] if None in values else []
    return "(" + (" OR ".join(parts) or "FALSE") + ")"


def _range(
    filters: DruidFilters, node: DruidObject, lower_open: str, upper_open: str
) -> tuple[str, list[str]]:
    column, arrow_type = filters.column(node)
    parts = []
    for key, strict_key, sign in (("lower", lower_open, ">"), ("upper", upper_open, "<")):
        if (value := node.value(key)) is not None:
            operator = sign if node.flag(strict_key) else f"{sign}="
            parts.append(f"{column} {operator} {sql_literal(value, arrow_type, node.owner)}")
    if not parts:
        node.refuse("needs lower or upper")
    return column, parts


def _bound(filters: DruidFilters, node: DruidObject) -> str:
    column, parts = _range(filters, node, "lowerStrict", "upperStrict")
    arrow_type = filters.column(node)[1]
    ordering = node.value("ordering") or "lexicographic"
    wanted = "lexicographic" if arrow_type is None or pa.types.is_string(arrow_type) else "numeric"
    if ordering != wanted:
        node.refuse(f"orders {column} as {ordering}; the column is compared as {wanted}")
    only_upper = node.value("lower") is None
    # Druid's bound, unlike its range, lets null through where there is no lower bound.
    return f"({' AND '.join(parts)}{f' OR {column} IS NULL' if only_upper else ''})"


def _like(filters: DruidFilters, node: DruidObject) -> str:
    column, _ = filters.column(node)
    escape = node.value("escape")
    suffix = f" ESCAPE {quoted_text(str(escape))}" if escape else ""
    return f"({column} LIKE {quoted_text(node.text('pattern'))}{suffix})"


_LITERALS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[str, str], str]], ...]] = (
    (pa.types.is_string, lambda text, owner: quoted_text(text)),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _number),
    (pa.types.is_decimal, _number),
    (pa.types.is_floating, lambda text, owner: f"CAST('{_number(text, owner)}' AS DOUBLE)"),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, lambda text, owner: f"DATE {quoted_text(text)}"),
)
_KINDS: Final[dict[str, tuple[tuple[str, ...], Callable[[DruidFilters, DruidObject], str]]]] = {
    "selector": ((*_COLUMN, "value"), lambda f, n: _equality(f, n, "value")),
    "equals": (
        (*_COLUMN, "matchValueType", "matchValue"),
        lambda f, n: _equality(f, n, "matchValue"),
    ),
    "in": ((*_COLUMN, "values"), lambda f, n: _membership(f, n, "values")),
    "inType": (
        (*_COLUMN, "matchValueType", "values", "sortedValues"),
        lambda f, n: _membership(f, n, "sortedValues" if n.has("sortedValues") else "values"),
    ),
    "range": (
        (*_COLUMN, "matchValueType", "lower", "upper", "lowerOpen", "upperOpen"),
        lambda f, n: "(" + " AND ".join(_range(f, n, "lowerOpen", "upperOpen")[1]) + ")",
    ),
    "bound": (
        (*_COLUMN, "lower", "upper", "lowerStrict", "upperStrict", "ordering"),
        _bound,
    ),
    "like": ((*_COLUMN, "pattern", "escape"), _like),
    "null": (_COLUMN, lambda f, n: f"({f.column(n)[0]} IS NULL)"),
    "and": (("fields",), lambda f, n: f.nested(n, "AND")),
    "or": (("fields",), lambda f, n: f.nested(n, "OR")),
    "not": (("field",), lambda f, n: f"(NOT {f.translate(n.value('field'), n.owner)})"),
    "expression": (
        ("expression",),
        lambda f, n: "(" + translate_expression(n.text("expression"), f.names) + ")",
    ),
    "true": ((), lambda f, n: "TRUE"),
    "false": ((), lambda f, n: "FALSE"),
}
