"""A table's storage that also knows how the files of its source are reached, and never keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import StorageOptions, StorageOptionsLike

_PREFIX: Final = "source."


@dataclass(frozen=True)
class SourcedStorage:
    """A storage, and the options of another store that its table reads files of."""

    table: Storage
    source_options: StorageOptions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying and pickling ask an object that has no fields yet
            raise AttributeError(name)
        return getattr(self.table, name)


def with_source_options(storage: Storage, given: StorageOptionsLike | None) -> Storage:
    """Return a storage with the options of its table's source; without any, as it is."""
    if given is None:
        return storage
    table = storage.table if isinstance(storage, SourcedStorage) else storage
    sourced: Any = SourcedStorage(table, StorageOptions(given))
    found: Storage = sourced
    return found


def split_options(
    given: StorageOptionsLike | None,
) -> tuple[StorageOptions, StorageOptions | None]:
    """Return the options of a table's own store, and those of its source, which begin so."""
    options = given if isinstance(given, StorageOptions) else StorageOptions(given)
    if not any(key.startswith(_PREFIX) for key in options):
        return options, None
    own = {key: value for key, value in options.items() if not key.startswith(_PREFIX)}
    of_source = {
        key.removeprefix(_PREFIX): value
        for key, value in options.items()
        if key.startswith(_PREFIX)
    }
    return StorageOptions(own), StorageOptions(of_source)
