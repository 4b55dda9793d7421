"""Every error this package raises on purpose, and the registry of their codes.

ProjsegError
├── CorruptionError              stored bytes break SPEC.md; never retry, never guess
│   ├── CorruptSegmentError
│   └── CorruptTableError
├── UnsupportedFeatureError      the bytes may be valid, but not for this reader
├── LimitExceededError           honouring the request would pass a stated limit
├── InvalidInputError            the caller's data or options are wrong (also ValueError)
│   └── ProjectionNotUsableError useProjection or forceProjections cannot be met
├── MissingPackageError          an optional package is not installed (also ImportError)
├── StorageError                 a file could not be read, written or listed (also OSError)
├── EvaluationError              Spark's ANSI mode would refuse this value (also ArithmeticError)
├── QueryTimeoutError            no answer came in the time that was given (also TimeoutError)
├── WorkerError                  a pool's process ended before it answered; safe to ask again
├── CatalogError                 a catalog's database cannot do what was asked
│   ├── CatalogConflictError     a definition is at another version; safe to retry
│   ├── CatalogUnavailableError  the database does not answer (also OSError)
│   ├── CatalogStateUnknownError the edit may have landed; look before you retry
│   └── PermissionDeniedError    no grant or no token lets it happen (also PermissionError)
└── CommitError
    ├── CommitConflictError      someone else won; safe to retry
    └── CommitStateUnknownError  it may have landed; look before you retry

A message is one line that says what was asked, what was found and what to do. Names and values in
it may come from anybody, so it is cut to `MESSAGE_CHARACTERS_MAX` and what is not printable is
escaped. Codes are stable; `CODES` is the one list of them, from which the error reference is made.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

CODES: Final[dict[str, str]] = {
    "PROJSEG_OVERFLOW": "A final value does not fit its result type.",
    "PROJSEG_BAD_AGGREGATE": "An aggregate's form or arguments, or a column beside it, are wrong.",
    "PROJSEG_BAD_GROUP_IDS": "Group ids, or columns beside them, do not fit their groups.",
    "PROJSEG_INTERNAL": "A part of projseg was called against its contract; please report it.",
    "PROJSEG_LIMIT_EXCEEDED": "A declared or requested size passes a limit of the format.",
    "PROJSEG_UNSUPPORTED_FEATURE": "A segment file needs a feature this release does not know.",
    "PROJSEG_UNSUPPORTED_VERSION": "A segment file is of a newer format version.",
    "PROJSEG_CORRUPT_SEGMENT": "A segment file is damaged, truncated, or breaks SPEC.md.",
    "PROJSEG_BAD_ARGUMENT": "An argument of a call lies outside its stated range.",
    "PROJSEG_BAD_TYPE_NAME": "A text is not the name of a type that projseg knows.",
    "PROJSEG_ID_OUT_OF_RANGE": "An id does not lie below its cardinality; an internal guard.",
    "PROJSEG_LENGTH_MISMATCH": "Arrays that belong together differ in length; an internal guard.",
    "PROJSEG_CANNOT_COMPILE": "Memory may not be made executable, and Python fails at a value.",
    "PROJSEG_MISSING_PACKAGE": "An optional package that this needs is not installed, or too old.",
    "PROJSEG_NULL_TIME": "A row to append has no time, so no segment can hold it.",
    "PROJSEG_TIME_RANGE": "A row to append has a time outside the years 1 to 9999.",
    "PROJSEG_TOO_MANY_ROWS": "One grouping was asked to number 2**32 rows or more.",
    "PROJSEG_QUERY_TOO_LARGE": "The groups of a query take more memory or disk than they may.",
    "PROJSEG_UNKNOWN_COLUMN": "A name is not a column of the table, nor an output of the query.",
    "PROJSEG_BAD_EXPRESSION": "An expression is not valid Spark SQL, or its types do not fit.",
    "PROJSEG_EXPRESSION_TOO_LONG": "An expression is too long or nested too deeply to read.",
    "PROJSEG_TEXT_TOO_LONG": "An expression makes too long a text, or there is too much of it.",
    "PROJSEG_BAD_TEXT_QUERY": "The query of text_match is not one, or is too long.",
    "PROJSEG_UNSUPPORTED_FUNCTION": "An expression uses a function or syntax unknown to projseg.",
    "PROJSEG_BAD_PERIOD": "A text is not an ISO 8601 period.",
    "PROJSEG_BAD_GRANULARITY": "A text is neither a granularity's name nor an ISO period.",
    "PROJSEG_BAD_INTERVAL": "An interval is malformed, reversed, or leaves years 1 to 9999.",
    "PROJSEG_ADVICE_STALE": "What was advised has another meaning in the table by now.",
    "PROJSEG_BAD_BUDGET": "A budget is neither a share nor a number of bytes.",
    "PROJSEG_BAD_LOG": "A query log has no record, or there is none at its place.",
    "PROJSEG_UNKNOWN_TIME_ZONE": "A time zone is neither an offset nor a known region.",
    "PROJSEG_EVALUATION_OVERFLOW": "A computed value does not fit its type.",
    "PROJSEG_EVALUATION_DIVIDE_BY_ZERO": "An expression divides by zero.",
    "PROJSEG_EVALUATION_BAD_CAST": "A value cannot be cast to the type asked for.",
    "PROJSEG_EVALUATION_BAD_ARGUMENT": "A function met an argument outside its domain.",
    "PROJSEG_EVALUATION_TOO_LONG": "A regular expression took more steps than it may.",
    "PROJSEG_NOT_A_TABLE": "A location certainly holds no table.",
    "PROJSEG_TABLE_EXISTS": "A table was to be created where one is.",
    "PROJSEG_UNKNOWN_NAMESPACE": "A warehouse has no namespace of that name.",
    "PROJSEG_NAMESPACE_EXISTS": "A namespace was to be created where one is.",
    "PROJSEG_NAMESPACE_NOT_EMPTY": "A namespace that holds tables was to be dropped.",
    "PROJSEG_BAD_SPEC": "A catalog's definition has an unknown key, or breaks a rule.",
    "PROJSEG_UNKNOWN_TABLE": "A catalog has no definition of that name.",
    "PROJSEG_CATALOG_CONFLICT": "A definition is not at the version that an edit was made for.",
    "PROJSEG_CATALOG_UNAVAILABLE": "A catalog's database does not answer, or is not there.",
    "PROJSEG_CATALOG_BUSY": "A catalog's database stayed locked by others.",
    "PROJSEG_CATALOG_STATE_UNKNOWN": "A catalog's database did not say whether an edit happened.",
    "PROJSEG_CATALOG_NEEDS_MIGRATION": "An earlier release made the catalog's database.",
    "PROJSEG_UNSUPPORTED_CATALOG_VERSION": "A later release made the catalog's database.",
    "PROJSEG_BAD_TOKEN": "A catalog's server was asked without a token that it knows.",
    "PROJSEG_PERMISSION_DENIED": "No grant lets a principal do what it asked for.",
    "PROJSEG_UNKNOWN_PRINCIPAL": "A tenant has no principal of that name.",
    "PROJSEG_PRINCIPAL_EXISTS": "A tenant has a principal of that name.",
    "PROJSEG_KEY_REUSED": "A catalog's server got an Idempotency-Key with another request.",
    "PROJSEG_SEALED_TABLE": "A column to be written is not declared, and the table is sealed.",
    "PROJSEG_HIDDEN_COLUMN": "A column to be written is hidden by the table's definition.",
    "PROJSEG_UNKNOWN_PARAMETER": "An argument is no parameter of an external definition.",
    "PROJSEG_MISSING_PARAMETER": "A template was read without what it leaves open.",
    "PROJSEG_OUTSIDE_ROOTS": "A definition or a view names a place that is not followed.",
    "PROJSEG_HOST_NOT_ALLOWED": "A definition names a host, or an address, that is not allowed.",
    "PROJSEG_TABLE_REPLACED": "A definition's folder holds another table than it did.",
    "PROJSEG_UNKNOWN_VERSION": "A table version does not exist, or is no longer kept.",
    "PROJSEG_AMBIGUOUS_MERGE": "Several rows to be merged match one row of the table.",
    "PROJSEG_UNKNOWN_TAG": "A name is not one of the table's tags.",
    "PROJSEG_TAG_EXISTS": "A tag of that name names another version.",
    "PROJSEG_RETENTION_TOO_SHORT": "A vacuum would remove files that others may still need.",
    "PROJSEG_PINNED_VERSION": "A table that was opened at a version was to be written to.",
    "PROJSEG_CORRUPT_TABLE": "A snapshot or manifest is damaged, missing, or foreign.",
    "PROJSEG_UNSUPPORTED_TABLE_VERSION": "A later release wrote the table's metadata.",
    "PROJSEG_METADATA_TOO_LARGE": "A snapshot, a manifest or a text to be kept there is too large.",
    "PROJSEG_BAD_LOCATION": "A text is not a path or a file: URI.",
    "PROJSEG_UNSUPPORTED_STORAGE": "A location has a scheme that this release does not read.",
    "PROJSEG_BAD_FILE_NAME": "A name is not one that projseg gives to a table's files.",
    "PROJSEG_BAD_WRITE_ID": "A write id is not 32 lower-case hexadecimal digits.",
    "PROJSEG_WRITE_ID_REUSED": "A write id has already named another commit.",
    "PROJSEG_BAD_COMMIT_ENTRY": "A segment reported for a commit cannot be that commit's.",
    "PROJSEG_FILE_CUT_SHORT": "A file of a table ends before bytes that belong to it.",
    "PROJSEG_STORAGE_FULL": "The disk, or the user's share of it, has no room for a file.",
    "PROJSEG_NO_PERMISSION": "The process's user may not read or write a file of a table.",
    "PROJSEG_NO_CREDENTIALS": "An object store was asked, and no credentials for it were found.",
    "PROJSEG_NO_SUCH_BUCKET": "An object store has no bucket or container of the location's name.",
    "PROJSEG_STORE_UNREACHABLE": "An object store does not answer.",
    "PROJSEG_BAD_STORAGE_OPTION": "A storage option is unknown, or its value or place is wrong.",
    "PROJSEG_FORKED_PROCESS": "A forked process uses its parent's object store or query pool.",
    "PROJSEG_POOL_CLOSED": "A query pool was closed before it answered.",
    "PROJSEG_QUERY_TIMEOUT": "A query had no answer in the time that was given.",
    "PROJSEG_WORKER_ENDED": "Two processes of a query pool ended before they answered a query.",
    "PROJSEG_WORKER_NOT_STARTED": "The system refused to start a process of a query pool.",
    "PROJSEG_READ_ONLY_STORAGE": "A table to be written lies on a read-only file system.",
    "PROJSEG_NOT_A_FILE": "Something else stands where a table's file or folder belongs.",
    "PROJSEG_TOO_MANY_OPEN_FILES": "The process has too many files open.",
    "PROJSEG_STORAGE_FAILED": "The storage failed to read, write or list for another reason.",
    "PROJSEG_SEGMENT_MISSING": "A segment file, listed or to be committed, is not there.",
    "PROJSEG_SEGMENT_DIFFERS": "A segment file is not the one that its writer reported.",
    "PROJSEG_JOB_FAILED": "A Spark job that was to write segments failed, as its message says.",
    "PROJSEG_COMMIT_CONFLICT": "Another commit changed what this one depends on.",
    "PROJSEG_COMMIT_STATE_UNKNOWN": "The storage did not say whether the commit happened.",
    "PROJSEG_STORAGE_LISTS_LATE": "The storage does not list a file that was just created.",
    "PROJSEG_STORAGE_NOT_ATOMIC": "The storage cannot create a file only if it is absent.",
    "PROJSEG_NO_TIME_COLUMN": "An interval was given for a table without a time column.",
    "PROJSEG_INTERVAL_NOT_ALIGNED": "An interval to be overwritten cuts through a segment.",
    "PROJSEG_UNKNOWN_PROJECTION": "A name is not one of the table's projections.",
    "PROJSEG_PROJECTION_EXISTS": "A projection of that name is declared otherwise.",
    "PROJSEG_COLUMN_EXISTS": "A column to be added, or the new name of one, exists.",
    "PROJSEG_COLUMN_IN_USE": "A projection, index, time column or sort order needs a column.",
    "PROJSEG_BAD_INDEX": "An index's kind, options or columns cannot be those of an index.",
    "PROJSEG_INDEX_EXISTS": "The table has an index of that name.",
    "PROJSEG_UNKNOWN_INDEX": "The table declares no index of that name.",
    "PROJSEG_DECLARED_TYPE": "A column's stored type is never cast to the type that is declared.",
    "PROJSEG_CANNOT_WIDEN": "A column's type does not become the one asked for without loss.",
    "PROJSEG_UNKNOWN_DEFINITION": "A segment embeds a projection that the table never declared.",
    "PROJSEG_EMPTY_SCHEMA": "A table was declared without columns.",
    "PROJSEG_BAD_TIME_COLUMN": "The time column is missing or is not a time.",
    "PROJSEG_NESTED_CLUSTER_COLUMN": "A cluster column is an array, struct or map.",
    "PROJSEG_BAD_OPTION": "An option's value lies outside its range.",
    "PROJSEG_UNKNOWN_OPTION": "A name is not an option.",
    "PROJSEG_OPTION_CONTRADICTS_TABLE": "An option differs from what the table was created with.",
    "PROJSEG_TOO_MANY_NAMES": "More columns or projections were declared than a table may have.",
    "PROJSEG_BAD_NAME": "A name is empty, too long, not in form NFC, or holds what it must not.",
    "PROJSEG_DUPLICATE_NAME": "Two names differ in case only, or not at all.",
    "PROJSEG_TIME_ZONE_MISSING": "A Spark read or write depends on a time zone that is not known.",
    "PROJSEG_ROWS_CHANGED": "A stream meets a version that took away or replaced rows.",
    "PROJSEG_BAD_OFFSET": "What a stream's checkpoint says of its place does not fit its table.",
    "PROJSEG_QUERY_ID_MISSING": "Spark does not tell which streaming query a batch is of.",
    "PROJSEG_PATH_MISSING": "A Spark read or write names no table location.",
    "PROJSEG_ROWS_OUTSIDE_INTERVAL": "Rows lie outside the interval that they were to replace.",
    "PROJSEG_ROWS_OUTSIDE_FILTER": "Rows do not fulfil the condition of those they replace.",
    "PROJSEG_UNKNOWN_FILE_TYPE": "A file's name does not say whether it is Parquet, CSV or JSON.",
    "PROJSEG_BAD_INPUT_FILE": "A file to import or inspect cannot be read, or does not fit.",
    "PROJSEG_BAD_PROJECTION": "A projection's declaration is malformed or does not fit the table.",
    "PROJSEG_BAD_SCHEMA": "What was given as a schema is neither a Schema nor a dict of types.",
    "PROJSEG_BAD_ROWS": "What was given as rows is in none of the forms that hold rows.",
    "PROJSEG_SCHEMA_MISMATCH": "Columns or types differ from the table's, or from those asked for.",
    "PROJSEG_UNSUPPORTED_TYPE": "A type is none of those that projseg stores.",
    "PROJSEG_NOT_A_STAR": "A join is not one of each row of a fact with at most one row.",
    "PROJSEG_JOIN_KEY_NOT_UNIQUE": "Several rows of a table to be joined have one key.",
    "PROJSEG_JOIN_TOO_LARGE": "A table to be joined has more rows, or bytes, than a join takes.",
    "PROJSEG_EXPRESSION_COSTS": "Spark computes an expression of base rows faster than the engine.",
    "PROJSEG_UNKNOWN_CONTEXT_KEY": "A key of the query context is not one that projseg knows.",
    "PROJSEG_BAD_CONTEXT_VALUE": "A value of the query context is not what its key takes.",
    "PROJSEG_EXTENSION_NOT_BUILT": "Spark's own compiler refuses the extension of its optimizer.",
    "PROJSEG_NOT_MERGEABLE": "Spark cannot merge the states of an aggregate of a partial answer.",
    "PROJSEG_BAD_SQL": "A SELECT is not written as SQL has it.",
    "PROJSEG_UNSUPPORTED_SQL": "SQL asks for more than one SELECT over one table can say.",
    "PROJSEG_UNSUPPORTED_STATEMENT": "A statement of Spark asks for a change that projseg has not.",
    "PROJSEG_BAD_QUERY": "A query's parts contradict each other, or an output has no use.",
    "PROJSEG_BAD_DEFINITION": "A stored projection definition cannot be read back.",
    "PROJSEG_VIEW_EXISTS": "A view of that name, or one that stores the same, is there already.",
    "PROJSEG_UNKNOWN_VIEW": "A name is not one of the table's views.",
    "PROJSEG_BAD_VIEW": "A view's definition or one of its options is none that a view can have.",
    "PROJSEG_VIEW_NOT_DETERMINISTIC": "A view's definition calls what differs from call to call.",
    "PROJSEG_VIEW_NOT_INCREMENTAL": "A refresh would fold everything anew, which the view refuses.",
    "PROJSEG_VIEW_NOT_USABLE": "useView or forceViews cannot be met.",
    "PROJSEG_VIEW_TABLE": "A view's SELECT reads a table that is not projseg's.",
    "PROJSEG_VIEW_READ_ONLY": "A statement writes to a materialized view.",
    "PROJSEG_VIEW_NEEDS_SPARK": "A view is kept as the rows of its SELECT, which Spark computes.",
    "PROJSEG_VIEW_BROKEN": "A view is of another table than the one at its place.",
    "PROJSEG_BAD_SOURCE": "A source of files is not there, or not one that a table can stand over.",
    "PROJSEG_SOURCE_CHANGED": "A file of a source is not what was listed, or a list is not whole.",
    "PROJSEG_SOURCE_GONE": "A file of a source that base rows are needed of is not there.",
    "PROJSEG_SOURCE_DELETES": "A source hides rows in a way that is not read.",
    "PROJSEG_FOREIGN_ROWS": "Rows or columns of a table over files of others were to be changed.",
    "PROJSEG_PROJECTION_NOT_USABLE": "useProjection or forceProjections cannot be met.",
}
_HTTP_STATUS: Final = {
    "PROJSEG_BAD_TOKEN": 401,
    "PROJSEG_PERMISSION_DENIED": 403,
    "PROJSEG_NOT_A_TABLE": 404,
    "PROJSEG_UNKNOWN_TABLE": 404,
    "PROJSEG_UNKNOWN_TAG": 404,
    "PROJSEG_UNKNOWN_NAMESPACE": 404,
    "PROJSEG_UNKNOWN_PRINCIPAL": 404,
    "PROJSEG_TABLE_EXISTS": 409,
    "PROJSEG_NAMESPACE_EXISTS": 409,
    "PROJSEG_NAMESPACE_NOT_EMPTY": 409,
    "PROJSEG_PRINCIPAL_EXISTS": 409,
    "PROJSEG_CATALOG_CONFLICT": 409,
    "PROJSEG_UNKNOWN_VERSION": 410,
    "PROJSEG_LIMIT_EXCEEDED": 413,
    "PROJSEG_KEY_REUSED": 422,
    "PROJSEG_CATALOG_UNAVAILABLE": 503,
    "PROJSEG_CATALOG_BUSY": 503,
    "PROJSEG_CATALOG_STATE_UNKNOWN": 503,
    "PROJSEG_QUERY_TIMEOUT": 504,
}
"""Of HTTP, where the class of an error does not say it."""

MESSAGE_CHARACTERS_MAX: Final = 2_000
_ENDING_CHARACTERS: Final = 600  # of a cut message: its end says what to do


HALF_A_CHARACTER: Final = "holds half of a surrogate pair, which UTF-8 cannot write; leave it out"
_SECRETS: Final = (
    # A user and password before the host; `container@account` of Azure's stores has no colon, and
    # digits before a slash are a port.
    (re.compile(r"(?<=://)[^/\s@:'\"]*:(?!\d+/)[^\s@'\"]*@"), "***@"),
    # A token may stand alone; only a container stands before @ in addresses of Azure.
    (re.compile(r"(?i)\b(?!abfss?:)([a-z][a-z0-9+.-]*://)[^/\s'\"]+@"), r"\1***@"),
    # What signed and tokened addresses have in their queries.
    (
        re.compile(
            r"(?i)([?&;#](?:[a-z0-9_.-]*(?:sig|signature|token|secret|password|passwd|pwd|credential|"
            r"api_?key|access_?key(?:_?id)?|account_?key|auth))=)[^&;#\s'\"]+"
        ),
        r"\1***",
    ),
)


def without_secrets(text: str) -> str:
    """Return a text in which passwords and signatures of addresses are replaced by `***`."""
    if "://" not in text and "=" not in text:
        return text
    for pattern, hidden in _SECRETS:
        text = pattern.sub(hidden, text)
    return text


def is_storable(text: str) -> bool:
    """Whether a text has a form in UTF-8: half of a surrogate pair has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_line(text: str) -> str:
    """Return a text as one line of printable characters that no terminal obeys.

    It has at most `MESSAGE_CHARACTERS_MAX`; the middle of a longer text is left out.
    """
    shortened = _shortened(text)
    if shortened.isprintable():
        return shortened
    return _shortened("".join(map(_printable, shortened)))


