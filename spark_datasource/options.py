"""Every option of `format("projseg")`, declared once, read without regard to case.

Spark hands options over as text under lower-cased names and accepts any name at all, so this table
is what turns a misspelt `groupby` into an error instead of a different answer.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Final

from projseg.errors import InvalidInputError, did_you_mean
from projseg.spark_datasource.option_record import ADDED_BY_EXTENSION, Option, OptionKind
from projseg.spark_datasource.reads.stream_options import STREAM_OPTIONS
from projseg.table_layer.storage.store_location import StorageOptions


def _read(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=True, is_for_write=False, meaning=meaning)


def _write(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=False, is_for_write=True, meaning=meaning)


def _both(name: str, kind: OptionKind, meaning: str) -> Option:
    return Option(name, kind, is_for_read=True, is_for_write=True, meaning=meaning)


OPTIONS: Final[tuple[Option, ...]] = (
    _both(
        "path",
        OptionKind.TEXT,
        "The table's location, a directory or `file:` URI; `#segments` and the like read metadata.",
    ),
    _both(
        "paths",
        OptionKind.TEXT,
        "What Spark makes of `load([...])`: a JSON array with one location.",
    ),
    _read(
        "query",
        OptionKind.TEXT,
        "A whole query as JSON, as `Query.to_json` writes it, instead of the options below.",
    ),
    _read(
        "groupBy",
        OptionKind.LIST,
        "Grouping columns, `expression [AS name]` each.",
    ),
    _read(
        "aggregators",
        OptionKind.LIST,
        "Aggregates, `sum(added) FILTER (WHERE ...) AS added` each.",
    ),
    _read(
        "aggregation",
        OptionKind.TEXT,
        "`final` (default): one row a group; `partial`: states for each group and task.",
    ),
    _read(
        "granularity",
        OptionKind.TEXT,
        "Druid's name or an ISO period: groups by the floored time column first.",
    ),
    _read(
        "filter",
        OptionKind.TEXT,
        "Keeps rows for which this condition is true.",
    ),
    _read(
        "interval",
        OptionKind.TEXT,
        "Half-open range of the time column, `2015-09-12/2015-09-13` or with a period.",
    ),
    _read(
        "columns",
        OptionKind.LIST,
        "Columns or expressions of a row scan; all columns if left out.",
    ),
    _read(
        "useProjection",
        OptionKind.TEXT,
        "The only projection that may serve; an error where it does not fit.",
    ),
    _read("forceProjections", OptionKind.FLAG, "An error where no projection fits."),
    _read("noProjections", OptionKind.FLAG, "Base rows only; wins over the other flags."),
    _read("excludeProjections", OptionKind.LIST, "Projections that must not serve."),
    _read(
        "useView",
        OptionKind.TEXT,
        "The only view that may serve groups; an error where it does not fit.",
    ),
    _read("forceViews", OptionKind.FLAG, "An error where no view stands for all segments."),
    _read("noViews", OptionKind.FLAG, "Answer groups from no view."),
    _read("excludeViews", OptionKind.LIST, "Views that must not serve."),
    _read(
        "maxStaleness",
        OptionKind.TEXT,
        "How old groups in plain SQL may be, `15 minutes`, if a view answers; now if left out.",
    ),
    _read("noIndexes", OptionKind.FLAG, "Leave out no segment by an index."),
    _read("excludeIndexes", OptionKind.LIST, "Indexes that must not be asked."),
    _both(
        "timezone",
        OptionKind.TEXT,
        "Time zone of time functions and of times without one; the session's if left out.",
    ),
    _read(
        "threads",
        OptionKind.INTEGER,
        "Threads of one task; one a processor if left out.",
    ),
    _read(
        "parallelism",
        OptionKind.INTEGER,
        "Tasks that run at once and share the rows; the driver's processors if left out.",
    ),
    _read(
        "versionAsOf",
        OptionKind.INTEGER,
        "The table version to read; the newest if left out.",
    ),
    _read(
        "timestampAsOf",
        OptionKind.TEXT,
        "Read the newest version committed at or before this time.",
    ),
    _read(
        "tag",
        OptionKind.TEXT,
        "Read the table version that has this name.",
    ),
    _read(
        "fillMissingColumns",
        OptionKind.FLAG,
        "Columns of a given schema that the answer lacks are null instead of an error.",
    ),
    _read(
        "metadataTable",
        OptionKind.TEXT,
        "`segments`, `projections`, `projectionStats`, `indexes`, `columns` or `history`.",
    ),
    _read(
        "explain",
        OptionKind.FLAG,
        "Return the plan as rows instead of the answer.",
    ),
    _write(
        "timeColumn",
        OptionKind.TEXT,
        "The column that intervals and segment granularity go by.",
    ),
    _write(
        "segmentGranularity",
        OptionKind.TEXT,
        "A segment lies within one such chunk of time; `all` if left out.",
    ),
    _write(
        "clusterBy",
        OptionKind.LIST,
        "Sort order of a segment's rows; time is last unless it is named.",
    ),
    _write(
        "targetSegmentRows",
        OptionKind.INTEGER,
        "Rows at which a segment is full; 3,000,000 if left out.",
    ),
    _write(
        "projections",
        OptionKind.TEXT,
        "A JSON array of projection declarations, in any of the three forms.",
    ),
    _write(
        "indexes",
        OptionKind.TEXT,
        "A JSON array of index declarations: name, columns, kind, fpp, postings.",
    ),
    _write(
        "replaceInterval",
        OptionKind.TEXT,
        "With mode `overwrite`: replace exactly this interval.",
    ),
    _write(
        "replaceWhere",
        OptionKind.TEXT,
        "With mode `overwrite`: replace exactly the rows for which this condition is true.",
    ),
    _write(
        "ifExists",
        OptionKind.TEXT,
        "Where a table is there: `append` (default), `error`, or `ignore` to write nothing.",
    ),
    _write(
        "mergeSchema",
        OptionKind.FLAG,
        "Add columns that the table lacks, and widen those whose rows have a wider type.",
    ),
    _write(
        "overwriteSchema",
        OptionKind.FLAG,
        "With mode `overwrite`: put the columns of the rows in place of the table's.",
    ),
    _write(
        "userName",
        OptionKind.TEXT,
        "Who writes, for the table's history; it is not found out otherwise.",
    ),
    _write(
        "userMetadata",
        OptionKind.TEXT,
        "Any text, for the table's history.",
    ),
    _write(
        "txnAppId",
        OptionKind.TEXT,
        "With `txnVersion`: names the application, so that a repeated write does nothing.",
    ),
    _write(
        "txnVersion",
        OptionKind.INTEGER,
        "The application's number of this write; lower or equal ones are done already.",
    ),
    *STREAM_OPTIONS,
)
_BY_FOLDED_NAME: Final = {option.name.lower(): option for option in OPTIONS}

_ADDED_BY_SPARK: Final = frozenset(
    {"provider", "owner", "location", "external", "comment", "checkpointlocation", "queryname"}
)
STORAGE_PREFIX: Final = "storage."
"""Before the key of a storage option."""
_ADDED_PREFIX: Final = "option."


class Options:
    """The caller's options, checked against the table of options.

    Parameters
    ----------
    given : mapping of str to str
        As Spark passes them; names in any case.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_OPTION for a name that is no option.
    """

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
        """Return a flag; not given means false.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_OPTION if the text is neither true nor false.
        """
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
        """Return a whole number, or None where it was not given.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_OPTION if the text is no whole number.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text.strip().replace("_", ""))
        except ValueError:
            raise bad_value(name, text, "a whole number") from None

    def list(self, name: str) -> tuple[str, ...] | None:
        """Return a list of SQL texts, or None where it was not given."""
        text = self.text(name)
        return None if text is None else parse_list(name, text)


def parse_choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    """Return the one of `allowed` that a text means, without regard to case.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION if it is none of them.
    """
    chosen = {choice.lower(): choice for choice in allowed}.get(text.strip().lower())
    if chosen is None:
        expected = f"one of {', '.join(allowed)}{did_you_mean(text, allowed)}"
        raise bad_value(name, text, expected)
    return chosen


def parse_list(name: str, text: str) -> tuple[str, ...]:
    """Read a list option: SQL separated by commas, a JSON array, or a Python list's repr.

    The last is what `.option("groupBy", ["a", "b"])` becomes on its way through Spark.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION for a bracketed text that is no list of texts.
    """
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        return _parse_bracketed(name, stripped)
    # Imported here: the SQL parser is heavy, and Spark's look-up of formats imports this module.
    from projseg.algebra.expressions.binding.bind import split_list

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
    """Return the error for an option whose text is not what it takes."""
    documented = _BY_FOLDED_NAME[name.lower()].name
    return InvalidInputError(
        "PROJSEG_BAD_OPTION", f"option '{documented}' is '{text}'; it must be {expected}"
    )
