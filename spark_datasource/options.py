"""The options that a read or write is given, without regard to case, and the table they name.

Spark hands options over as text under lower-cased names and accepts any name at all, so the table
of options is what turns a misspelt `groupby` into an error instead of a different answer.

Spark gives a Python source neither the location nor the options of a catalog table. A source could
hide them in the schema, but every DataFrame made of it would carry them on.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Final

from projseg.errors import InvalidInputError, did_you_mean
from projseg.spark_datasource.option_table import ADDED_BY_EXTENSION, OPTIONS, OptionKind
from projseg.table_layer.storage.store_location import StorageOptions

_BY_FOLDED_NAME: Final = {option.name.lower(): option for option in OPTIONS}

_ADDED_BY_SPARK: Final = frozenset(
    {"provider", "owner", "location", "external", "comment", "checkpointlocation", "queryname"}
)
STORAGE_PREFIX: Final = "storage."
"""Before the key of a storage option."""
_ADDED_PREFIX: Final = "option."

_WHY: Final = "names no table location, and Spark hands none of a catalog table's over"
_READ_REMEDIES: Final = (
    "use SELECT ... FROM t WITH (path = '/path'), spark.read.format('projseg').load('/path'), or "
    "CREATE TEMPORARY VIEW v USING projseg OPTIONS (path '/path'), which keeps the version that "
    "it was made at"
)
_WRITE_REMEDIES: Final = (
    "use INSERT INTO t WITH (path = '/path') ..., or "
    "df.write.format('projseg').mode('append').save('/path')"
)


class Options:
    """The caller's options, by names in any case, checked against the table of options."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._text_by_name: dict[str, str] = {}
        of_storage = {}
        for key, text in given.items():
            folded = key.lower()
            if folded.startswith(STORAGE_PREFIX):
                of_storage[folded.removeprefix(STORAGE_PREFIX)] = text
                continue
            if folded in _ADDED_BY_SPARK | ADDED_BY_EXTENSION or folded.startswith(_ADDED_PREFIX):
                continue
            option = _BY_FOLDED_NAME.get(folded)
            if option is None:
                known = [known.name for known in OPTIONS]
                raise InvalidInputError(
                    "PROJSEG_UNKNOWN_OPTION",
                    f"'{key}' is not an option of projseg{did_you_mean(key, known)}",
                )
            self._text_by_name[option.name] = text
        self.storage_options = StorageOptions(of_storage)

    def require_readable(self) -> None:
        """Refuse options that only a write understands."""
        self._require_use("read", [o.name for o in OPTIONS if not o.is_for_read])

    def require_writable(self) -> None:
        """Refuse options that only a read understands."""
        self._require_use("write", [o.name for o in OPTIONS if not o.is_for_write])

    def _require_use(self, verb: str, foreign: list[str]) -> None:
        misplaced = sorted(set(foreign) & set(self._text_by_name))
        if misplaced:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_OPTION",
                f"option '{misplaced[0]}' has no meaning in a {verb}; remove it",
            )

    @property
    def given_names(self) -> tuple[str, ...]:
        """Documented names of the options that were given, in the order given."""
        return tuple(self._text_by_name)

    def text(self, name: str) -> str | None:
        """Return an option's text, or None where it was not given or is empty."""
        return self._text_by_name.get(_BY_FOLDED_NAME[name.lower()].name) or None

    def flag(self, name: str) -> bool:
        """Return a flag; not given means false."""
        text = self.text(name)
        if text is None:
            return False
        folded = text.strip().lower()
        if folded not in ("true", "false"):
            raise bad_value(name, text, "true or false")
        return folded == "true"

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Return which of some words was given, in its own spelling, or None."""
        text = self.text(name)
        return None if text is None else parse_choice(name, text, allowed)

    def integer(self, name: str) -> int | None:
        """Return a whole number, or None where it was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text.strip().replace("_", ""))
        except ValueError:
            raise bad_value(name, text, "a whole number") from None

    def value(self, name: str) -> object:
        """Return an option as its kind is read."""
        read = {
            OptionKind.TEXT: self.text,
            OptionKind.LIST: self.list,
            OptionKind.FLAG: self.flag,
            OptionKind.INTEGER: self.integer,
        }
        return read[_BY_FOLDED_NAME[name.lower()].kind](name)

    def list(self, name: str) -> tuple[str, ...] | None:
        """Return a list of SQL texts, or None where it was not given."""
        text = self.text(name)
        return None if text is None else parse_list(name, text)


def parse_choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    """Return the one of `allowed` that a text means, without regard to case."""
    chosen = {choice.lower(): choice for choice in allowed}.get(text.strip().lower())
    if chosen is None:
        expected = f"one of {', '.join(allowed)}{did_you_mean(text, allowed)}"
        raise bad_value(name, text, expected)
    return chosen


def parse_list(name: str, text: str) -> tuple[str, ...]:
    """Read a list option: SQL separated by commas, a JSON array, or a Python list's repr.

    The last is what `.option("groupBy", ["a", "b"])` becomes on its way through Spark.
    """
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        return _parse_bracketed(name, stripped)
    # Imported here: the SQL parser is heavy, and Spark's look-up of formats imports this module.
    from projseg.algebra.expressions.dialect import split_list

    return tuple(split_list(stripped))


def _parse_bracketed(name: str, text: str) -> tuple[str, ...]:
    parsed: object = None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        try:
            parsed = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            parsed = None
    if not isinstance(parsed, list) or not all(isinstance(item, str) for item in parsed):
        raise bad_value(name, text, "SQL separated by commas, or a JSON array of texts")
    return tuple(parsed)


def bad_value(name: str, text: str, expected: str) -> InvalidInputError:
    """Return the error for an option whose text has the wrong form."""
    documented = _BY_FOLDED_NAME[name.lower()].name
    return InvalidInputError(
        "PROJSEG_BAD_OPTION", f"option '{documented}' is '{text}'; it must be {expected}"
    )


def read_location(options: Options) -> str:
    """Return the table that a read is of, with its metadata suffix if it has one."""
    return _location(options, f"the read {_WHY}; {_READ_REMEDIES}")


def write_location(options: Options) -> str:
    """Return the table that a write goes to."""
    return _location(options, f"the write {_WHY}; {_WRITE_REMEDIES}")


def _location(options: Options, missing: str) -> str:
    path, paths = options.text("path"), options.text("paths")
    if paths is not None:
        path = _only(paths)
    if path is None:
        raise InvalidInputError("PROJSEG_PATH_MISSING", missing)
    return path


def _only(paths: str) -> str:
    try:
        locations = json.loads(paths)
    except (ValueError, RecursionError):
        locations = None
    if not isinstance(locations, list) or len(locations) != 1:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"load() was given the locations {paths}; projseg reads one table at a time, so load "
            "each and union them",
        )
    return str(locations[0])
