"""What names mean to the binder: columns, fields, lengths of time, now() and current_date.

The instant of now() and current_date is one for all texts of a query. It is fixed before they are
bound, so their values are constants. A text that is bound outside a query, such as a projection's,
has no instant: what it means would change from day to day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.dialect import ParsedText
from projseg.algebra.expressions.patterns import accepts_all_patterns
from projseg.algebra.expressions.sql_parameters import argument_of, bad_arguments, has_parameters
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.time.duration import Span, parse_interval, parse_interval_range
from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, type_name

_SCOPES_KEPT: Final = 256
_TEXTS_KEPT: Final = 8192
_NAMES_LISTED: Final = 12
_TYPES: Final = {
    "now": TIMESTAMP,
    "current_timestamp": TIMESTAMP,
    "localtimestamp": TIMESTAMP_NTZ,
    "current_date": pa.date32(),
    "curdate": pa.date32(),
}
INSTANT_NAMES: Final = frozenset(_TYPES)
"""Functions without arguments that depend on the instant."""
BARE_INSTANT_NAMES: Final = INSTANT_NAMES - {"now", "curdate"}
"""Those that may be written without brackets, where no column has the name."""

_MENTIONED: Final = re.compile(rf"\b({'|'.join(sorted(INSTANT_NAMES))})\b", re.IGNORECASE)
_INSTEAD: Final = {
    "epoch": "DATE '1970-01-01' or TIMESTAMP '1970-01-01 00:00:00Z'",
    "now": "current_timestamp() or current_date()",
    "today": "current_date()",
    "tomorrow": "current_date() + 1",
    "yesterday": "current_date() - 1",
}
_FUNCTIONS_INSTEAD: Final = {
    "strftime": "date_format(time, 'yyyy-MM-dd')",
    "to_char": "date_format(time, 'yyyy-MM-dd')",
    "strptime": "CAST(text AS timestamp)",
    "to_timestamp": "CAST(text AS timestamp)",
    "strpos": "instr(text, part)",
    "charindex": "locate(part, text[, from])",
    "list_contains": "array_contains(array, value)",
    "regexp_matches": "text RLIKE pattern",
    "epoch": "unix_seconds(time)",
}
"""Functions of other engines, and what does the same."""
_NOT_FIXED: Final = frozenset(("rand", "random", "randn", "randstr", "uuid", "shuffle", "uniform"))
_MAKES_ROWS: Final = frozenset(
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack", "unnest")
)
_TIME_OF_DAY: Final = re.compile(r"\s*T?[0-9]{1,2}:[0-9]")
_instant: ContextVar[datetime | None] = ContextVar("instant", default=None)
# Scopes by the identities of schemas, which live as long as they are here.
_by_identity: Final[dict[int, tuple[pa.Schema, ColumnScope]]] = {}

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ColumnScope:
    """The columns that names in an expression may refer to; one object for equal schemas."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._by_fold: dict[str, list[str]] = {}
        for name in schema.names:
            self._by_fold.setdefault(name_key(name), []).append(name)

    @staticmethod
    def of(schema: pa.Schema) -> ColumnScope:
        """Return the scope of a schema; others use it as the key of cached bindings.

        A schema has no hash of its own: it is that of all its columns, which may be thousands, and
        each of as many texts would compute it.
        """
        known, found = _by_identity.get(id(schema), (None, None))
        if found is None or known is not schema:
            found = _scope(schema)
            if len(_by_identity) >= _SCOPES_KEPT:
                _by_identity.clear()
            _by_identity[id(schema)] = schema, found
        return found

    def has(self, name: str) -> bool:
        """Whether a column has the name, in any case of letters."""
        return name_key(name) in self._by_fold

    def resolve(self, tree: exp.Column) -> Expression:
        """Return the column, or the field of a struct column, that a dotted name refers to.

        Raises InvalidInputError if there is no such column or field, or more than one.
        """
        parts = [part.name for part in tree.parts]
        whole = ".".join(parts)
        if len(parts) > 1 and name_key(parts[0]) not in self._by_fold and self._find(whole):
            return self._column(self._find(whole)[0])
        found = self._find(parts[0])
        if not found:
            names = self.schema.names
            near = did_you_mean(parts[0], names) or f"; columns are {_listed(names)}"
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN", f"column '{parts[0]}' is not known{near}"
            )
        if len(found) > 1:
            raise bad_expression(f"column '{parts[0]}' may be any of {', '.join(found)}")
        expression: Expression = self._column(found[0])
        for part in parts[1:]:
            expression = self.field(expression, part)
        return expression

    def field(self, expression: Expression, name: str) -> Expression:
        """Return a field of a struct value, or raise InvalidInputError if it has no such one."""
        arrow_type = expression.type
        if not pa.types.is_struct(arrow_type):
            raise bad_expression(f"'.{name}': a {type_name(arrow_type)} has no fields")
        names = [field.name for field in arrow_type]
        found = [n for n in names if n == name] or [
            n for n in names if name_key(n) == name_key(name)
        ]
        if len(found) != 1:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"{type_name(arrow_type)} has {len(found) or 'no'} fields '{name}'"
                f"{'' if found else did_you_mean(name, names)}; its fields are {_listed(names)}",
            )
        return Call(arrow_type.field(found[0]).type, "field", (expression,), (found[0],))

    def _find(self, name: str) -> list[str]:
        found = self._by_fold.get(name_key(name), [])
        return [name] if name in found else found

    def _column(self, name: str) -> Column:
        return Column(self.schema.field(name).type, name)


