"""Reads the JSON objects of a declaration: each field is read as the type it must have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from projseg.errors import InvalidInputError, did_you_mean


class DruidObject:
    """A JSON object with an owner, so that an error says where the object stands.

    Methods that read a field raise PROJSEG_BAD_PROJECTION if it has another type.

    Parameters
    ----------
    given : Any
        The value, which must be an object.
    owner : str
        How messages begin: "projection 'hourly'".
    role : str
        What the object is, as in "aggregator".
    """

    def __init__(self, given: Any, owner: str, role: str) -> None:
        self.owner = owner
        self.role = role
        if not isinstance(given, dict):
            self.fields: dict[str, Any] = {}
            self.refuse(f"must be a JSON object, not {given!r}")
        self.fields = given

    def refuse(self, problem: str) -> NoReturn:
        """Raise PROJSEG_BAD_PROJECTION about this object."""
        named = f" '{self.fields['name']}'" if isinstance(self.fields.get("name"), str) else ""
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"{self.owner}: {self.role}{named} {problem}"
        )

    def allow(self, *keys: str) -> None:
        """Refuse any key that is not among `keys`."""
        for key in self.fields:
            if key not in keys:
                self.refuse(f"has an unknown key '{key}'{did_you_mean(str(key), keys)}")

    def has(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return self.fields.get(key) is not None

    def value(self, key: str) -> Any:
        """Return the value, whatever its type; None if absent."""
        return self.fields.get(key)

    def text(self, key: str) -> str:
        """Return a value that must be non-empty text."""
        value = self.fields.get(key)
        if not isinstance(value, str) or not value:
            self.refuse(f"needs '{key}' as text, found {value!r}")
        return value

    def choice(self, key: str, known: Iterable[str]) -> str:
        """Return text that must be one of `known`."""
        known = tuple(known)
        value = self.text(key)
        if value not in known:
            self.refuse(
                f"has {key} '{value}', which is not known{did_you_mean(value, known)}; "
                f"known are {', '.join(known)}"
            )
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean, False if absent."""
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            self.refuse(f"needs '{key}' as true or false, found {value!r}")
        return value

    def integer(self, key: str, default: int) -> int:
        """Return an integer, `default` if absent."""
        value = self.fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(f"needs '{key}' as an integer, found {value!r}")
        return value

    def items(self, key: str) -> list[Any]:
        """Return a list, empty if absent."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.refuse(f"needs '{key}' as a list, found {value!r}")
        return list(value)
