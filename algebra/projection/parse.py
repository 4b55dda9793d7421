"""Read the three forms of a projection's declaration into one checked `ProjectionSpec`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from projseg.algebra.aggregates.expression import bind_output, stored_calls
from projseg.algebra.aggregates.parse_aggregate import call_text
from projseg.algebra.aggregates.state_columns import decompose
from projseg.algebra.expressions.bind import NamedExpression, bind, bind_named
from projseg.algebra.expressions.dialect import split_list
from projseg.algebra.expressions.expression_limits import JSON_DEPTH_MAX, is_too_deep_json
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.projection.druid_projection import ProjectionTexts, translate_druid
from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.algebra.projection.sql import translate_sql
from projseg.errors import InvalidInputError, ProjsegError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import is_nested, type_name

_TERM: Final = re.compile(
    r"^(?P<term>.*?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?$",
    re.IGNORECASE | re.DOTALL,
)


def _check_texts(owner: str, texts: ProjectionTexts) -> None:
    """Refuse a declaration that is not of rows alone, or lacks columns or order."""
    if texts.group_by or texts.aggregators:
        _refuse_rows(
            f"{owner} gives an order of rows, and what to group by or aggregate; groups stand in "
            "the order of the grouping columns: leave columns and order_by out"
        )
    if not texts.columns:
        _refuse_rows(f"{owner} gives an order and no columns; name what to keep of every row")
    if not texts.order_by:
        _refuse_rows(f"{owner} gives columns of rows and no order; say what they are sorted by")


def _row_columns(text: str, schema: pa.Schema) -> list[NamedExpression]:
    """Return all columns of a table for `*`, none for any other text."""
    if not isinstance(text, str) or text.strip() != "*":
        return []
    return [NamedExpression(field.name, Column(field.type, field.name)) for field in schema]


def _bind_order(text: str, schema: pa.Schema, columns: Iterable[NamedExpression]) -> Expression:
    """Return the column that a term of ORDER BY names: its alias, or the same expression."""
    parts = _TERM.match(text.strip())
    assert parts is not None, "every part may be empty"
    if (parts["way"] or "asc").lower() != "asc" or (parts["nulls"] or "first").lower() != "first":
        _refuse_rows("rows ascend, with nulls first: leave the direction out")
    term = parts["term"]
    aliases = {
        name_key(alias): named.expression
        for named in columns
        for alias in (named.name, backquoted(named.name))
    }
    found = aliases.get(name_key(term)) or bind(term, schema)
    if found not in aliases.values():
        _refuse_rows(
            "rows are sorted by what is none of the projection's columns; put it out as well"
        )
    if is_nested(found.type):
        _refuse_rows(f"rows cannot be sorted by a {type_name(found.type)}")
    return found


def _refuse_rows(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_PROJECTION", problem)


_BASE_NAME: Final = "__base"
_KEYWORD_KEYS: Final = (
    *("name", "group_by", "groupBy", "aggregators", "where", "filter"),
    *("columns", "order_by", "orderBy"),
)
_Bound = TypeVar("_Bound")


class _TextFields(Protocol):
    """The fields of `projseg.Projection`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def group_by(self) -> Iterable[str]:
        """Grouping columns as SQL."""

    @property
    def aggregators(self) -> Iterable[str]:
        """Aggregates as SQL."""

    @property
    def where(self) -> str | None:
        """Condition as SQL."""

    @property
    def columns(self) -> Iterable[str]:
        """Columns of rows as SQL."""

    @property
    def order_by(self) -> Iterable[str]:
        """The sort terms of rows, as SQL."""


_SOURCE_NAMES: Final = ("base", "metadata")

ProjectionForm: TypeAlias = Mapping[str, Any] | _TextFields | str


def parse_projection(
    declaration: ProjectionForm,
    schema: pa.Schema,
    *,
    time_column: str | None = None,
) -> ProjectionSpec:
    """Return the spec that a declaration means for a table of `schema`.

    It is `Projection(...)`, the same as a mapping, `{"name", "sql"}`, or Druid's JSON; a text is
    one of the mappings as JSON.
    """
    texts = _declared_texts(declaration, schema, time_column)
    _check_name(texts.name)
    owner = f"projection '{texts.name}'"
    condition = None if texts.where is None else _within(owner, bind, texts.where, schema)
    if texts.columns or texts.order_by:
        spec = _spec_of_rows(owner, texts, schema, condition, time_column)
    else:
        spec = _spec_of_groups(owner, texts, schema, condition, time_column)
    spec = spec.with_zone_rules()
    _check_outputs(owner, spec)
    _check_types(owner, spec)
    _check_definition(owner, spec, schema)
    return spec


def _spec_of_groups(
    owner: str,
    texts: ProjectionTexts,
    schema: pa.Schema,
    condition: Expression | None,
    time_column: str | None,
) -> ProjectionSpec:
    grouping = tuple(_within(owner, bind_named, text, schema) for text in texts.group_by)
    bind_one = partial(bind_output, keys=grouping, time_column=time_column)
    outputs = [_within(owner, bind_one, text, schema) for text in texts.aggregators]
    aggregators = stored_calls(outputs, [named.name for named in grouping])
    return ProjectionSpec(texts.name, grouping, aggregators, condition, time_column)


