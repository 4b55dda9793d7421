"""From a SELECT, or dimensions and metrics, to what a view stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.parse_aggregate import AggregateCall, call_text
from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.canonical import conjunction
from projseg.algebra.expressions.joined_values import JOIN_FUNCTIONS, join_found, path_of
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import may_have_been_read_otherwise, quoted_name
from projseg.algebra.expressions.stated_joins import AbsentDimension, tables_stated
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.projection.spec import ProjectionSpec, StoredAs, from_definition
from projseg.algebra.proofs.predicate_truth import split_time_bounds
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.algebra.query.select_query import select_query
from projseg.algebra.time.interval import Interval
from projseg.errors import CorruptTableError, InvalidInputError, ProjsegError
from projseg.reader.dimensions import TableDimension
from projseg.segment_format.format_limits import name_key
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.renamed_columns import named_spec, stored_declaration, stored_spec
from projseg.views.definitions.view_checks import bad_view, checked_statement, needs_spark
from projseg.views.view_dimensions import FOUND, check_keys, dimensions_used, stated
from projseg.views.view_records import GROUPS, PATHS_MAX, ViewDimension, ViewEntry


class Definition(msgspec.Struct, frozen=True):
    """What a view stores: its SELECT as written, and canonical over stored names with a hash.

    Only segments that lie wholly in `scope` are covered. `dimensions` are the tables that it joins;
    of a result, all that it reads. `grade` is as in `ViewEntry`.
    """

    sql: str
    text: str
    digest: str
    scope: Interval | None = None
    dimensions: tuple[ViewDimension, ...] = ()
    grade: Literal["grouped", "result"] = "grouped"


def define(sql: str, properties: TableProperties) -> Definition:
    """Return what a SELECT over a table, under whatever name, means as a view.

    It has aggregates, GROUP BY or DISTINCT. Conditions that compare the time column with constants
    are the view's scope.
    """
    statement = checked_statement(sql)
    schema = properties.schema
    query = select_query(statement, schema, properties.time_column).query
    if not query.group_by and not query.aggregators:
        raise _rows_of_a_view()
    return defined(sql, query, properties)


def _rows_of_a_view() -> InvalidInputError:
    return bad_view(
        "a view stores groups, and this SELECT puts out rows: group them, or declare a "
        "projection of rows (columns and order_by)"
    )


def text_problem(view: ViewEntry, define: Callable[[str], Definition]) -> str | None:
    """Return why the text of a view does not say what the view stores; None if it does.

    Spark alone reads the text of a result.
    """
    if view.is_result or not may_have_been_read_otherwise(view.sql):
        return None
    if define(view.sql).digest == view.definition_hash:
        return None
    return (
        "an older release bound the operators of its SELECT otherwise than Spark, and it keeps "
        "that meaning; create it again with replace, with brackets for the old meaning"
    )


def define_star(
    sql: str, query: QuerySpec, tables: Mapping[str, TableDimension], fact: Snapshot
) -> Definition:
    """Return what a SELECT over a fact and dimensions, by their names in FROM, means as a view.

    Rows that an inner join would lose are kept, with the flags of its paths as further groups: so
    the view serves questions with fewer joins, and with left ones.
    """
    if query.is_row_scan:
        raise _rows_of_a_view()
    if query.grouping_sets is not None:
        raise needs_spark("GROUPING SETS")
    found = dict.fromkeys(
        join_found(path_of(node), node.arguments) for node in reversed(query.joins)
    )
    if len(found) > PATHS_MAX:
        raise bad_view(f"a view has {len(found)} joins; {PATHS_MAX} is the most")
    grouping = {named.expression: named.name for named in reversed(query.keys)}
    grouping = dict(reversed(grouping.items()))
    grouping |= {one: f"{FOUND}{place}" for place, one in enumerate(found)}
    conditions = [one for one in query.conditions if _flag_of(one) not in found]
    dimensions = dimensions_used(query.joins, tables, fact)
    known = {table.table_id: table for table in tables.values()}
    rows = Query(
        group_by=[f"{to_sql(key)} AS {quoted_name(name)}" for key, name in grouping.items()],
        aggregators=[f"{call_text(one)} AS {quoted_name(one.name)}" for one in query.aggregates],
    )
    with tables_stated(stated(dimensions, known)):
        defined = _defined_by(sql, rows, conjunction(conditions), query.interval, fact.properties)
        spec = from_definition(defined.text, stored_schema(fact.properties).columns)
        check_keys("new", spec, dimensions)
        plain = named_spec(GROUPS, defined.text, fact.properties)
    read_back = set() if isinstance(plain, str) else {n.expression for n in plain.grouping}
    if read_back != set(grouping):
        raise bad_view("a key of a join has a type that a view cannot keep; cast it in ON")
    return msgspec.structs.replace(defined, dimensions=dimensions)


def _flag_of(condition: Expression) -> Expression:
    """Return the join whose match a condition tests."""
    is_negated = isinstance(condition, Call) and condition.function == "not"
    return condition.children[0] if is_negated else condition


def defined(sql: str, query: Query, properties: TableProperties) -> Definition:
    """Return the definition of a view from a query of one table."""
    schema, time = properties.schema, properties.time_column
    condition = None if query.filter is None else bind(query.filter, schema)
    scope, rest = split_time_bounds(condition, time, schema)
    return _defined_by(sql, query, conjunction(rest), scope, properties)


def clustered(
    definition: Definition, columns: Sequence[str], properties: TableProperties
) -> Definition:
    """Return a definition whose groups are in the order of some columns, then of the others."""
    with tables_stated(stated(definition.dimensions)):
        spec = from_definition(definition.text, stored_schema(properties).columns)
        places = {name_key(named.name): named for named in spec.grouping}
        first = [places.pop(name_key(str(name)), None) for name in columns]
        if None in first:
            raise bad_view(
                f"cluster_by names '{columns[first.index(None)]}', which is none of the grouping "
                f"columns {', '.join(named.name for named in spec.grouping)}, or is named twice"
            )
        ordered = (*(named for named in first if named is not None), *places.values())
        spec = replace(spec, grouping=ordered)
        return replace(definition, text=spec.definition, digest=spec.definition_hash)


def _defined_by(
    sql: str,
    query: Query,
    kept: Expression | None,
    scope: Interval | None,
    properties: TableProperties,
) -> Definition:
    schema, time = properties.schema, properties.time_column
    declared = {
        "name": GROUPS,
        "group_by": list(query.group_by),
        "aggregators": list(query.aggregators),
        "where": None if kept is None else to_sql(kept),
    }
    try:
        spec = parse_projection(declared, schema, time_column=time)
        more = _counts(spec)
        if more:
            declared["aggregators"] = [*list(query.aggregators), *more]
            spec = parse_projection(declared, schema, time_column=time)
    except InvalidInputError as error:
        if error.code != "PROJSEG_BAD_PROJECTION":
            raise
        raise bad_view(error.message.replace(f"projection '{GROUPS}'", "the view")) from error
    stored = stored_declaration(spec, properties)
    return Definition(sql, stored.definition, stored.definition_hash, scope)


def _counts(spec: ProjectionSpec) -> list[str]:
    """Return the counts that a view needs beside its aggregates, and lacks."""
    known = {primitive.text for primitive in spec.primitives}
    texts = {"count(*)": None}
    for primitive in spec.primitives:
        if primitive.kind.is_reversible and not primitive.kind.counts:
            text = primitive.text.replace(f"{primitive.function}(", "count(", 1)
            texts[text] = None
    missing = [text for text in texts if text not in known]
    return [f"{text} AS `count#{place}`" for place, text in enumerate(missing)]


def view_spec(
    view: ViewEntry,
    properties: TableProperties,
    known: Mapping[str, TableDimension] | None = None,
) -> ProjectionSpec | str:
    """Return what a view stores under a table's present names; a text says why it is of no use.

    `known` has, by table id, dimensions with the rows that parts were built with. Columns of other
    dimensions count as not stored.
    """
    if stored_groups_spec(view, properties).definition_hash != view.definition_hash:
        raise CorruptTableError(
            "PROJSEG_BAD_DEFINITION",
            f"view '{view.name}' has another definition than its hash says; make it anew",
        )
    try:
        with tables_stated(stated(view.dimensions, known)):
            spec = named_spec(GROUPS, view.definition, properties)
    except ProjsegError as error:
        return error.message
    if isinstance(spec, str):
        return spec
    # A state is found by its text, which says nothing of versions.
    calls = tuple(call for call in spec.aggregators if not _reads_absent(call))
    named = replace(spec, name=f"view:{view.name}", table_name=GROUPS, aggregators=calls)
    if spec.stored is not None or len(calls) == len(spec.aggregators):
        return named
    columns = [stored_column(one.expression).name for one in spec.grouping]
    states = [name for name, _ in named.state_columns]
    pairs = tuple(zip(columns, columns, strict=True)), tuple(zip(states, states, strict=True))
    return replace(named, stored=StoredAs(spec, *pairs))


def _reads_absent(call: AggregateCall) -> bool:
    trees = [*call.arguments, *([] if call.filter is None else [call.filter])]
    return any(map(is_absent, trees))


def is_absent(expression: Expression) -> bool:
    """Whether an expression reads a dimension that has other rows than a part was built with."""
    return any(
        isinstance(node, Call)
        and node.function in JOIN_FUNCTIONS
        and isinstance(path_of(node).dimension, AbsentDimension)
        for node in expression.walk()
    )


def stored_groups_spec(
    view: ViewEntry,
    properties: TableProperties,
    known: Mapping[str, TableDimension] | None = None,
) -> ProjectionSpec:
    """Return what a view stores over stored names; `known` is as in `view_spec`."""
    with tables_stated(stated(view.dimensions, known)):
        return stored_spec(GROUPS, view.definition, properties)


def renewed(view: ViewEntry, properties: TableProperties) -> tuple[str, str]:
    """Return a view's definition and hash over the names under which new segments store columns."""
    with tables_stated(stated(view.dimensions)):
        spec = named_spec(GROUPS, view.definition, properties)
        if isinstance(spec, str):
            raise bad_view(f"view '{view.name}': {spec}; make it anew")
        if len(spec.aggregators) != len(stored_groups_spec(view, properties).aggregators):
            raise bad_view(f"view '{view.name}': a column was widened; make it anew")
        plain = replace(spec, stored=None, name=GROUPS)
        declared = stored_declaration(plain, properties)
    return declared.definition, declared.definition_hash


def mentioned(
    definition: str, dimensions: Iterable[ViewDimension], schema: pa.Schema
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the stored names that groups and filter read, and those that aggregates read."""
    with tables_stated(stated(dimensions)):
        spec = from_definition(definition, schema)
    trees = [named.expression for named in spec.grouping]
    trees += [] if spec.filter is None else [spec.filter]
    groups = {node.name for tree in trees for node in tree.walk() if isinstance(node, Column)}
    calls = [tree for call in spec.aggregators for tree in (*call.arguments, call.filter) if tree]
    states = {node.name for tree in calls for node in tree.walk() if isinstance(node, Column)}
    return tuple(sorted(groups)), tuple(sorted(states))
