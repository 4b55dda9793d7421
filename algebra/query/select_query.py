"""From a SELECT's texts to the `Query` that answers it, over the columns of one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from projseg.algebra.aggregates.expression import bind_group_output
from projseg.algebra.aggregates.group_by import (
    Grouping,
    grouping_sets,
    is_grouping_tree,
    parse_grouping,
)
from projseg.algebra.aggregates.parse_aggregate import calls_aggregate
from projseg.algebra.expressions.bind import NamedExpression, bind, bind_named
from projseg.algebra.expressions.binder_names import ColumnScope
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.sql_parameters import Arguments, bound_to, refuse_alone
from projseg.algebra.expressions.sql_words import (
    aliased,
    column_text,
    plain_name,
    references,
)
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.query.binding import bind_of_rows
from projseg.algebra.query.bound_query import directed, is_ordinal, split_direction
from projseg.algebra.query.context import (
    HINTS,
    context_options,
    parse_context,
    steering_about,
)
from projseg.algebra.query.request import Query
from projseg.algebra.query.select_names import (
    SelectGroups,
    SelectNames,
    parameters_of_outputs,
    with_arguments,
)
from projseg.algebra.query.select_statement import SelectStatement, statement_bytes
from projseg.algebra.query.star_names import StarScope
from projseg.algebra.query.unsupported_sql import bad_sql
from projseg.errors import UnsupportedFeatureError
from projseg.memory.cache import KEPT
from projseg.segment_format.format_limits import name_key


class SelectedQuery(msgspec.Struct, frozen=True):
    """A query, and how its answer becomes the statement's.

    Of the answer's `columns` the statement's `names` may be the same; `offset` rows are left out.
    """

    query: Query
    columns: tuple[str, ...]
    names: tuple[str, ...]
    offset: int = 0

    def rows_of(self, answer: pa.Table) -> pa.Table:
        """Return the statement's rows, of the query's answer."""
        rows = answer.select(list(self.columns)).slice(self.offset)
        return rows if self.columns == self.names else rows.rename_columns(list(self.names))


def select_query(
    statement: SelectStatement,
    schema: pa.Schema,
    time_column: str | None,
    context: Mapping[str, Any] | None = None,
    arguments: Arguments | None = None,
    scope: StarScope | None = None,
) -> SelectedQuery:
    """Return the query that a statement means over a table.

    Hints win over the context's projections. The scope has what names mean over several tables;
    WHERE is over the joined rows.
    """
    options = context_options(parse_context(context))
    if statement.hints:
        options = _overridden(options, dict(statement.hints))
    named = parameters_of_outputs(statement)
    within = arguments.only(named) if arguments is not None and named else None
    columns, steering = ColumnScope.of(schema), json.dumps(options)
    found: SelectedQuery = KEPT.get_or_load(
        ("selected", statement, columns, time_column, steering, within, scope),
        lambda: _translated(statement, schema, time_column, steering, within, scope),
        lambda made: statement_bytes(str(made.query)),
    )
    if arguments is not None:
        query, offset = with_arguments(found.query, statement, arguments)
        found = structs.replace(found, query=query, offset=offset)
    return found


def _overridden(options: Mapping[str, object], hints: Mapping[str, object]) -> dict[str, object]:
    """Return a context in which hints replace the keys that they contradict."""
    steered = {one.about for one in HINTS.values() if one.key in hints}
    if "useView" in hints:
        steered.add("projections")  # a view that is named answers, whatever is said of these
    gone = frozenset[str]().union(*map(steering_about, steered))
    return {key: value for key, value in options.items() if key not in gone} | dict(hints)


def _translated(
    statement: SelectStatement,
    schema: pa.Schema,
    time_column: str | None,
    context: str,
    arguments: Arguments | None,
    scope: StarScope | None,
) -> SelectedQuery:
    with bound_to(arguments):
        return _Translation(statement, schema, time_column, json.loads(context), scope).selected()


class _Output(msgspec.Struct):
    """An item of the select list over columns; one with an aggregate has no expression.

    `name` is the answer's column with its values, `title` what the statement calls it; of an
    aggregate without alias they are known last.
    """

    text: str
    alias: str | None
    name: str
    title: str
    expression: Expression | None


class _Translation:
    """One statement over one table."""

    def __init__(
        self,
        statement: SelectStatement,
        schema: pa.Schema,
        time_column: str | None,
        options: dict[str, Any],
        scope: StarScope | None,
    ) -> None:
        self._statement = statement
        self._schema = schema
        self._time_column = time_column
        self._options = options
        self._zone = parse_context(options).zone
        self._names = SelectNames(schema, statement.table, scope)
        self._grouping: Grouping | None = None
        self._outputs: list[_Output] = []
        self._taken: set[str] = set()  # the names of the outputs' columns
        self._texts: dict[str, str] = {}
        """Expressions over columns by the folded aliases of outputs."""
        for written in statement.items:
            for item in self._names.expanded(written):
                self._add_output(item.text, item.alias)

    def selected(self) -> SelectedQuery:
        statement = self._statement
        is_grouped = (
            statement.is_distinct
            or statement.group_by is not None
            or statement.having is not None
            or any(output.expression is None for output in self._outputs)
        )
        parts = self._grouped() if is_grouped else self._scanned()
        offset = statement.offset if isinstance(statement.offset, int) else 0
        limit = statement.limit + offset if isinstance(statement.limit, int) else None
        where = self._names.condition(statement.where)
        return SelectedQuery(
            Query(filter=where, limit=limit, context=self._options, **parts),
            tuple(output.name for output in self._outputs),
            tuple(output.title for output in self._outputs),
            offset,
        )

    @property
    def _sets(self) -> Grouping | None:
        """The grouping, if it is of several sets."""
        return self._grouping if self._grouping and self._grouping.sets is not None else None

    def _add_output(self, written: str, alias: str | None) -> None:
        text = self._names.over_columns(written, self._texts)
        expression, title = None, alias or ""
        if not is_of_groups(text):
            bound = bind_named(text, self._schema, self._zone)
            expression, title = bound.expression, alias or _written_name(text, bound)
        column = self._column_name(title)
        self._outputs.append(_Output(text, alias, column, title, expression))
        if alias is not None:
            self._texts.setdefault(name_key(alias), text)

    def _scanned(self) -> dict[str, Any]:
        """Return the parts of a row scan; columns that only ORDER BY has come after the others."""
        columns, order_by = [self._aliased(one.text, one.name) for one in self._outputs], []
        names = {output.expression: output.name for output in reversed(self._outputs)}
        for term, direction in self._order_terms():
            if isinstance(term, _Output):
                order_by.append(directed(column_text(term.name), direction))
                continue
            text = self._names.aliases_first(term, self._texts)
            expression = bind_of_rows(text, self._schema, self._zone, "ORDER BY").expression
            if expression not in names:
                names[expression] = self._free_name("order", names.values())
                columns.append(self._aliased(text, names[expression]))
            order_by.append(directed(column_text(names[expression]), direction))
        return {"columns": columns, "order_by": order_by}

    def _grouped(self) -> dict[str, Any]:
        keys, aggregators = self._keys(), []
        by_text = {text: self._aliased(text, key.name) for text, key in keys}
        group_by = list(by_text.values())
        if self._sets is not None:
            group_by = [self._sets_text(self._sets, keys, by_text)]
        named = {id(output) for output in self._outputs if self._is_key(output, keys)}
        for output in self._outputs:
            if id(output) in named:
                continue
            default = self._default_name(output.text, tuple(key for _, key in keys))
            if not output.title:
                output.title, output.name = default, self._column_name(default)
            is_default = output.name == default
            aggregators.append(output.text if is_default else aliased(output.text, output.name))
        groups = SelectGroups(
            outputs={name_key(o.title): o.text for o in reversed(self._outputs)},
            keys={
                name_key(key.expression.name): key.name
                for _, key in keys
                if isinstance(key.expression, Column)
            },
            parts=frozenset(name_key(name) for _, key in keys for name in key.expression.columns),
        )
        having = self._statement.having
        if having is not None:
            self._check_clear(having)
        order_by = [
            directed(
                column_text(term.name)
                if isinstance(term, _Output)
                else self._names.over_outputs(term, groups, groups_first=False),
                direction,
            )
            for term, direction in self._order_terms()
        ]
        return {
            "group_by": group_by,
            "aggregators": aggregators,
            "having": having and self._names.over_outputs(having, groups, groups_first=True),
            "order_by": order_by,
        }

    def _keys(self) -> list[tuple[str, NamedExpression]]:
        """Return what is grouped by: texts, and expressions by the names of their columns."""
        names: dict[Expression, str] = {}
        for output in reversed(self._outputs):
            if output.expression is not None:
                names[output.expression] = output.name
        put_out = set(names)
        keys: dict[Expression, tuple[str, NamedExpression]] = {}
        for text in self._group_terms():
            expression = bind(text, self._schema, timezone=self._zone)
            if expression not in names:
                names[expression] = self._free_name("group", names.values())
            keys.setdefault(expression, (text, NamedExpression(names[expression], expression)))
        statement = self._statement
        if statement.is_distinct and (self._sets or set(keys) - put_out):
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_SQL",
                "SQL has DISTINCT over grouping sets, or over groups that it does not put out; add "
                "all that it groups by to the outputs, or leave DISTINCT out",
            )
        return list(keys.values())

    def _is_key(self, output: _Output, keys: list[tuple[str, NamedExpression]]) -> bool:
        return any(
            key.name == output.name and key.expression == output.expression for _, key in keys
        )

    def _group_terms(self) -> list[str]:
        """Return what GROUP BY or DISTINCT groups by, over columns."""
        given = self._statement.group_by
        plain = [output.text for output in self._outputs if output.expression is not None]
        if given is None:
            # With an aggregate or HAVING all rows are one group, DISTINCT or not.
            is_of_rows = len(plain) == len(self._outputs) and self._statement.having is None
            return plain if is_of_rows else []
        if len(given) == 1 and given[0].upper() == "ALL":
            return plain
        self._grouping = parse_grouping(given)
        return [self._group_term(text) for text in self._grouping.texts]

    def _sets_text(
        self,
        grouping: Grouping,
        keys: list[tuple[str, NamedExpression]],
        by_text: dict[str, str],
    ) -> str:
        """Return GROUPING SETS over the keys that the written columns mean."""
        texts = {key.expression: by_text[text] for text, key in keys}
        terms = [self._group_term(text) for text in grouping.texts]
        bound = [bind(term, self._schema, timezone=self._zone) for term in terms]
        return grouping_sets([texts[bound[n]] for n in one] for one in grouping.sets or ())

    def _group_term(self, text: str) -> str:
        if is_ordinal(text):
            found = self._at(text, "GROUP BY").text
        else:
            refuse_alone(text, "GROUP BY")
            found = self._names.over_columns(text, self._texts)
        if calls_aggregate(parse_sql(found)):
            raise bad_sql(f"GROUP BY '{text}' means the aggregate '{found}'")
        return found

    def _order_terms(self) -> list[tuple[str | _Output, str]]:
        """Return the terms of ORDER BY and their directions; an ordinal means an output."""
        terms = [split_direction(text) for text in self._statement.order_by]
        for term, _ in terms:
            self._check_clear(term)
            refuse_alone(term, "ORDER BY")
        if len(terms) == 1 and terms[0][0].upper() == "ALL":
            return [(output, terms[0][1]) for output in self._outputs]
        return [
            (self._at(term, "ORDER BY") if is_ordinal(term) else term, direction)
            for term, direction in terms
        ]

    def _at(self, ordinal: str, clause: str) -> _Output:
        place = int(ordinal.replace(" ", ""))
        if not 1 <= place <= len(self._outputs):
            raise bad_sql(
                f"{clause} {place} is no place in the select list, which has {len(self._outputs)}"
            )
        return self._outputs[place - 1]

    def _aliased(self, text: str, name: str) -> str:
        """Return a text without aggregates, with its name if that is not its own."""
        own = bind_named(text, self._schema, self._zone).name
        is_own = own == name and not is_ordinal(text)  # SELECT DISTINCT 1
        return text if is_own else aliased(text, name)

    def _default_name(self, text: str, keys: tuple[NamedExpression, ...]) -> str:
        return bind_group_output(
            text,
            self._schema,
            keys=keys,
            timezone=self._zone,
            time_column=self._time_column,
            has_sets=self._sets is not None,
        ).name

    def _column_name(self, title: str) -> str:
        """Return the name of an output's column: its title, unless another output has it."""
        if title and title in self._taken:
            title = self._free_name("output", self._taken)
        self._taken.add(title)
        return title

    def _check_clear(self, text: str) -> None:
        """Refuse a name that two different outputs have."""
        for one in references(text):
            name = name_key(one.parts[0])
            outputs = {o.text for o in self._outputs if name_key(o.title) == name}
            if len(one.parts) == 1 and not one.within and len(outputs) > 1:
                raise bad_sql(f"'{text}' may mean any of the outputs named '{one.parts[0]}'")

    def _free_name(self, stem: str, taken: Any) -> str:
        folded = {name_key(name) for name in (*self._schema.names, *taken, *self._texts)}
        return next(name for n in count(1) if (name := f"_{stem}_{n}") not in folded)


def is_of_groups(text: str) -> bool:
    """Whether an output calls an aggregate, `grouping` or `grouping_id`."""
    tree = parse_sql(text)
    return calls_aggregate(tree) or any(map(is_grouping_tree, tree.walk()))


def _written_name(text: str, bound: NamedExpression) -> str:
    """Return the name that Spark gives to an output; of a column, the one that is written."""
    name = plain_name(text) if isinstance(bound.expression, Column) else None
    return bound.name if name is None else name.parts[-1]
