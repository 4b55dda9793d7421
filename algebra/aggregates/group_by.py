"""GROUP BY: expressions over groups, and GROUPING SETS, ROLLUP and CUBE as sets of columns.

`HAVING sum(added) > 9 AND upper(channel) <> ''` means the aggregate `sum(added)`, whether it is an
output or not, and the grouping column that is `upper(channel)`, whatever its alias. Several
grouping sets are multiplied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields
from itertools import product
from math import prod
from typing import Final, NamedTuple, NoReturn

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.aggregates.parse_aggregate import (
    AggregateCall,
    bind_aggregate_tree,
    call_text,
    is_aggregate_tree,
    result_type,
)
from projseg.algebra.expressions.bind import (
    NamedExpression,
    bind,
    bind_tree,
    composed_name,
    spark_name,
)
from projseg.algebra.expressions.dialect import (
    ParsedText,
    parse_sql,
    split_list,
    sql_tokens,
    written,
)
from projseg.algebra.expressions.expression_limits import room_to_recurse
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key

GROUPING_ID: Final = "spark_grouping_id"
"""The column of groups that tells their grouping sets: a bit for each grouping column, the first
the highest, 1 where it is not in the set."""

_GROUPING_SCHEMA: Final = pa.schema({GROUPING_ID: pa.int64()})
_GROUPING_SETS_MAX: Final = 4096  # a CUBE of twelve columns
_GROUPING_COLUMNS_MAX: Final = 63  # each is a bit of `grouping_id()`
_NAMED: Final = "named"
_CONSTRUCT: Final = re.compile(r"(rollup|cube|grouping\s+sets)\s*(\(.*\))", re.I | re.S)

_Texts = tuple[str, ...]


class GroupExpression(msgspec.Struct, frozen=True):
    """An expression over groups, named as Spark would name its text.

    It is over `Column` nodes that are named by grouping columns and by the calls, each once, by
    names that no grouping column has.
    """

    name: str
    expression: Expression
    calls: tuple[AggregateCall, ...]


class GroupScope(msgspec.Struct, frozen=True):
    """The meaning of names and aggregates in an expression over groups.

    Keys are over base columns; `first` and `last` choose a value by the time column. `outputs` are
    the result's columns, given for HAVING and ORDER BY: a name is looked up among them first, and
    then among base columns. Without them it is looked up among base columns, and then among
    grouping columns. `has_sets` says that there are several grouping sets, which `grouping` and
    `grouping_id` tell apart.
    """

    base: pa.Schema
    keys: tuple[NamedExpression, ...]
    timezone: str = "UTC"
    time_column: str | None = None
    outputs: tuple[NamedExpression, ...] | None = None
    has_sets: bool = False

    def bind(self, tree: exp.Expression) -> GroupExpression:
        """Return the expression that sqlglot's tree, without an alias, means over groups."""
        meanings = self._meanings()
        calls: dict[AggregateCall, str] = {}

        def replaced(node: exp.Expression) -> exp.Expression:
            if is_grouping_tree(node):
                local = _free_name(spark_name(node), meanings)
                meanings[local] = self._grouping(node)
                return _column(local, named=spark_name(node))
            if not is_aggregate_tree(node):
                return node
            call = bind_aggregate_tree(
                node, self.base, timezone=self.timezone, time_column=self.time_column
            )
            local = calls.setdefault(replace(call, name=""), _free_name(call.name, meanings))
            meanings[local] = self.call_column(call)
            return _column(local, named=call.name)

        with room_to_recurse():
            over_columns = tree.transform(replaced)
            name = composed_name(over_columns.transform(_as_named))
        schema = pa.schema([(name, meaning.type) for name, meaning in meanings.items()])
        bound = bind_tree(over_columns, schema, self.timezone)
        return GroupExpression(
            name=name,
            expression=_Substitution(meanings, self._grouped(meanings)).of(bound),
            calls=tuple(replace(call, name=self.call_column(call).name) for call in calls),
        )

    def call_column(self, call: AggregateCall) -> Column:
        """Return the column of a call's values, which bears the name of no grouping column."""
        taken = {key.name: key.expression for key in self.keys}
        return Column(result_type(call), _free_name(call_text(call), taken))

    def _grouping(self, tree: exp.Expression) -> Expression:
        """Return `grouping(k)` or `grouping_id(...)` as bits of `GROUPING_ID`."""
        text = tree.sql(dialect="spark")
        if not self.has_sets:
            raise _bad_grouping(f"'{text}' needs GROUPING SETS, ROLLUP or CUBE in group_by")
        keys = [key.expression for key in self.keys]
        asked = [bind_tree(one, self.base, self.timezone) for one in tree.expressions]
        if str(tree.this).casefold() == "grouping_id":
            if asked and asked != keys:
                raise _bad_grouping(f"'{text}' must name all grouping columns in order, or none")
            return Column(pa.int64(), GROUPING_ID)
        if len(asked) != 1 or asked[0] not in keys:
            raise _bad_grouping(f"'{text}' must name one of the grouping columns")
        bit = 1 << (len(keys) - 1 - keys.index(asked[0]))
        return bind(f"CAST(({GROUPING_ID} DIV {bit}) % 2 AS TINYINT)", _GROUPING_SCHEMA)

    def _meanings(self) -> dict[str, Expression]:
        """Return what each name means: a column of groups, or one of rows."""
        base = [(field.name, _OfRows(field.type, field.name)) for field in self.base]
        if self.outputs is None:
            keys = ((key.name, Column(key.expression.type, key.name)) for key in self.keys)
            return _visible(base, keys)
        return _visible([(output.name, output.expression) for output in self.outputs], base)

    def _grouped(self, meanings: Mapping[str, Expression]) -> dict[Expression, Column]:
        """Return the grouping columns by their expressions, where names mean columns of rows."""
        return {
            key.expression: Column(key.expression.type, key.name)
            for key in self.keys
            if not isinstance(key.expression, Literal)
            and all(isinstance(meanings.get(name), _OfRows) for name in key.expression.columns)
        }