def _spec_of_rows(
    owner: str,
    texts: ProjectionTexts,
    schema: pa.Schema,
    condition: Expression | None,
    time_column: str | None,
) -> ProjectionSpec:
    _check_texts(owner, texts)
    columns = tuple(
        named
        for text in texts.columns
        for named in _row_columns(text, schema) or [_within(owner, bind_named, text, schema)]
    )
    bind_term = partial(_bind_order, columns=columns)
    order = tuple(_within(owner, bind_term, text, schema) for text in texts.order_by)
    return ProjectionSpec(texts.name, columns, (), condition, time_column, order)


def parse_projections(
    declarations: Iterable[ProjectionForm] | str,
    schema: pa.Schema,
    *,
    time_column: str | None = None,
) -> tuple[ProjectionSpec, ...]:
    """Return the specs of several declarations, whose names must differ.

    A text is a JSON array of declarations, or a single declaration.
    """
    if isinstance(declarations, str):
        given = _from_json(declarations)
        declarations = given if isinstance(given, list) else [given]
    specs = tuple(
        parse_projection(declaration, schema, time_column=time_column)
        for declaration in declarations
    )
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            _refuse(f"projection '{name}'", "is declared more than once; give each its own name")
    return specs


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse("a projection", f"is declared by text that is not JSON: {error}")


def _declared_texts(
    declaration: ProjectionForm, schema: pa.Schema, time_column: str | None
) -> ProjectionTexts:
    declared: Any = _from_json(declaration) if isinstance(declaration, str) else declaration
    if is_too_deep_json(declared):
        _refuse(
            "a projection", f"is declared by JSON that is nested more than {JSON_DEPTH_MAX} deep"
        )
    if not isinstance(declared, Mapping) and not hasattr(declared, "group_by"):
        shown = str(declared)[:80]
        _refuse("a projection", f"is declared by {shown!r}; give an object or a Projection")
    if not isinstance(declared, Mapping):
        return ProjectionTexts(
            declared.name,
            _list(declared.group_by),
            _list(declared.aggregators),
            declared.where,
            _list(declared.columns),
            _list(declared.order_by),
        )
    given = dict(declared)
    if "type" in given or "groupingColumns" in given or "virtualColumns" in given:
        return translate_druid(given, schema, time_column)
    owner = f"projection {given.get('name')!r}"
    if "sql" in given:
        _check_keys(owner, given, ("name", "sql"))
        return translate_sql(given.get("name"), given["sql"])
    _check_keys(owner, given, _KEYWORD_KEYS)
    for one, other in (("group_by", "groupBy"), ("where", "filter"), ("order_by", "orderBy")):
        if one in given and other in given:
            _refuse(owner, f"gives both {one} and {other}; they are the same, keep one")
    return ProjectionTexts(
        name=given.get("name", ""),
        group_by=_list(given.get("group_by", given.get("groupBy"))),
        aggregators=_list(given.get("aggregators")),
        where=given.get("where", given.get("filter")),
        columns=_list(given.get("columns")),
        order_by=_list(given.get("order_by", given.get("orderBy"))),
    )


def _list(value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, Iterable):
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"a projection's list of SQL texts is {value!r}"
        )
    return tuple(split_list(value) if isinstance(value, str) else value)


def _refuse(owner: str, problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_PROJECTION", f"{owner} {problem}")


def _check_keys(owner: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), (*known, "sql", "groupingColumns", "type"))
            _refuse(owner, f"has an unknown key '{key}'{hint}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        _refuse("a projection", f"needs a name as text, found {name!r}")
    if name.startswith("__"):
        reserved = "the base table" if name == _BASE_NAME else "projseg itself"
        _refuse(f"projection '{name}'", f"begins with __, which is reserved for {reserved}")
    if name in _SOURCE_NAMES:
        _refuse(f"projection '{name}'", "has a name that explain uses for another source")


def _within(
    owner: str, binder: Callable[[str, pa.Schema], _Bound], text: str, schema: pa.Schema
) -> _Bound:
    """Bind a text; an error message begins with the projection and the text."""
    if not isinstance(text, str):
        _refuse(owner, f"needs SQL text, found {text!r}")
    try:
        return binder(text, schema)
    except ProjsegError as error:
        raise type(error)(error.code, f"{owner}, '{text}': {error.message}") from error


def _check_outputs(owner: str, spec: ProjectionSpec) -> None:
    if not spec.grouping and not spec.aggregators:
        _refuse(owner, "has no grouping column and no aggregator; it would store nothing")
    for call in spec.aggregators:
        for primitive in decompose(call):
            if primitive.kind.not_stored:
                _refuse(owner, f"declares {call_text(call)}, which {primitive.kind.not_stored}")
    names = [named.name for named in spec.grouping] + [call.name for call in spec.aggregators]
    for name in names:
        if names.count(name) > 1:
            _refuse(owner, f"has two outputs named '{name}'; give one another alias")


def _check_types(owner: str, spec: ProjectionSpec) -> None:
    for named in () if spec.holds_rows else spec.grouping:
        if is_nested(named.expression.type):
            _refuse(
                owner,
                f"cannot group by '{named.name}': its type is {type_name(named.expression.type)}; "
                "group by a field of it that is a plain value",
            )
    if spec.filter is not None and not pa.types.is_boolean(spec.filter.type):
        _refuse(owner, f"has a filter of type {type_name(spec.filter.type)}; it must be boolean")


def _check_definition(owner: str, spec: ProjectionSpec, schema: pa.Schema) -> None:
    """Read the definition back, as every writer and reader will, to refuse what exceeds a limit."""
    try:
        from_definition(spec.definition, schema)
    except ProjsegError as error:
        raise type(error)(error.code, f"{owner}: {error.message}") from error
