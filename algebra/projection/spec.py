"""The bound form of a projection: its grouping columns, its aggregators and its filter."""

from __future__ import annotations

import json
from typing import Final

import msgspec
import pyarrow as pa
import xxhash
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import with_filter
from projseg.algebra.aggregates.parse_aggregate import AggregateCall, bind_aggregate, call_text
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import (
    decompose,
    state_column_name,
    stored_column,
)
from projseg.algebra.expressions.bind import NamedExpression, bind
from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.coercion import dates_of
from projseg.algebra.expressions.evaluate import regions_of
from projseg.algebra.expressions.patterns import all_patterns_accepted
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.stated_joins import kept_by_tables
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.time_zones import zone_rules
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import CorruptTableError
from projseg.memory.forks import cached_property
from projseg.segment_format.footer import ORDER_KEY, ROW_NUMBER, ZONE_RULES_KEY

_Texts = tuple[tuple[str, str], ...]
"""Output name and canonical text of each."""


class _Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The canonical JSON of a projection: of groups, or of rows."""

    name: str
    time_column: str | None = msgspec.field(name="timeColumn")
    keys: _Texts | msgspec.UnsetType = msgspec.field(name="groupBy", default=msgspec.UNSET)
    aggregators: _Texts | msgspec.UnsetType = msgspec.UNSET
    columns: _Texts | msgspec.UnsetType = msgspec.UNSET
    order: tuple[str, ...] | msgspec.UnsetType = msgspec.field(
        name="orderBy", default=msgspec.UNSET
    )
    filter: str | None
    zone_rules: dict[str, str] | msgspec.UnsetType = msgspec.field(
        name=ZONE_RULES_KEY, default=msgspec.UNSET
    )

    @property
    def outputs(self) -> _Texts:
        """The grouping columns, or the columns of rows."""
        found = self.columns if self.keys is msgspec.UNSET else self.keys
        assert found is not msgspec.UNSET, "checked as it was decoded"
        return found

    def __post_init__(self) -> None:
        is_of_groups = self.keys is not msgspec.UNSET and self.aggregators is not msgspec.UNSET
        is_of_rows = bool(self.columns) and bool(self.order)
        has_both = self.columns is not msgspec.UNSET or self.order is not msgspec.UNSET
        if is_of_groups == has_both or (has_both and not is_of_rows):
            raise ValueError("it is neither of groups nor of rows in an order")
        if self.zone_rules == {}:
            raise ValueError("it names the rules of no time zone")


_DEFINITION_DECODER: Final = msgspec.json.Decoder(_Definition)


class TimeGrouping(msgspec.Struct, frozen=True):
    """The grouping column that says in which bucket of time a projection's rows lie.

    Its granularity is `Granularity.NONE` for the exact time.
    """

    index: int
    granularity: Granularity


class StoredFloor(msgspec.Struct, frozen=True):
    """A grouping column that is the bucket of a time.

    The moment is over base columns; the bucket's start is over the grouping column.
    """

    moment: Expression
    granularity: Granularity
    start: Expression


class StoredAs(msgspec.Struct, frozen=True):
    """How segments store a projection whose columns have other names or types there.

    Names of stored columns are pairs: by this projection's trees, and as segments have them.
    """

    spec: ProjectionSpec
    grouping: tuple[tuple[str, str], ...]
    states: tuple[tuple[str, str], ...]


class ProjectionSpec(msgspec.Struct, frozen=True, dict=True):
    """A checked projection, its expressions over the base table's columns.

    Parameters
    ----------
    name : str
        The name that users gave it. Segments may hold different definitions of the same name.
    grouping : tuple of NamedExpression
        Grouping columns by output name, in sort order; the columns of a projection of rows.
    aggregators : tuple of AggregateCall
        The aggregates as declared; their `primitives` are stored.
    filter : Expression or None
        Only rows where it is true are in the projection.
    time_column : str or None
        The table's time column.
    order : tuple of Expression
        What the rows of a projection of rows are sorted by, each one of its columns; empty for a
        projection of groups.
    stored : StoredAs or None
        How segments store it if its columns have other names or types there; None means the same
        names and types.
    zone_rules : tuple of (zone, hash)
        The rules of the time zones that its values depend on, as they were where it was declared;
        empty if it depends on none, or was declared by a release that kept none.
    other_names : tuple of str
        What else the table calls it; one definition is stored once, under one of its names.
    table_name : str
        The name of its table in a segment, where that is not `name`.
    """

    name: str
    grouping: tuple[NamedExpression, ...]
    aggregators: tuple[AggregateCall, ...]
    filter: Expression | None = None
    time_column: str | None = None
    order: tuple[Expression, ...] = ()
    stored: StoredAs | None = None
    zone_rules: tuple[tuple[str, str], ...] = ()
    other_names: tuple[str, ...] = ()
    table_name: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the table gives it; its own comes first."""
        return (self.name, *self.other_names)

    @property
    def stored_name(self) -> str:
        """The name of its table in a segment."""
        return self.table_name or self.name

    @property
    def holds_rows(self) -> bool:
        """Whether it holds rows in an order of their own, and not groups."""
        return bool(self.order)

    @property
    def as_stored(self) -> ProjectionSpec:
        """The projection as segments store it."""
        return self if self.stored is None else self.stored.spec

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """The time zones whose rules its values depend on, in order."""
        trees = [self.filter, *(named.expression for named in self.grouping)]
        trees += [tree for call in self.aggregators for tree in (*call.arguments, call.filter)]
        return tuple(sorted({zone for tree in trees if tree for zone in regions_of(tree)}))

    @property
    def changed_zones(self) -> tuple[str, ...]:
        """The time zones that have other rules here than where it was declared."""
        return tuple(zone for zone, rules in self.zone_rules if zone_rules(zone) != rules)

    def with_zone_rules(self) -> ProjectionSpec:
        """Return it with the rules that its time zones have here."""
        rules = tuple((zone, zone_rules(zone)) for zone in self.regions)
        return replace(self, zone_rules=rules)

    @cached_property
    def primitives(self) -> tuple[Primitive, ...]:
        """The stored primitives, each once, in the order of declaration."""
        found = {p.text: p for call in self.aggregators for p in decompose(call)}
        return tuple(found.values())

    @cached_property
    def states(self) -> tuple[tuple[str, Primitive], ...]:
        """The stored primitives by their texts, each with FILTER instead of CASE where it can be.

        What is stored keeps the text that it was declared with, by which its columns are named.
        """
        return tuple((primitive.text, with_filter(primitive)) for primitive in self.primitives)

    @cached_property
    def state_by_meaning(self) -> dict[str, str]:
        """The texts of stored primitives by those that they have with FILTER instead of CASE."""
        return {primitive.text: text for text, primitive in reversed(self.states)}

    @cached_property
    def filter_conjuncts(self) -> tuple[Expression, ...]:
        """The conditions that every stored row fulfils."""
        return conjuncts(self.filter)

    @cached_property
    def column_by_expression(self) -> dict[Expression, Column]:
        """From each grouping expression to the stored column that holds its value."""
        return {
            named.expression: stored_column(named.expression) for named in reversed(self.grouping)
        }

    @cached_property
    def state_columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of the stored columns that are no output: states, or numbers of rows."""
        if self.holds_rows:
            return ((ROW_NUMBER, pa.int64()),)
        return tuple(
            (state_column_name(primitive.text, part), arrow_type)
            for primitive in self.primitives
            for part, arrow_type in primitive.fields
        )

    @cached_property
    def stored_order(self) -> tuple[str, ...]:
        """The names of the stored columns that its rows are sorted by."""
        columns = self.order or tuple(named.expression for named in self.grouping)
        return tuple(dict.fromkeys(stored_column(expression).name for expression in columns))

    @cached_property
    def stored_floors(self) -> tuple[StoredFloor, ...]:
        """The truncations of a time among the grouping columns, in any zone."""
        found = (_stored_floor(named) for named in self.grouping)
        return tuple(floor for floor in found if floor is not None)

    @cached_property
    def time_grouping(self) -> TimeGrouping | None:
        """The time column or the finest pure UTC floor of it; None if neither is grouped by."""
        found = [
            TimeGrouping(index, granularity)
            for index, named in enumerate(self.grouping)
            if (granularity := _pure_floor(named.expression, self.time_column)) is not None
        ]
        return min(found, key=lambda t: t.granularity.length_micros) if found else None

    @cached_property
    def definition(self) -> str:
        """Canonical JSON, from which `from_definition` makes an equal spec."""
        outputs = [[named.name, to_sql(named.expression)] for named in self.grouping]
        content: dict[str, object] = {"name": self.name, "timeColumn": self.time_column}
        if self.holds_rows:
            content |= {"columns": outputs, ORDER_KEY: [to_sql(column) for column in self.order]}
        else:
            calls = [[call.name, call_text(call)] for call in self.aggregators]
            content |= {"groupBy": outputs, "aggregators": calls}
        content["filter"] = None if self.filter is None else to_sql(self.filter)
        if self.zone_rules:
            content[ZONE_RULES_KEY] = dict(self.zone_rules)
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def definition_hash(self) -> str:
        """A hash of what is stored, 128 bits in hex; names and spelling do not change it."""
        columns = [to_sql(named.expression) for named in self.grouping]
        stored: list[object] = [
            sorted(columns) if self.holds_rows else columns,
            sorted(primitive.text for primitive in self.primitives),
            sorted(to_sql(condition) for condition in self.filter_conjuncts),
            self.time_column,
        ]
        if self.holds_rows:
            stored.append([to_sql(column) for column in self.order])
        if self.zone_rules:
            stored.append(dict(self.zone_rules))
        return str(xxhash.xxh3_128_hexdigest(json.dumps(stored, ensure_ascii=False).encode()))

    @cached_property
    def read_columns(self) -> frozenset[str]:
        """Base columns that its grouping columns read."""
        return frozenset[str]().union(*(named.expression.columns for named in self.grouping))


def _pure_floor(expression: Expression, time_column: str | None) -> Granularity | None:
    """Return the granularity of a plain UTC floor of the time column, NONE of the column itself."""
    if isinstance(expression, Column):
        is_time = expression.name == time_column and pa.types.is_temporal(expression.type)
        return Granularity.NONE if is_time else None
    floor = _stored_floor(NamedExpression("", expression))
    if floor is None or not isinstance(floor.moment, Column):
        return None
    granularity = floor.granularity
    is_utc = granularity.timezone == "UTC" and granularity.has_default_origin
    is_pure = floor.moment.name == time_column and is_utc and not granularity.is_all
    return granularity if is_pure else None


def _stored_floor(named: NamedExpression) -> StoredFloor | None:
    """Read a grouping column as a truncation: a floor, a date's as a time, or a time's date."""
    expression = named.expression
    stored = stored_column(expression)
    if not isinstance(expression, Call):
        return None
    (inner,) = expression.arguments[:1]
    floor = inner if expression.function == "cast" else expression
    if not isinstance(floor, Call) or floor.function != "time_floor":
        return None
    (granularity,) = floor.parameters
    assert isinstance(granularity, Granularity)
    start: Expression | None = stored
    if floor is inner:
        start = dates_of(expression, stored) or _start_of_date(expression, stored, granularity)
    return None if start is None else StoredFloor(floor.arguments[0], granularity, start)


def _start_of_date(cast: Call, stored: Column, granularity: Granularity) -> Expression | None:
    """Return the first instant of a stored date, to which a cast brought the start of its day."""
    zone = cast.parameters[0] if cast.parameters else "UTC"
    if granularity != Granularity(micros=DAY, timezone=str(zone), by_clock=True):
        return None
    is_date = pa.types.is_date32(cast.type)
    return Call(cast.arguments[0].type, "cast", (stored,), cast.parameters) if is_date else None


@kept_by_tables
@all_patterns_accepted()
def from_definition(definition: str, schema: pa.Schema) -> ProjectionSpec:
    """Return the spec that `ProjectionSpec.definition` describes."""
    stored = _decoded(definition)
    calls = () if stored.aggregators is msgspec.UNSET else stored.aggregators
    order = () if stored.order is msgspec.UNSET else stored.order
    rules = () if stored.zone_rules is msgspec.UNSET else tuple(stored.zone_rules.items())
    try:
        spec = ProjectionSpec(
            name=stored.name,
            grouping=tuple(NamedExpression(n, bind(text, schema)) for n, text in stored.outputs),
            aggregators=tuple(
                bind_aggregate(
                    f"{text} AS {backquoted(name)}", schema, time_column=stored.time_column
                )
                for name, text in calls
            ),
            filter=None if stored.filter is None else bind(stored.filter, schema),
            time_column=stored.time_column,
            order=tuple(bind(text, schema) for text in order),
            zone_rules=rules,
        )
    except ValueError as error:
        raise _bad(error) from error
    if not spec.column_by_expression.keys() >= set(spec.order):
        raise _bad(ValueError("its rows are sorted by what is none of its columns"))
    if rules and tuple(zone for zone, _ in rules) != spec.regions:
        raise _bad(ValueError("it names the rules of other time zones than it depends on"))
    return spec


def definition_name(definition: str) -> str:
    """Return the name in a definition, whatever columns it mentions."""
    return _decoded(definition).name


def _decoded(definition: str) -> _Definition:
    try:
        return _DEFINITION_DECODER.decode(definition)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _bad(error) from error


def _bad(error: Exception) -> CorruptTableError:
    return CorruptTableError(
        "PROJSEG_BAD_DEFINITION", f"a stored projection definition cannot be read: {error}"
    )
