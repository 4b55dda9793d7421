"""`sql`: one SELECT over several tables, in Spark's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.expressions.sql_parameters import ArgumentsLike, refuse_arguments
from projseg.algebra.query.context import parse_context
from projseg.algebra.query.select_names import warn_of_names
from projseg.algebra.query.select_statement import parse_asked
from projseg.algebra.query.statement_words import explained_select, is_described, is_select
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.memory.deadline import answered_within
from projseg.memory.door import through
from projseg.table.sql_statements import BoundSelect, described, described_table, table_named
from projseg.table.star_statements import bound_statement
from projseg.table.table_version import TableVersion, readers_by_name
from projseg.table.version_reader import VersionReader

if TYPE_CHECKING:
    import pyarrow as pa

    from projseg.explain import Explain


@overload
def sql(
    text: str,
    tables: Mapping[str, TableVersion],
    *,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    explain: Literal[False] = False,
) -> pa.Table: ...


@overload
def sql(
    text: str,
    tables: Mapping[str, TableVersion],
    *,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    explain: Literal[True],
) -> Explain: ...


def sql(
    text: str,
    tables: Mapping[str, TableVersion],
    *,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    explain: bool = False,
) -> pa.Table | Explain:
    """Return the rows of one SELECT over a table, or over a star of several.

    One table is the fact: each of its rows is joined with at most one row of every other, by equal
    keys. projseg verifies from the rows that each key has only one row. So the fact's projections
    can answer queries that group or filter by a dimension's columns, if the projections are grouped
    by the dimension's key.

    Parameters
    ----------
    text : str
        `SELECT ... FROM edits JOIN places d ON country = d.code ...`: INNER, LEFT, RIGHT, LEFT SEMI
        and LEFT ANTI JOIN, with ON or USING; commas, with the equalities in WHERE; and `x IN
        (SELECT y FROM d)`. Or EXPLAIN, DESCRIBE and SHOW as in `Table.sql`, for the table that the
        statement names.
    tables : mapping of str to Table
        The tables by their names in FROM. Each is read at its object's version; VERSION AS OF and
        TIMESTAMP AS OF read another version.
    context : mapping or None
        As in `Table.query`.
    args : mapping of str to value, sequence of values, or None
        As in `Table.query`.
    explain : bool
        Return how the statement is answered, instead of its rows.

    Returns
    -------
    pa.Table or Explain
        The outputs in the order of the select list, with the names that Spark gives them.

    Raises
    ------
    InvalidInputError
        PROJSEG_JOIN_KEY_NOT_UNIQUE, with one value, if a row may match several of a dimension;
        PROJSEG_BAD_SQL, and what `Table.sql` raises.
    UnsupportedFeatureError
        PROJSEG_NOT_A_STAR for other joins: joins by inequalities, joins by keys that are
        floating-point or may not be convertible to one type, and joins of many rows with many rows;
        PROJSEG_UNSUPPORTED_SQL.
    LimitExceededError
        PROJSEG_JOIN_TOO_LARGE if a dimension has more rows than a join takes.
    ProjsegError
        What `Table.query` raises.
    """
    limit = answered_within(parse_context(context).time_limit)
    with fixed_instant(), limit, through("sql"):
        if isinstance(text, str) and is_described(text):
            return _described(text, readers_by_name(tables), context, args)
        if not is_select(text):
            raise bad_sql(
                "a statement over tables is a SELECT, EXPLAIN, DESCRIBE or SHOW, found "
                f"{text!r:.80}"
            )
        selected = _selected(text, readers_by_name(tables), context, args)
        return selected.explain() if explain else selected.rows()


def _selected(
    text: str,
    tables: Mapping[str, VersionReader],
    context: Mapping[str, Any] | None,
    args: ArgumentsLike | None,
) -> BoundSelect:
    statement, arguments = parse_asked(text, args, with_joins=True)
    found = bound_statement(statement, tables, None, context, arguments)
    warn_of_names(statement.quoted, *(table.schema for table in tables.values()))
    return found


def _described(
    text: str,
    tables: Mapping[str, VersionReader],
    context: Mapping[str, Any] | None,
    args: ArgumentsLike | None,
) -> pa.Table:
    """Return what EXPLAIN tells of a SELECT, or DESCRIBE and SHOW of the table that they name."""
    is_explain = explained_select(text) is not None
    if not is_explain:
        refuse_arguments(args)
    name = None if is_explain else described_table(text)
    return described(
        None if name is None else table_named(".".join(name), tables),
        text,
        lambda select, analyze: _selected(select, tables, context, args).explain(analyze=analyze),
    )
