"""`Definitions`: the definitions of a tenant, read and edited; they open no table.

Spark's statements and a server make a definition in steps: it is staged, and published once its
first rows are there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa

from projseg.catalog.spec.spec_edits import SpecEdit
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import SpecLike, TableSpec
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import Action, NameLike, TableMetadata, parse_name
from projseg.catalog.table_places import TablePlaces
from projseg.errors import CatalogConflictError, InvalidInputError
from projseg.table_layer.metadata.metadata_limits import COMMENT_BYTES_MAX

T = TypeVar("T")
TRASH_DAYS: Final = 7
DAY_US: Final = 86_400_000_000
_RANDOM: Final = random.SystemRandom()
_CHANGES: Final = pa.schema(
    [
        ("version", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("spec", pa.string()),
    ]
)


class Definitions:
    """The definitions of a tenant; one that was read may be used again for some seconds."""

    def __init__(self, store: Store, places: TablePlaces, refresh_seconds: float = 0) -> None:
        self.store, self.places = store, places
        self._refresh_seconds = refresh_seconds
        self._known: dict[tuple[str, str], tuple[float, TableMetadata]] = {}

    def flush(self) -> None:
        """Forget every definition that was read."""
        self._known.clear()

    def recent(self, name: NameLike) -> TableMetadata:
        """Return a definition, perhaps one that was read not long ago."""
        parsed = parse_name(name)
        known = self._known.get(parsed.folded)
        now = time.monotonic()
        if known is not None and now - known[0] < self._refresh_seconds:
            return known[1]
        found = self.store.load(parsed)
        if self._refresh_seconds > 0:
            self._known[parsed.folded] = (now, found)
        return found

    def listed(
        self, namespace: str | None, like: str | None, type: str | None
    ) -> Iterator[TableMetadata]:
        """Yield definitions in the order of their names."""
        pattern = None if like is None else like.casefold()
        for found in self.store.listed(namespace, type):
            if pattern is None or fnmatchcase(found.name.casefold(), pattern):
                yield found

    def history(self, name: NameLike) -> pa.Table:
        """Return the changes of a definition that are kept."""
        return _changes_table(self.store.history(self.store.load(parse_name(name))))

    def changes(self, since: int) -> pa.Table:
        """Return all changes after a version."""
        return _changes_table(self.store.changes(since))

    def put(
        self, name: NameLike, spec: SpecLike, action: Action = "new", version: int | None = None
    ) -> int:
        """Write a definition as it is, and return its version."""
        parsed, whole = parse_name(name), checked(TableSpec.of(spec))

        def location(definition: str) -> str | None:
            return self.places.new_location(parsed, definition) if whole.type == "table" else None

        return self._edited(
            lambda: self.store.put(parsed, whole, action, version, location=location)
        )

    def register(
        self, name: NameLike, place: str, spec: SpecLike | None, action: Action = "new"
    ) -> int:
        """Define a table at a given location, and return the definition's version."""
        parsed, whole = parse_name(name), checked(TableSpec.of({} if spec is None else spec))
        return self._edited(
            lambda: self.store.put(
                parsed, whole, action, location=lambda _: place, is_managed=False
            )
        )

    def change(self, name: NameLike, edit: SpecEdit, version: int | None = None) -> int:
        """Apply an edit to the newest spec, and return the definition's version."""
        parsed = parse_name(name)
        return self._edited(lambda: self.store.change(parsed, edit, version))

    def rewrite(
        self, name: NameLike, function: Callable[[TableSpec], SpecLike], retries: int
    ) -> int:
        """Read a spec, apply a function, and write the result; again, if others were faster."""
        for tries in range(retries + 1):
            found = self.store.load(parse_name(name))
            wanted = checked(TableSpec.of(function(found.spec)))
            try:
                return self.put(name, wanted, "replace", found.version)
            except CatalogConflictError:
                if tries == retries:
                    raise
            time.sleep(_RANDOM.uniform(0, min(1.0, 0.005 * 2**tries)))
        raise AssertionError("the last try returns or raises")

    def rename(self, old: NameLike, new: NameLike) -> int:
        """Give a definition another name, and return its version."""
        return self._edited(lambda: self.store.rename(parse_name(old), parse_name(new)))

    def create_namespace(
        self, name: str, comment: str | None, properties: Mapping[str, str] | None
    ) -> int:
        """Make a namespace, and return the tenant's version."""
        checked_name = parse_name((name, "any")).namespace
        if not isinstance(comment, str | None) or "\0" in (comment or ""):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", "a comment is a text without the character U+0000"
            )
        texts = {} if properties is None else properties
        is_map = isinstance(texts, Mapping)
        if not is_map or not all(isinstance(one, str) for pair in texts.items() for one in pair):
            raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "properties are texts by name")
        size = len(msgspec.json.encode((comment, texts)))
        if size > COMMENT_BYTES_MAX:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"comment and properties have {size} bytes; at most {COMMENT_BYTES_MAX} are kept",
            )
        return self._edited(lambda: self.store.put_namespace(checked_name, comment, properties))

    def drop_namespace(self, name: str, cascade: bool) -> int:
        """Drop a namespace, with `cascade` also its definitions; return the tenant's version."""
        return self._edited(
            lambda: self.store.remove_namespace(name, trash_end_us(), cascade=cascade)
        )

    def undrop(self, name: NameLike, definition: str | None) -> int:
        """Bring a dropped definition back, and return its version."""
        return self._edited(lambda: self.store.bring_back(parse_name(name), definition))

    def stage(self, name: NameLike, spec: SpecLike) -> TableMetadata:
        """Make a definition that gets its name once its first rows are there."""
        parsed, whole = parse_name(name), checked(TableSpec.of(spec))
        return self.store.stage(parsed, whole, lambda id_: self.places.new_location(parsed, id_))

    def publish(self, definition: str, *, replace: bool) -> int:
        """Give a staged definition its name; one that it replaces goes to the trash."""
        return self._edited(lambda: self.store.publish(definition, trash_end_us(), replace=replace))

    def abandon(self, staged: TableMetadata) -> None:
        """Remove the files of a staged definition, then its row."""
        self.places.remove_own(staged)
        self.store.discard(staged.id)

    def _edited(self, edit: Callable[[], T]) -> T:
        try:
            return edit()
        finally:
            self.flush()


def trash_end_us() -> int:
    """Return until when what is dropped now can be brought back."""
    return time.time_ns() // 1000 + TRASH_DAYS * DAY_US


def _changes_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "at": row["at_us"]} for row in rows], _CHANGES)
