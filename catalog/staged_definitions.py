"""Definitions that Spark's statements and a server make in steps: staged, then published."""

from __future__ import annotations

import time
from typing import Final, Protocol

from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import SpecLike, TableSpec
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import Action, NameLike, TableMetadata, parse_name
from projseg.catalog.table_places import TablePlaces

TRASH_DAYS: Final = 7
DAY_US: Final = 86_400_000_000


class Definitions(Protocol):
    """What a catalog has of its definitions."""

    store: Store
    places: TablePlaces

    def flush(self) -> None:
        """Forget every definition that was read."""


def register_at(
    catalog: Definitions, name: NameLike, place: str, spec: SpecLike, action: Action
) -> int:
    """Define a table at a location of one's own; return the definition's version."""
    whole = checked(TableSpec.of(spec))
    try:
        return catalog.store.put(
            parse_name(name), whole, action, location=lambda _: place, is_managed=False
        )
    finally:
        catalog.flush()


def stage(catalog: Definitions, name: NameLike, spec: SpecLike) -> TableMetadata:
    """Make a definition that gets its name once its first rows are there."""
    parsed, whole = parse_name(name), checked(TableSpec.of(spec))
    places = catalog.places
    return catalog.store.stage(parsed, whole, lambda id_: places.new_location(parsed, id_))


def publish(catalog: Definitions, definition: str, *, replace: bool) -> int:
    """Give a staged definition its name; one that it replaces goes to the trash."""
    due_us = time.time_ns() // 1000 + TRASH_DAYS * DAY_US
    try:
        return catalog.store.publish(definition, due_us, replace=replace)
    finally:
        catalog.flush()


def abandon(catalog: Definitions, staged: TableMetadata) -> None:
    """Remove what was written for a staged definition, then its row."""
    catalog.places.remove_own(staged)
    catalog.store.discard(staged.id)