def _shortened(text: str) -> str:
    if len(text) <= MESSAGE_CHARACTERS_MAX:
        return text
    gap = f" ... ({len(text):,} characters in all) ... "
    start = MESSAGE_CHARACTERS_MAX - _ENDING_CHARACTERS - len(gap)
    return text[:start] + gap + text[-_ENDING_CHARACTERS:]


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


class ProjsegError(Exception):
    """Base of every deliberate projseg error.

    Parameters
    ----------
    code : str
        A key of `CODES`.
    message : str
        One self-contained line; `one_line` makes it one where it is not, and `without_secrets`
        hides what a location tells.
    """

    def __init__(self, code: str, message: str) -> None:
        message = one_line(without_secrets(message))
        super().__init__(code, message)
        self.code = code
        self.message = message
        if isinstance(self, OSError):
            _without_number(self)

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"

    def to_json(self) -> str:
        """Return the error as JSON text, for programs that read it.

        Returns
        -------
        str
            An object: `error` (the class), `code` and `message`.
        """
        fields = {"error": type(self).__name__, "code": self.code, "message": self.message}
        return json.dumps(fields, ensure_ascii=False)


def _without_number(error: OSError) -> None:
    error.errno = None  # which the system's errors take the code for


class CorruptionError(ProjsegError):
    """Stored bytes contradict SPEC.md."""


