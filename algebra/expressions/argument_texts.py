"""Arguments as JSON, as texts with a type, and as SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from projseg.algebra.expressions.argument_values import (
    ArgumentValue,
    argument_value,
    bad_value,
)
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_parameters import Arguments, bad_arguments
from projseg.algebra.expressions.sql_words import parse_type
from projseg.algebra.expressions.tree import Literal, integer_literal
from projseg.algebra.time.duration import Span, parse_interval
from projseg.errors import ProjsegError
from projseg.segment_format.logical_types import type_name

_INTERVAL = "interval"


def literal(value: Any) -> str:
    r"""Return a value as SQL text that means exactly this value, for texts that take no `args`.

    Parameters
    ----------
    value : object
        As in `args`. The values of a list are separated by commas, as `IN (...)` takes them.

    Returns
    -------
    str
        Spark SQL, such as `'it\'s'` and `TIMESTAMP '2024-05-01 00:00:00Z'`.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT if no constant is this value, or a list is empty.
    """
    found = argument_value("value", value)
    if isinstance(found, Span):
        return f"INTERVAL '{found.text}'"
    if isinstance(found, Literal):
        return to_sql(found)
    if not found:
        raise bad_value("value", "is an empty list, which SQL has no text for; give args")
    return ", ".join(map(to_sql, found))


def _typed_value(name: str, type_text: str, text: str, zone: str = "UTC") -> ArgumentValue:
    """Return the value that a text is when it is cast to a type."""
    argument_value(name, text)  # refuses what is no text
    try:
        if type_text == _INTERVAL:
            return parse_interval(text)
        wanted = parse_type(type_text)
        if wanted == pa.binary():
            return Literal(wanted, bytes.fromhex(text))
        found = canonical(cast_to(Literal(pa.string(), text), wanted, zone))
    except ValueError as error:
        raise bad_value(name, "is binary and not in hexadecimal digits") from error
    except ProjsegError as error:
        raise bad_value(name, f"is no {type_text}: {error.message}") from error
    if not isinstance(found, Literal):
        raise bad_value(name, f"is {text!r}, which is no {type_name(wanted)}")
    return found


def arguments_of_texts(texts: Iterable[str], zone: str = "UTC") -> Arguments | None:
    """Return the arguments of texts such as `country=ES` and `since:date=2024-05-01`.

    A text is `name=value`, a string, or `name:type=value`, as in `_typed_value`; a name that comes
    several times is a list. Timestamps without a zone are in `zone`. Raises InvalidInputError
    (PROJSEG_BAD_ARGUMENT).
    """
    found: dict[str, list[ArgumentValue]] = {}
    for text in texts:
        named, equals, value = text.partition("=")
        name, _, kind = named.partition(":")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise bad_arguments(
                f"argument '{named}' is not written name=value or name:type=value, such as "
                "since:date=2024-05-01"
            )
        found.setdefault(name, []).append(_typed_value(name, kind.strip() or "string", value, zone))
    if not found:
        return None
    for name, values in found.items():
        if len(values) > 1 and not all(isinstance(one, Literal) for one in values):
            raise bad_value(name, "is an interval, and given several times")
    # Of several values each is a constant, as was checked.
    listed: dict[str, Any] = {
        name: values[0] if len(values) == 1 else tuple(values) for name, values in found.items()
    }
    return Arguments(listed)


def arguments_to_json(arguments: Arguments) -> Any:
    """Return arguments as JSON's values: an object by name, or an array."""
    values = {name: _to_json(value) for name, value in arguments.values.items()}
    is_whole = list(values) == [str(place + 1) for place in range(len(values))]
    return list(values.values()) if arguments.is_sequence and is_whole else values


def arguments_from_json(content: Any) -> Arguments:
    """Return the arguments that `arguments_to_json` wrote, or raise PROJSEG_BAD_ARGUMENT."""
    is_sequence = isinstance(content, list)
    given = dict(enumerate(content, start=1)) if is_sequence else content
    values = {str(name): _from_json(str(name), one) for name, one in given.items()}
    is_numbered = bool(values) and all(name.isdecimal() for name in values)
    return Arguments(values, is_sequence or is_numbered)


def _to_json(value: ArgumentValue) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Span):
        return {"type": _INTERVAL, "value": value.text}
    plain, kind = value.value, value.type
    if kind == pa.null() or (plain is not None and kind in (pa.bool_(), pa.string())):
        return plain
    if isinstance(plain, int) and integer_literal(plain) == value:
        return plain
    if isinstance(plain, float) and kind == pa.float64() and math.isfinite(plain):
        return plain
    return {"type": type_name(kind), "value": None if plain is None else _text(plain)}


def _text(plain: Any) -> str:
    if isinstance(plain, bytes):
        return plain.hex()
    if isinstance(plain, float):
        return repr(plain)
    return plain.isoformat() if hasattr(plain, "isoformat") else str(plain)


def _from_json(name: str, content: Any) -> ArgumentValue:
    if isinstance(content, list):
        items = tuple(_from_json(name, item) for item in content)
        if not all(isinstance(item, Literal) for item in items):
            raise bad_value(name, "has a list or an interval in a list")
        return items  # type: ignore[return-value]  # of constants, as was checked
    if not isinstance(content, Mapping):
        return argument_value(name, content)
    kind, text = content.get("type"), content.get("value")
    if content.keys() != {"type", "value"} or not isinstance(kind, str):
        raise bad_value(name, 'is an object; it is written {"type": "date", "value": "2024-05-01"}')
    if text is None:
        return _typed_null(name, kind)
    if not isinstance(text, str):
        raise bad_value(name, f"is of type {kind}, and its value is no text")
    return _typed_value(name, kind, text)


def _typed_null(name: str, kind: str) -> Literal:
    try:
        return Literal(parse_type(kind), None)
    except ProjsegError as error:
        raise bad_value(name, f"is no {kind}: {error.message}") from error
