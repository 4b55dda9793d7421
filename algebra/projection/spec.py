"""The bound form of a projection: its grouping columns, its aggregators and its filter."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa
import xxhash

from projseg.algebra.aggregates.call import AggregateCall, bind_aggregate
from projseg.algebra.aggregates.decompose import decompose
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.text import call_text
from projseg.algebra.expressions.bind import NamedExpression, bind
from projseg.algebra.expressions.predicates import conjuncts
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.projection.stored_names import stored_column
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.period import DAY
from projseg.errors import CorruptTableError
from projseg.memory.lazy import cached_property

_FIELDS: Final = ("name", "timeColumn", "groupBy", "aggregators", "filter")


class _Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The canonical JSON of a projection; grouping columns and aggregators are (name, text)."""

    name: str
    time_column: str | None = msgspec.field(name="timeColumn")
    keys: tuple[tuple[str, str], ...] = msgspec.field(name="groupBy")
    aggregators: tuple[tuple[str, str], ...]
    filter: str | None


_DEFINITION_DECODER: Final = msgspec.json.Decoder(_Definition)


class TimeGrouping(msgspec.Struct, frozen=True):
    """The grouping column that says in which bucket of time a projection's rows lie.

    Parameters
    ----------
    index : int
        Position among the grouping columns.
    granularity : Granularity
        Its buckets; `Granularity.NONE` for the exact time.
    """

    index: int
    granularity: Granularity


class StoredFloor(msgspec.Struct, frozen=True):
    """A grouping column that is the bucket of a time.

    Parameters
    ----------
    moment : Expression
        The time that is truncated, over base columns.
    granularity : Granularity
        The buckets to which it is truncated.
    start : Expression
        The bucket's start, over the grouping column.
    """

    moment: Expression
    granularity: Granularity
    start: Expression


class StoredAs(msgspec.Struct, frozen=True):
    """How segments store a projection whose columns have other names or types there.

    Parameters
    ----------
    spec : ProjectionSpec
        The projection over stored names.
    grouping, states : tuple of (str, str)
        Names of stored columns: by this projection's trees, and as segments have them.
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
        Grouping columns by output name, in sort order.
    aggregators : tuple of AggregateCall
        The aggregates as declared; their `primitives` are stored.
    filter : Expression or None
        Only rows where it is true are in the projection.
    time_column : str or None
        The table's time column.
    stored : StoredAs or None
        How segments store it if its columns have other names or types there; None: as it is.
    """

    name: str
    grouping: tuple[NamedExpression, ...]
    aggregators: tuple[AggregateCall, ...]
    filter: Expression | None = None
    time_column: str | None = None
    stored: StoredAs | None = None

    @property
    def as_stored(self) -> ProjectionSpec:
        """The projection as segments store it."""
        return self if self.stored is None else self.stored.spec

    @cached_property
    def primitives(self) -> tuple[Primitive, ...]:
        """The stored primitives, each once, in the order of declaration."""
        found = {p.text: p for call in self.aggregators for p in decompose(call)}
        return tuple(found.values())

    @cached_property
    def primitive_by_text(self) -> dict[str, Primitive]:
        """The stored primitives by canonical text."""
        return {primitive.text: primitive for primitive in self.primitives}

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
            if (granularity := pure_floor(named.expression, self.time_column)) is not None
        ]
        return min(found, key=lambda t: t.granularity.length_micros) if found else None

    @cached_property
    def definition(self) -> str:
        """Canonical JSON, from which `from_definition` makes an equal spec."""
        fields = (
            self.name,
            self.time_column,
            [[named.name, to_sql(named.expression)] for named in self.grouping],
            [[call.name, call_text(call)] for call in self.aggregators],
            None if self.filter is None else to_sql(self.filter),
        )
        content = dict(zip(_FIELDS, fields, strict=True))
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def definition_hash(self) -> str:
        """A hash of what is stored, 128 bits in hex; names and spelling do not change it."""
        stored = [
            [to_sql(named.expression) for named in self.grouping],
            sorted(primitive.text for primitive in self.primitives),
            sorted(to_sql(condition) for condition in self.filter_conjuncts),
            self.time_column,
        ]
        return str(xxhash.xxh3_128_hexdigest(json.dumps(stored, ensure_ascii=False).encode()))

    @cached_property
    def read_columns(self) -> frozenset[str]:
        """Base columns that its grouping columns read."""
        return frozenset[str]().union(*(named.expression.columns for named in self.grouping))


def pure_floor(expression: Expression, time_column: str | None) -> Granularity | None:
    """Return the granularity of an expression that is a plain UTC floor of the time column.

    It is NONE for the column itself, and None for other expressions, zones and origins.
    """
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
    """Read a grouping column as a truncation: a floor, or the date of a timestamp."""
    expression = named.expression
    stored = stored_column(expression)
    if not isinstance(expression, Call):
        return None
    (inner,) = expression.arguments[:1]
    if expression.function == "time_floor":
        (granularity,) = expression.parameters
        assert isinstance(granularity, Granularity)
        return StoredFloor(inner, granularity, stored)
    if expression.function != "cast" or not pa.types.is_date32(expression.type):
        return None
    if not isinstance(inner, Call) or inner.function != "time_floor":
        return None
    (granularity,) = inner.parameters
    assert isinstance(granularity, Granularity)
    zone = expression.parameters[0] if expression.parameters else "UTC"
    if granularity != Granularity(micros=DAY, timezone=str(zone), by_clock=True):
        return None
    start = Call(inner.type, "cast", (stored,), expression.parameters)
    return StoredFloor(inner.arguments[0], granularity, start)


@lru_cache(maxsize=4096)
def from_definition(definition: str, schema: pa.Schema) -> ProjectionSpec:
    """Return the spec that `ProjectionSpec.definition` describes.

    Raises
    ------
    CorruptTableError
        PROJSEG_BAD_DEFINITION, if `definition` cannot have made the text.
    """
    stored = _decoded(definition)
    try:
        return ProjectionSpec(
            name=stored.name,
            grouping=tuple(NamedExpression(name, bind(text, schema)) for name, text in stored.keys),
            aggregators=tuple(
                bind_aggregate(
                    f"{text} AS {backquoted(name)}", schema, time_column=stored.time_column
                )
                for name, text in stored.aggregators
            ),
            filter=None if stored.filter is None else bind(stored.filter, schema),
            time_column=stored.time_column,
        )
    except ValueError as error:
        raise _bad(error) from error


def definition_name(definition: str) -> str:
    """Return the name in a definition, whatever columns it mentions.

    Raises
    ------
    CorruptTableError
        PROJSEG_BAD_DEFINITION.
    """
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