class CorruptSegmentError(CorruptionError):
    """Bytes of a segment file contradict SPEC.md; the message says which, and where."""


class CorruptTableError(CorruptionError):
    """A snapshot or manifest contradicts SPEC.md, or a file that it lists is missing."""


class UnsupportedFeatureError(ProjsegError):
    """The file, type or expression may be valid, but this release does not know it."""


class LimitExceededError(ProjsegError):
    """A request, or a size that a file declares, passes a stated limit."""


class InvalidInputError(ProjsegError, ValueError):
    """The caller's data, options or declarations are wrong."""


class ProjectionNotUsableError(InvalidInputError):
    """`useProjection` or `forceProjections` was asked for and cannot be met."""


class MissingPackageError(ProjsegError, ImportError):
    """An optional package is not installed, or not in a release that projseg works with."""


class EvaluationError(ProjsegError, ArithmeticError):
    """An expression met a value for which Spark's ANSI mode raises: overflow, bad cast, x / 0."""

    column: str | None = None
    """The table's column of which a value could not be cast, where that is known."""
    rows: Any = None
    """bool[n], which of the rows that were computed together have no value, where that is known."""


class QueryTimeoutError(ProjsegError, TimeoutError):
    """A query had no answer in the time that was given; its worker was ended."""


class WorkerError(ProjsegError):
    """A process that answers queries ended before it answered; the query changed nothing."""


