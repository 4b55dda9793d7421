"""Questions of one version of a table: queries, statements, scans and their explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.expressions.sql_parameters import ArgumentsLike, refuse_arguments
from projseg.algebra.query.context import parse_context
from projseg.algebra.query.query_parts import query_of, statement_options
from projseg.algebra.query.request import Expressions, Query
from projseg.algebra.query.statement_words import explained_select, is_described, is_select
from projseg.errors import InvalidInputError, listed
from projseg.memory.deadline import answered_within
from projseg.memory.door import door_of_question, through
from projseg.memory.forks import late_import
from projseg.reader.plan.query_plan import plan_query
from projseg.reader.row_scan import scan
from projseg.table.earlier_answers import as_old_as
from projseg.table.logged_answers import logged_batches, logging_failures
from projseg.table.version_reader import VersionReader

if TYPE_CHECKING:
    from projseg.algebra.query.select_query import SelectedQuery
    from projseg.algebra.query.select_table import SelectedTable
    from projseg.declarations import Index, ProjectionLike
    from projseg.explain import Explain
    from projseg.table.sql_statements import BoundSelect


class PlainSelect(NamedTuple):
    """A SELECT over the segments of a version of a table."""

    version: VersionReader
    selected: SelectedQuery

    def rows(self) -> pa.Table:
        """Return the statement's rows."""
        query = self.selected.query
        with answered_within(query.query_context.time_limit):
            return self.selected.rows_of(answer(self.version, query))

    def explain(self, *, analyze: bool = False) -> Explain:
        """Return its plan."""
        return explained(self.version, self.selected.query, analyze=analyze)


def answer(reader: VersionReader, query: Query) -> pa.Table:
    """Return the rows of a query, of an earlier version where it may be of one."""
    with logging_failures(reader.snapshot):
        version, asked = as_old_as(reader, query)
        return version.answer(version.plan(asked))


def explained(reader: VersionReader, query: Query, *, analyze: bool = False) -> Explain:
    """Return how a query is answered."""
    # Imported here, so that a process that only asks starts without it.
    with late_import:
        from projseg.explain import explain_plan

    version, asked = as_old_as(reader, query)
    found = explain_plan(reader.storage, asked, version.plan(asked), analyze=analyze)
    number = version.snapshot.version
    return found if version is reader else replace_fields(found, version=number)


def statement_answer(
    reader: VersionReader,
    text: str,
    context: Mapping[str, Any] | None,
    args: ArgumentsLike | None,
    tables: Mapping[str, VersionReader] | None,
    *,
    explain: bool,
) -> pa.Table | Explain:
    """Return the rows of a statement over the version, or how it is answered."""
    if not isinstance(text, str):
        raise InvalidInputError("PROJSEG_BAD_SQL", f"a statement is a text, found {text!r}")
    with fixed_instant(), through("sql"):
        if is_described(text):
            if explained_select(text) is None:
                refuse_arguments(args)
            # Imported here, so that a process that only asks starts without it.
            with late_import:
                from projseg.table.sql_statements import described

            return described(
                reader,
                text,
                lambda select, analyze: explain_of_select(
                    reader, select, context=context, args=args, analyze=analyze
                ),
            )
        with answered_within(parse_context(context).time_limit):
            if explain:
                return selected(reader, text, context, args, tables).explain()
            with logging_failures(reader.snapshot):
                return selected(reader, text, context, args, tables).rows()


def explain_question(
    reader: VersionReader,
    question: Expressions | Query,
    *,
    analyze: bool,
    what_if: Sequence[ProjectionLike | Index] = (),
    without: Sequence[str] = (),
    **parts: Any,
) -> Explain:
    """Return how a query or a SELECT is answered, or would be with other projections."""
    if what_if or without:
        if analyze:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                "analyze runs a query, and what_if and without plan over what is not there; "
                "give one of them",
            )
        return _explain_as_if(reader, question, what_if, without, parts)
    if is_select(question):
        return explain_of_select(reader, question, analyze=analyze, **statement_options(**parts))
    return explained(reader, query_of(question, **parts), analyze=analyze)


def _explain_as_if(
    reader: VersionReader,
    question: Expressions | Query,
    what_if: Sequence[ProjectionLike | Index],
    without: Sequence[str],
    parts: Mapping[str, Any],
) -> Explain:
    # Imported here, so that a process that only asks starts without it.
    with late_import:
        from projseg.reader.plan.imagined_indexes import pruned_by_imagined
        from projseg.table.what_if_versions import what_if_version

    what_if, without = listed("what_if", what_if), listed("without", without)
    found = what_if_version(reader.snapshot, what_if, without)
    imagined = reader.imagined(found.snapshot, partial(pruned_by_imagined, indexes=found.indexes))
    plan = explain_question(imagined, question, analyze=False, **parts)
    return replace_fields(plan, hypothetical=found.added, without=tuple(without))


def explain_of_select(
    reader: VersionReader, text: str, *, analyze: bool, **options: Any
) -> Explain:
    """Return how a SELECT is answered; `options` are as in `selected`."""
    with fixed_instant(), answered_within(parse_context(options["context"]).time_limit):
        return selected(reader, text, **options).explain(analyze=analyze)


def selected(
    reader: VersionReader,
    text: str,
    context: Mapping[str, Any] | None = None,
    args: ArgumentsLike | None = None,
    tables: Mapping[str, VersionReader] | None = None,
) -> BoundSelect | PlainSelect:
    """Return a SELECT, bound to the version of the table that it reads."""
    # Imported here, so that a process that only asks otherwise starts without it.
    with late_import:
        from projseg.algebra.query.select_names import warn_of_names
        from projseg.algebra.query.select_query import select_query
        from projseg.algebra.query.select_statement import parse_asked

    statement, arguments = parse_asked(text, args, with_joins=tables is not None)
    warn_of_names(statement.quoted, reader.schema)
    if statement.source is not None or tables is not None:
        with late_import:
            from projseg.table.star_statements import bound_statement

        return bound_statement(statement, tables or {}, reader, context, arguments)
    version = _version_of(reader, statement.table, context)
    found = select_query(statement, version.schema, version.time_column, context, arguments)
    return PlainSelect(version, found)


def _version_of(
    reader: VersionReader, table: SelectedTable, context: Mapping[str, Any] | None
) -> VersionReader:
    """Return the version of the table that a statement reads."""
    if not table.is_versioned:
        return reader
    with late_import:
        from projseg.table.sql_statements import snapshot_of

    return reader.at(snapshot_of(reader, table, context))


def scanned(reader: VersionReader, query: Query) -> pa.RecordBatchReader:
    """Return the rows of a query without groups, as a stream."""
    with logging_failures(reader.snapshot):
        plan = reader.plan(query)
    batches = scan(reader.storage, plan, plan.segments)
    batches = logged_batches(reader.snapshot, plan, batches, door_of_question())
    schema = plan.query.output_schema.with_metadata(reader.mark)
    return pa.RecordBatchReader.from_batches(schema, batches)


def streamed(reader: VersionReader) -> pa.RecordBatchReader:
    """Return all rows as a stream, which is planned when the first of them is read."""
    query = reader.bound(Query())

    def batches() -> Iterator[pa.RecordBatch]:
        plan = plan_query(reader.snapshot, query)
        found = scan(reader.storage, plan, plan.segments)
        yield from logged_batches(reader.snapshot, plan, found, "dataset")

    return pa.RecordBatchReader.from_batches(query.output_schema, batches())