_scope: Final = lru_cache(maxsize=_SCOPES_KEPT)(ColumnScope)


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMES_LISTED else ""
    return ", ".join(names[:_NAMES_LISTED]) + more


def span_of(tree: exp.Expression) -> Span | None:
    """Return the interval constant that the tree is, or None if it is something else."""
    if isinstance(tree, exp.Interval):
        return _interval(tree)
    if isinstance(tree, exp.Placeholder):
        value = argument_of(str(tree.this))
        return value if isinstance(value, Span) else None
    if isinstance(tree, exp.Paren | exp.Neg):
        inner = span_of(tree.this)
        return inner.negated() if inner and isinstance(tree, exp.Neg) else inner
    if isinstance(tree, exp.Add | exp.Sub):
        left, right = span_of(tree.this), span_of(tree.expression)
        if left is not None and right is not None:
            return left.plus(right if isinstance(tree, exp.Add) else right.negated())
    return None


def _interval(tree: exp.Interval) -> Span:
    is_negative = isinstance(tree.this, exp.Neg)
    number = tree.this.this if is_negative else tree.this
    text = "" if number is None else _count(number)
    if is_negative:
        text = f"-{text}"
    unit = tree.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return parse_interval_range(text, unit.this.name, unit.expression.name)
    return parse_interval(f"{text} {unit.name}" if unit is not None else text)


def _count(tree: exp.Expression) -> str:
    if not isinstance(tree, exp.Placeholder):
        return tree.name
    value = argument_of(str(tree.this))
    written = value.value if isinstance(value, Literal) else None
    if isinstance(written, bool) or not isinstance(written, int | str | Decimal):
        raise bad_arguments(f"parameter :{tree.this} of an interval is a whole number or a text")
    return str(written)


@contextmanager
def fixed_instant(instant: datetime | None = None) -> Iterator[None]:
    """Fix the instant within the block, now unless given, if no block around it has done so."""
    token = _instant.set(_instant.get() or instant or datetime.now(UTC))
    try:
        yield
    finally:
        _instant.reset(token)


def may_depend_on_instant(text: str) -> bool:
    """Whether a text may call one of the functions, and so may mean something else later."""
    return _MENTIONED.search(text) is not None


def kept_by_text(function: _Function) -> _Function:
    """Keep what a function of a text over a schema returns, unless it may mean another later.

    It may if it calls `now()`, has parameters, has patterns that only stored projections have, or
    reads a table that is stated around the binding.
    """

    @lru_cache(maxsize=_TEXTS_KEPT)
    def cached_value(text: str, scope: ColumnScope, /, *others: Any, **named: Any) -> Any:
        return function(text, scope.schema, *others, **named)

    @wraps(function)
    def value_of(text: str, schema: pa.Schema, *others: Any, **named: Any) -> Any:
        varies = may_depend_on_instant(text) or has_parameters(text) or accepts_all_patterns()
        if varies or "join_" in text:
            return function(text, schema, *others, **named)
        if not isinstance(text, ParsedText):
            return cached_value(text, ColumnScope.of(schema), *others, **named)
        key = ParsedText(text, text.tree)
        try:
            return cached_value(key, ColumnScope.of(schema), *others, **named)
        finally:
            del key.tree  # the text alone is kept

    return cast("_Function", value_of)


def function_instead(name: str) -> str:
    """Return what to write for a function of other engines, or of what has no fixed value."""
    if name in _FUNCTIONS_INSTEAD:
        return f"; write {_FUNCTIONS_INSTEAD[name]}"
    if name in _NOT_FIXED:
        return ", because it has no fixed value"
    return ", because it makes several rows of one" if name in _MAKES_ROWS else ""


def check_time_text(text: str, wanted: pa.DataType) -> None:
    """Refuse a constant that Spark reads as an instant of its own, or as a time of the present day.

    Raises PROJSEG_UNSUPPORTED_FUNCTION.
    """
    word = text.split()[0].casefold() if text.strip() else ""
    if word not in _INSTEAD and not (wanted == TIMESTAMP and _TIME_OF_DAY.match(text)):
        return
    raise UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_FUNCTION",
        f"'{text}' as a {type_name(wanted)} is not read; write "
        f"{_INSTEAD.get(word, 'the date before the time')}",
    )


def instant_value(function: str, zone: str) -> Expression:
    """Return the value that one of `INSTANT_NAMES` has at the fixed instant, not yet canonical.

    Raises PROJSEG_UNSUPPORTED_FUNCTION if no instant is fixed.
    """
    instant = _instant.get()
    if instant is None:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"{function} has no fixed value here; it is for queries, whose answer is of one "
            "instant. Write a constant, such as DATE '2015-09-12'",
        )
    return cast_to(Literal(TIMESTAMP, instant), _TYPES[function], zone)
