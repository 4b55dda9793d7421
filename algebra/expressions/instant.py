"""The instant that now() and current_date mean: one for all texts of a query.

It is fixed before they are bound, so their values are constants. A text that is bound outside a
query, such as a projection's, has no instant: what it means would change from day to day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar, cast

import pyarrow as pa

from projseg.algebra.expressions.binding.binder_names import ColumnScope
from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.parameters.sql_parameters import has_parameters
from projseg.algebra.expressions.patterns import accepts_all_patterns
from projseg.algebra.expressions.tree import Expression, Literal
from projseg.errors import UnsupportedFeatureError
from projseg.segment_format.layout.logical_types import TIMESTAMP, TIMESTAMP_NTZ

_TYPES: Final = {
    "now": TIMESTAMP,
    "current_timestamp": TIMESTAMP,
    "localtimestamp": TIMESTAMP_NTZ,
    "current_date": pa.date32(),
    "curdate": pa.date32(),
}
NAMES: Final = frozenset(_TYPES)
"""Functions without arguments that depend on the instant."""
BARE_NAMES: Final = NAMES - {"now", "curdate"}
"""Those that may be written without brackets, where no column has the name."""

Function = TypeVar("Function", bound=Callable[..., Any])
_TEXTS_KEPT: Final = 8192
_MENTIONED: Final = re.compile(rf"\b({'|'.join(sorted(NAMES))})\b", re.IGNORECASE)
_instant: ContextVar[datetime | None] = ContextVar("instant", default=None)


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


def kept_by_text(function: Function) -> Function:
    """Keep what a function of a text over a schema returns, unless it may mean another later.

    It may if it calls `now()`, has parameters, has patterns that only stored projections have, or
    reads a table that is stated around the binding.
    """

    @lru_cache(maxsize=_TEXTS_KEPT)
    def kept(text: str, scope: ColumnScope, /, *others: Any, **named: Any) -> Any:
        return function(text, scope.schema, *others, **named)

    @wraps(function)
    def found(text: str, schema: pa.Schema, *others: Any, **named: Any) -> Any:
        varies = may_depend_on_instant(text) or has_parameters(text) or accepts_all_patterns()
        if varies or "join_" in text:
            return function(text, schema, *others, **named)
        return kept(text, ColumnScope.of(schema), *others, **named)

    return cast("Function", found)


def instant_value(function: str, zone: str) -> Expression:
    """Return the value that one of `NAMES` has at the fixed instant, not yet canonical.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION if no instant is fixed.
    """
    instant = _instant.get()
    if instant is None:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"{function} has no fixed value here; it is for queries, whose answer is of one "
            "instant. Write a constant, such as DATE '2015-09-12'",
        )
    return cast_to(Literal(TIMESTAMP, instant), _TYPES[function], zone)