class StorageError(ProjsegError, OSError):
    """The operating system refused to read, write or list a file; nothing stored was changed.

    Parameters
    ----------
    code, message : str
        As in `ProjsegError`.
    number : int or None
        The system's number of the error, as `errno`.
    """

    def __init__(self, code: str, message: str, number: int | None = None) -> None:
        super().__init__(code, message)
        self.errno = number

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.message, self.errno), self.__dict__


class CatalogError(ProjsegError):
    """A catalog's database cannot do what was asked; tables are read and written by path."""


class CatalogConflictError(CatalogError):
    """A definition is at another version than the edit was made for; read it and try again."""


class CatalogUnavailableError(CatalogError, OSError):
    """A catalog's database does not answer, or is not there."""


class PermissionDeniedError(CatalogError, PermissionError):
    """No token or no grant lets a request of a catalog happen."""


class CatalogStateUnknownError(CatalogError):
    """An edit of a catalog may have landed; read the definition before retrying."""


class CommitError(ProjsegError):
    """A commit failed, or may have failed; nothing committed before is harmed."""


class CommitConflictError(CommitError):
    """Another writer changed what this commit depends on; safe to retry from a new snapshot."""


class CommitStateUnknownError(CommitError):
    """The commit may have landed; read the table's history before retrying."""


