"""Translate Druid's JSON form of a projection into the texts of the keyword form.

Everything becomes Spark SQL text, which is bound and checked like that of the other forms, so that
equal declarations in different forms make equal projections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.projection.druid_expressions import quote_column, translate_expression
from projseg.algebra.projection.druid_filters import DruidFilters, DruidObject
from projseg.errors import InvalidInputError, did_you_mean

_TIME_NAME: Final = "__time"
_FIELD: Final = ("fieldName", "expression")
_KINDS: Final = {"long": True, "double": False, "float": False}

_Translate = Callable[["_Declaration", DruidObject], str]


@dataclass(frozen=True)
class ProjectionTexts:
    """A declared projection as Spark SQL texts, before they are bound."""

    name: str
    group_by: tuple[str, ...]
    aggregators: tuple[str, ...]
    where: str | None
    columns: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()


def translate_druid(
    declaration: dict[str, Any], schema: pa.Schema, time_column: str | None
) -> ProjectionTexts:
    """Return the texts of a declaration such as `{"type": "aggregate", "groupingColumns": ...}`."""
    name = declaration.get("name")
    owner = f"projection {name!r}"
    root = DruidObject(declaration, owner, "the declaration of")
    root.allow("type", "name", "virtualColumns", "groupingColumns", "aggregators", "filter")
    root.choice("type", ("aggregate",))
    root.text("name")
    translator = _Declaration(owner, schema, time_column)
    for given in root.items("virtualColumns"):
        translator.add_virtual_column(given)
    condition = root.value("filter")
    return ProjectionTexts(
        name=root.text("name"),
        group_by=tuple(translator.grouping(given) for given in root.items("groupingColumns")),
        aggregators=tuple(translator.aggregator(given) for given in root.items("aggregators")),
        where=None if condition is None else translator.filters().translate(condition, owner),
    )


class _Declaration:
    """Translates the parts of one declaration, which share its names."""

    def __init__(self, owner: str, schema: pa.Schema, time_column: str | None) -> None:
        self.owner = owner
        self.schema = schema
        self.time_column = time_column
        self.names: dict[str, str] = {}
        self.types: dict[str, pa.DataType] = {field.name: field.type for field in schema}
        if time_column is not None and _TIME_NAME not in self.types:
            self.names[_TIME_NAME] = quote_column(time_column, {})
            self.types[_TIME_NAME] = schema.field(time_column).type

    def filters(self) -> DruidFilters:
        return DruidFilters(self.names, self.types)

    def add_virtual_column(self, given: Any) -> None:
        node = DruidObject(given, self.owner, "virtual column")
        node.choice("type", ("expression",))
        node.allow("type", "name", "expression", "outputType")
        if node.has("outputType"):
            node.choice("outputType", ("LONG", "DOUBLE", "FLOAT", "STRING"))
        name = node.text("name")
        if name in self.names or name in self.types:
            node.refuse("bears the name of another column")
        self.names[name] = f"({translate_expression(node.text('expression'), self.names)})"

    def grouping(self, given: Any) -> str:
        if isinstance(given, str):
            given = {"name": given}
        node = DruidObject(given, self.owner, "grouping column")
        node.allow("type", "name", "multiValueHandling", "createBitmapIndex")
        if node.has("type"):
            node.choice("type", ("string", "long", "float", "double", "auto"))
        name = node.text("name")
        self.require_known(node, name)
        alias = self.time_column if name == _TIME_NAME and self.time_column else name
        return f"{quote_column(name, self.names)} AS {quote_column(alias, {})}"

    def require_known(self, node: DruidObject, name: str) -> None:
        known = [*self.types, *self.names]
        if name not in known:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"{self.owner}: {node.role} '{name}' is neither a column of the table nor a "
                f"virtual column{did_you_mean(name, known)}",
            )

    def aggregator(self, given: Any) -> str:
        text, name = self.aggregator_parts(given)
        return f"{text} AS {quote_column(name, {})}"

    def aggregator_parts(self, given: Any) -> tuple[str, str]:
        node = DruidObject(given, self.owner, "aggregator")
        kind = node.choice("type", ("filtered", *_AGGREGATORS))
        if kind == "filtered":
            node.allow("type", "name", "filter", "aggregator")
            text, name = self.aggregator_parts(node.value("aggregator"))
            condition = self.filters().translate(node.value("filter"), self.owner)
            return f"{text} FILTER (WHERE {condition})", name or node.text("name")
        keys, translate = _AGGREGATORS[kind]
        node.allow("type", "name", *keys)
        return translate(self, node), node.text("name")

    def input(self, node: DruidObject) -> tuple[str, pa.DataType | None]:
        """Return the SQL text of an aggregator's input, and its type if it is a column."""
        if node.has("expression"):
            return translate_expression(node.text("expression"), self.names), None
        name = node.text("fieldName")
        self.require_known(node, name)
        return quote_column(name, self.names), self.types.get(name)