def is_grouping_tree(tree: exp.Expr) -> bool:
    """Whether a tree made by `dialect.parse_sql` calls `grouping` or `grouping_id`."""
    is_call = isinstance(tree, exp.Anonymous)
    return is_call and str(tree.this).casefold() in ("grouping", "grouping_id")


def _bad_grouping(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_AGGREGATE", problem)


def _column(name: str, *, named: str) -> exp.Expression:
    """Return a column that stands for an aggregate, and keeps what Spark would name that."""
    column = exp.column(exp.to_identifier(name, quoted=True))
    column.meta[_NAMED] = named
    return column


def _as_named(node: exp.Expression) -> exp.Expression:
    named = node.meta.get(_NAMED)
    return node if named is None else exp.column(exp.to_identifier(named, quoted=True))


class _OfRows(Column):
    """A column of the table's rows, which an expression over groups may not use."""


class _Substitution(msgspec.Struct, frozen=True):
    """What replaces the names and the grouping columns of a tree."""

    meanings: Mapping[str, Expression]
    grouped: Mapping[Expression, Column]

    def of(self, tree: Expression) -> Expression:
        if (key := self.grouped.get(tree)) is not None:
            return key
        if isinstance(tree, Column):
            meaning = self.meanings[tree.name]
            if isinstance(meaning, _OfRows):
                raise InvalidInputError(
                    "PROJSEG_BAD_AGGREGATE",
                    f"column '{tree.name}' is neither grouped by nor inside an aggregate; "
                    "group by it, or take any_value of it",
                )
            return meaning
        if isinstance(tree, Call):
            return replace_fields(tree, arguments=tuple(map(self.of, tree.arguments)))
        return tree


def _visible(
    first: Iterable[tuple[str, Expression]], others: Iterable[tuple[str, Expression]]
) -> dict[str, Expression]:
    """Return meanings by name, those of `others` only under names that do not occur before."""
    found = dict(first)
    folded = {name_key(name) for name in found}
    return found | {name: meaning for name, meaning in others if name_key(name) not in folded}


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    folded = {name_key(one) for one in taken}
    while name_key(name) in folded:
        name += "'"
    return name


class Grouping(msgspec.Struct, frozen=True):
    """The grouping columns of GROUP BY, each text once, and the sets of their positions.

    Without sets, GROUP BY is a list of columns.
    """

    texts: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...] | None


def has_grouping_sets(texts: Iterable[str]) -> bool:
    """Whether one of the texts of GROUP BY is GROUPING SETS, ROLLUP or CUBE."""
    return any(_CONSTRUCT.fullmatch(text.strip()) for text in texts)


def grouping_sets(sets: Iterable[Iterable[str]]) -> ParsedText:
    """Return GROUPING SETS of columns, which `parse_grouping` takes apart."""
    given = list(map(list, sets))
    tuples = [exp.Tuple(expressions=list(map(parse_sql, one))) for one in given]
    lists = ", ".join(f"({', '.join(one)})" for one in given)
    tree = exp.Anonymous(this="GROUPING SETS", expressions=tuples)
    return ParsedText(f"GROUPING SETS ({lists})", tree)


