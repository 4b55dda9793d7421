"""Which texts may define a view at all, and what is refused."""

from __future__ import annotations

import re
from typing import Final

from projseg.algebra.expressions.binder_names import may_depend_on_instant
from projseg.algebra.query.select_statement import SelectStatement, parse_select
from projseg.errors import InvalidInputError, LimitExceededError, UnsupportedFeatureError
from projseg.views.view_records import VIEW_SQL_BYTES_MAX

_RANDOM: Final = re.compile(
    r"\b(rand|random|randn|uuid|shuffle|randstr|monotonically_increasing_id|input_file_name"
    r"|spark_partition_id)\s*\(",
    re.IGNORECASE,
)
_NOW: Final = re.compile(
    r"\b(now|current_\w+|curdate|localtimestamp|unix_timestamp|today)\b", re.IGNORECASE
)


def checked_statement(sql: str, *, with_joins: bool = False) -> SelectStatement:
    """Return the SELECT of a view, whose clauses may be there.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_VIEW, PROJSEG_VIEW_NOT_DETERMINISTIC, PROJSEG_BAD_SQL.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL.
    """
    checked_text(sql)
    statement = parse_select(sql, with_joins=with_joins)
    _check_clauses(statement)
    return statement


def checked_text(sql: str) -> str:
    """Return the text of a view's SELECT, if it is one and means the same each time.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_VIEW, PROJSEG_VIEW_NOT_DETERMINISTIC.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG.
    """
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


def bad_view(problem: str) -> InvalidInputError:
    """Return the error of a definition or an option that no view can have."""
    return InvalidInputError("PROJSEG_BAD_VIEW", problem)