def _numeric(function: str, as_integer: bool) -> _Translate:
    """Return the translator of longSum, doubleMax and so on; it casts a column of another kind."""

    def translate(declaration: _Declaration, node: DruidObject) -> str:
        text, arrow_type = declaration.input(node)
        if arrow_type is not None and pa.types.is_integer(arrow_type) != as_integer:
            is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type)
            if not is_number and not pa.types.is_decimal(arrow_type):
                node.refuse(f"needs a number, and {text} is {arrow_type}")
            text = f"CAST({text} AS {'BIGINT' if as_integer else 'DOUBLE'})"
        return f"{function}({text})"

    return translate


def _by_time(function: str, by: str) -> _Translate:
    def translate(declaration: _Declaration, node: DruidObject) -> str:
        text, _ = declaration.input(node)
        if not node.has("timeColumn") or node.value("timeColumn") == _TIME_NAME:
            return f"{function}({text})"
        name = node.text("timeColumn")
        declaration.require_known(node, name)
        return f"{by}({text}, {quote_column(name, declaration.names)})"

    return translate


def _hll_build(declaration: _Declaration, node: DruidObject) -> str:
    text, _ = declaration.input(node)
    return f"hll_sketch_agg({text}, {node.integer('lgK', 12)})"


def _refused(instead: str) -> _Translate:
    """Return the translator of what reads columns of sketches, which are not merged here."""

    def translate(declaration: _Declaration, node: DruidObject) -> str:
        del declaration
        node.refuse(f"merges a column of sketches; keep a column of values, and take {instead}")

    return translate


def _kll(function: str, cast: str) -> _Translate:
    def translate(declaration: _Declaration, node: DruidObject) -> str:
        text, arrow_type = declaration.input(node)
        if arrow_type is None or not pa.types.is_floating(arrow_type) or cast == "FLOAT":
            text = f"CAST({text} AS {cast})"
        return f"{function}({text}, {node.integer('k', 200)})"

    return translate


def _quantiles(declaration: _Declaration, node: DruidObject) -> str:
    text, arrow_type = declaration.input(node)
    if arrow_type is None or not pa.types.is_floating(arrow_type):
        text = f"CAST({text} AS DOUBLE)"
    return f"kll_sketch_agg_double({text}, {max(node.integer('k', 128), 8)})"


def _any(declaration: _Declaration, node: DruidObject) -> str:
    text, _ = declaration.input(node)
    return f"any_value({text})"


def _variance(declaration: _Declaration, node: DruidObject) -> str:
    text, _ = declaration.input(node)
    is_population = node.has("estimator") and node.choice("estimator", ("population", "sample"))
    return f"{'var_pop' if is_population == 'population' else 'var_samp'}({text})"


def _theta(declaration: _Declaration, node: DruidObject) -> str:
    text, _ = declaration.input(node)
    if node.flag("isInputThetaSketch"):
        node.refuse("has isInputThetaSketch, and only columns of values are supported")
    size = node.integer("size", 16384)
    if size < 16 or size & (size - 1):
        node.refuse(f"needs 'size' as a power of two, at least 16, found {size}")
    return f"theta_sketch_agg({text}, {size.bit_length() - 1})"


_AGGREGATORS: Final[Mapping[str, tuple[tuple[str, ...], _Translate]]] = {
    "count": ((), lambda declaration, node: "count(*)"),
    **{
        f"{kind}{function.capitalize()}": (_FIELD, _numeric(function, as_integer))
        for kind, as_integer in _KINDS.items()
        for function in ("sum", "min", "max")
    },
    **{
        f"{kind}{function.capitalize()}": (
            (*_FIELD, "timeColumn", "maxStringBytes"),
            _by_time(function, by),
        )
        for kind in (*_KINDS, "string")
        for function, by in (("first", "min_by"), ("last", "max_by"))
    },
    "HLLSketchBuild": ((*_FIELD, "lgK", "tgtHllType", "round", "shouldFinalize"), _hll_build),
    "HLLSketchMerge": (
        (*_FIELD, "lgK", "tgtHllType", "round", "shouldFinalize"),
        _refused("HLLSketchBuild"),
    ),
    "KllDoublesSketch": (
        (*_FIELD, "k", "maxStreamLength", "shouldFinalize"),
        _kll("kll_sketch_agg_double", "DOUBLE"),
    ),
    "KllFloatsSketch": (
        (*_FIELD, "k", "maxStreamLength", "shouldFinalize"),
        _kll("kll_sketch_agg_float", "FLOAT"),
    ),
    # Sketches of the same k are more exact here; their bytes are KLL's.
    "quantilesDoublesSketch": ((*_FIELD, "k", "maxStreamLength", "shouldFinalize"), _quantiles),
    **{
        f"{name}Merge": ((*_FIELD, "k", "maxStreamLength", "shouldFinalize"), _refused(name))
        for name in ("KllDoublesSketch", "KllFloatsSketch", "quantilesDoublesSketch")
    },
    **{f"{kind}Any": ((*_FIELD, "maxStringBytes"), _any) for kind in (*_KINDS, "string")},
    "variance": ((*_FIELD, "inputType", "estimator"), _variance),
    "thetaSketch": (
        (*_FIELD, "size", "shouldFinalize", "isInputThetaSketch", "errorBoundsStdDev"),
        _theta,
    ),
}