def parse_grouping(texts: Sequence[str]) -> Grouping:
    """Return the grouping columns and the sets that the texts of GROUP BY mean."""
    if not has_grouping_sets(texts):
        return Grouping(tuple(texts), None)
    choices = [_sets(text) for text in texts]
    _check_count(prod(map(len, choices)))
    sets = [tuple(dict.fromkeys(sum(chosen, ()))) for chosen in product(*choices)]
    columns = tuple(dict.fromkeys(column for one in _written(texts) for column in one))
    if len(columns) > _GROUPING_COLUMNS_MAX:
        _refuse(
            f"groups by {len(columns)} columns in sets; at most {_GROUPING_COLUMNS_MAX} are allowed"
        )
    position = {column: number for number, column in enumerate(columns)}
    return Grouping(columns, tuple(tuple(position[c] for c in one) for one in sets))


class _Construct(NamedTuple):
    """GROUPING SETS, ROLLUP or CUBE, and the elements in its brackets."""

    kind: str
    brackets: str
    elements: _Texts


def _construct(text: str) -> _Construct | None:
    found = _CONSTRUCT.fullmatch(text.strip())
    if found is None:
        return None
    elements: Iterable[str] = (
        map(written, text.tree.expressions)
        if isinstance(text, ParsedText)
        else split_list(found[2][1:-1])
    )
    return _Construct(found[1].casefold(), found[2], tuple(elements))


def _written(texts: Iterable[str]) -> Iterable[_Texts]:
    """Yield the columns of each text in the order in which they are written."""
    for text in texts:
        construct = _construct(text)
        if construct is None:
            yield (_stripped(text),)
        elif construct.kind in ("rollup", "cube"):
            yield from _elements(construct)
        else:
            yield from _written([part for one in construct.elements for part in _members(one)])


def _members(text: str) -> _Texts:
    """Return the terms in the brackets of an element of GROUPING SETS, or the element itself."""
    return (text,) if _CONSTRUCT.fullmatch(text.strip()) else _columns(text)


def _sets(text: str) -> list[_Texts]:
    """Return the grouping sets of one text."""
    construct = _construct(text)
    if construct is None:
        return [(_stripped(text),)]
    if construct.kind not in ("rollup", "cube"):
        if not construct.elements:
            _refuse(f"has '{text.strip()}', which has no grouping set; write (()) for one group")
        return [one for part in construct.elements for one in _sets_of_element(part)]
    elements = _elements(construct)
    if construct.kind == "rollup":
        return [_joined(elements[:count]) for count in range(len(elements), -1, -1)]
    _check_count(1 << len(elements))
    keeping = product((True, False), repeat=len(elements))
    return [_joined([e for e, kept in zip(elements, k, strict=True) if kept]) for k in keeping]


def _sets_of_element(text: str) -> list[_Texts]:
    return _sets(text) if _CONSTRUCT.fullmatch(text.strip()) else [_columns(text)]


def _elements(construct: _Construct) -> list[_Texts]:
    """Return the elements of ROLLUP or CUBE, each a column or several in brackets."""
    elements = [_columns(part) for part in construct.elements]
    if not elements or not all(elements):
        _refuse(f"has ROLLUP or CUBE of '{construct.brackets}', which lacks a column")
    return elements


def _columns(text: str) -> _Texts:
    """Return the columns of an element: one expression, or a list in brackets."""
    if isinstance(text, ParsedText):
        if isinstance(text.tree, exp.Tuple):
            return tuple(map(written, text.tree.expressions))
        return (written(text.tree.this) if isinstance(text.tree, exp.Paren) else text,)
    text = text.strip()
    return tuple(split_list(text[1:-1])) if _is_in_brackets(text) else (text,)


def _stripped(text: str) -> str:
    return text if isinstance(text, ParsedText) else text.strip()


def _is_in_brackets(text: str) -> bool:
    """Whether the first bracket is closed by the last character: `(a, b)`, not `(a) + (b)`."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for token in sql_tokens(text):
        opens, closes = token.token_type == TokenType.L_PAREN, token.token_type == TokenType.R_PAREN
        depth += opens - closes
        if depth == 0:
            return token.end == len(text) - 1
    return False


def _joined(elements: Sequence[_Texts]) -> _Texts:
    return tuple(column for element in elements for column in element)


def _check_count(count: int) -> None:
    if count > _GROUPING_SETS_MAX:
        _refuse(f"has {count} grouping sets; at most {_GROUPING_SETS_MAX} are allowed")


def _refuse(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_QUERY", f"group_by {problem}")
