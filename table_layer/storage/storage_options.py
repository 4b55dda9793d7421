"""What a caller says of an object store beside its location: endpoints, regions, credentials.

The values never enter a text: `repr` tells the keys alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from projseg.errors import InvalidInputError

StorageOptionsLike: TypeAlias = Mapping[str, str | int | bool]


class StorageOptions(Mapping[str, str]):
    """Options by obstore's key names; hashable, picklable, and silent about its values.

    Parameters
    ----------
    given : mapping of str to (str, int or bool), or None
        Keys in any case.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_STORAGE_OPTION if a key or a value is of another type.
    """

    __slots__ = ("_items",)

    def __init__(self, given: StorageOptionsLike | None = None) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInputError(
                "PROJSEG_BAD_STORAGE_OPTION",
                f"storage_options is of type {type(given).__name__}; give a mapping, such as "
                "{'region': 'eu-central-1'}",
            )
        items = {}
        for key, value in (given or {}).items():
            if not isinstance(key, str) or not isinstance(value, str | int):
                raise InvalidInputError(
                    "PROJSEG_BAD_STORAGE_OPTION",
                    f"storage option '{str(key)[:80]}' is of type {type(value).__name__}; give "
                    "texts, numbers or True and False",
                )
            items[key.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
        self._items = tuple(sorted(items.items()))

    def __getitem__(self, key: str) -> str:
        for known, value in self._items:
            if known == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageOptions):
            return NotImplemented
        return self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}=..." for key in self)
        return f"StorageOptions({shown})"


NO_OPTIONS: Final = StorageOptions()
