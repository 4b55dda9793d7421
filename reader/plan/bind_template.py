"""Bind questions, with what those that differ in values share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace as replace_fields
from typing import Final, NamedTuple

from projseg.algebra.expressions.sql_parameters import Arguments
from projseg.algebra.planning.match_facts import separated
from projseg.algebra.planning.shared_matching import SharedMatching
from projseg.algebra.query.binding import bind_interval, bind_outputs, bind_query, bind_rows
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.cache_key import (
    Lifted,
    Meaning,
    depends_on_instant,
    lifted_literals,
    meaning_of_outputs,
)
from projseg.algebra.query.declared_columns import DeclaredColumns, bind_declared
from projseg.algebra.query.request import Query, with_named_parameters
from projseg.memory.cache import KEPT, CacheKey
from projseg.reader.plan.plan_template import SEGMENTS_MAX, PlanTemplate
from projseg.reader.plan.rebound_values import kinds_of_values, slots_of
from projseg.reader.plan.version_facts import VersionFacts
from projseg.table_layer.metadata.snapshot import Snapshot

# Approximate memory of a plan, and of each segment in it beyond what the manifests hold.
PLAN_BYTES: Final = 8192
SEGMENT_PLAN_BYTES: Final = 2048


def bind_asked(
    snapshot: Snapshot, query: Query, declared: DeclaredColumns | None = None
) -> QuerySpec:
    """Return a query bound to a snapshot's columns, or to those that a definition declares."""
    schema, time_column = snapshot.properties.schema, snapshot.properties.time_column
    if declared is None:
        return bind_query(schema, time_column, query)
    return bind_declared(declared, schema, time_column, query)


def bound_by_template(
    snapshot: Snapshot, query: Query, meaning: Meaning
) -> tuple[QuerySpec, PlanTemplate | None]:
    """Return a query bound, and the template of its plan; None if its values decide more."""
    asked = _slotted(snapshot, query, meaning)
    key = plan_key("template", snapshot, asked.key)
    found: PlanTemplate | None = None if asked.key is None else KEPT.get(key)
    properties = snapshot.properties
    if found is not None:
        interval = bind_interval(query, properties.schema, properties.time_column)
        filled = found.filled(interval, asked.arguments)
        if filled is not None:
            return filled, found
    if depends_on_instant(query):
        return bind_asked(snapshot, query), None
    named = with_named_parameters(query)
    outputs: QuerySpec = KEPT.get_or_load(
        plan_key("outputs", snapshot, meaning_of_outputs(named)),
        lambda: bind_outputs(properties.schema, properties.time_column, named),
        lambda _: PLAN_BYTES,
    )
    bound = bind_rows(outputs, properties.schema, named)
    if asked.key is None:
        return bound, None
    if asked.lifted is not None:
        named = replace_fields(named, filter=asked.lifted.parsed(), args=asked.arguments)
        # The same with parameters, which are what slots are found by.
        bound = bind_rows(outputs, properties.schema, named)
    matching = matching_of(snapshot, VersionFacts(snapshot), bound)
    interval = bind_interval(named, properties.schema, properties.time_column)
    made = PlanTemplate.of(named, bound, interval, asked.arguments, matching)
    if made is None:
        if asked.lifted is not None:
            _keep_written(snapshot, asked, slots_of(named, bound, asked.arguments).without_slot)
        return bound, None
    byte_count = PLAN_BYTES + 2 * SEGMENT_PLAN_BYTES * min(len(snapshot.segments), SEGMENTS_MAX)
    KEPT.put(key, made, byte_count + meaning.byte_count)
    return bound, made


class _Slotted(NamedTuple):
    """A query whose filter's constants are parameters.

    Queries with equal keys differ in values alone; without a key, the values decide more than that.
    `lifted` is the filter with more parameters, if it has such constants; `shape` tells which
    constants stay written.
    """

    key: tuple[Hashable, ...] | None
    arguments: Arguments | None
    lifted: Lifted | None
    shape: tuple[Hashable, ...] = ()


def _slotted(snapshot: Snapshot, query: Query, meaning: Meaning) -> _Slotted:
    text, given = query.filter, meaning.arguments
    is_named = given is None or not given.is_sequence
    lifted = None if text is None or not is_named else lifted_literals(text)
    shape: tuple[Hashable, ...] = ()
    if lifted is not None and text is not None:
        shape = (meaning.outputs, lifted.text)
        written: frozenset[str] | None = KEPT.get(plan_key("written", snapshot, shape))
        lifted = lifted if written is None else lifted_literals(text, written)
    if lifted is not None:
        text = lifted.text
        given = Arguments(lifted.values if given is None else {**given.values, **lifted.values})
    kinds = kinds_of_values(given)
    key = (meaning.outputs, text, query.interval is not None, kinds)
    return _Slotted(None if kinds is None else key, given, lifted, shape)


def _keep_written(snapshot: Snapshot, asked: _Slotted, names: frozenset[str]) -> None:
    """Keep which constants of a filter stay written, because their values decide more."""
    assert asked.lifted is not None
    key = plan_key("written", snapshot, asked.shape)
    known: frozenset[str] = KEPT.get(key) or frozenset()
    more = names & asked.lifted.values.keys()
    if more:
        KEPT.replace(key, known | more, SEGMENT_PLAN_BYTES)


def plan_key(
    kind: str,
    snapshot: Snapshot,
    what: Hashable = None,
) -> CacheKey:
    """Return the key of what is cached of a version, which names it by its commit."""
    location, write_id = snapshot.storage.location, snapshot.file.write_id
    return (kind, location, snapshot.version, write_id, what)


def matching_of(snapshot: Snapshot, facts: VersionFacts, query: QuerySpec) -> SharedMatching:
    """Return the matching that a query shares with those that ask for other values."""
    decided: frozenset[str] = KEPT.get_or_load(
        plan_key("decided", snapshot), facts.decided_columns, lambda _: SEGMENT_PLAN_BYTES
    )
    common = separated(query, decided)
    if common.is_whole:
        return SharedMatching(common, facts.declared_specs())
    found: SharedMatching = KEPT.get_or_load(
        plan_key("matching", snapshot, common),
        lambda: SharedMatching(common, facts.declared_specs()),
        lambda _: PLAN_BYTES,
    )
    return found