def http_status(error: ProjsegError) -> int:
    """Return the status of HTTP by which a server replies with an error."""
    return _HTTP_STATUS.get(error.code) or (400 if isinstance(error, ValueError) else 500)


def place_in(text: str, error: ProjsegError) -> int | None:
    """Return the place in a refused statement that an error names; None if it names none for sure.

    The message says `at character 12`, or has a word of the statement in quotes.
    """
    if stated := re.search(r"at character (\d+)", error.message):
        place = int(stated[1]) - 1
        return place if place < len(text) else None
    for word in re.findall(r"'([^']+)'", error.message):
        if len(found := [*re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]) == 1:
            return found[0].start()
    return None


def error_class(name: str) -> type[ProjsegError] | None:
    """Return the class of projseg's errors that has a name; None if none has."""
    known = globals().get(name)
    return known if isinstance(known, type) and issubclass(known, ProjsegError) else None


def listed(name: str, given: Any, code: str = "PROJSEG_BAD_ARGUMENT") -> list[Any]:
    """Return the items of an argument that is a list, or raise `code`."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInputError(code, f"{name} is {str(given)[:80]!r}; give a list")
    return list(given)


def require_callable(name: str, given: Any) -> None:
    """Raise PROJSEG_BAD_ARGUMENT for an argument that is neither a function nor left out."""
    if given is not None and not callable(given):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"{name} is {str(given)[:80]!r}; give a function, or None"
        )


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `"; did you mean 'x'?"` for the nearest known name, or an empty string."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(str(name).casefold(), by_fold, n=1, cutoff=cutoff)
    return f"; did you mean '{by_fold[near[0]]}'?" if near else ""
