"""A definition as the database keeps it, and the names of definitions."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from projseg.catalog.spec.table_spec import TableSpec
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_problem

DEFAULT_NAMESPACE: Final = "default"
RESERVED_NAMESPACE: Final = "information_schema"
ACTIVE: Final = "ACTIVE"
DELETED: Final = "DELETED"
DELETING: Final = "DELETING"
STAGED: Final = "STAGED"
"""Being made with its first rows, without a name."""

_NAME_BYTES_MAX: Final = 200
_NOT_IN_NAMES: Final = "/\\:#%"
_UNSEEN: Final = ("Cf", "Zl", "Zp", "Zs")
_BLANK: Final = re.compile(
    # What Unicode calls "default ignorable" in other categories, and the blank of Braille.
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)

Action = Literal["new", "ifNew", "replace", "force"]
ACTIONS: Final = ("new", "ifNew", "replace", "force")
NameLike: TypeAlias = str | Sequence[str]
"""`"namespace.name"`, `"name"` in `default`, or the two as a pair, whose parts may hold dots."""


class Name(NamedTuple):
    """The name of a definition, as it was written."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def folded(self) -> tuple[str, str]:
        """The form of a name that is compared; equal names have the same form."""
        return self.namespace.casefold(), self.name.casefold()

    @property
    def text(self) -> str:
        """The text of no other name: dots of the namespace are `%2E`, and no name has a `%`."""
        return f"{self.namespace.replace('.', '%2E')}.{self.name}"

    @property
    def folded_name(self) -> Name:
        """The name in the spelling that all spellings of it share, in a namespace as it is."""
        return Name(self.namespace, unicodedata.normalize("NFC", self.name.casefold()))


def parse_name(given: NameLike) -> Name:
    """Return the name that a text or a pair is."""
    parts: list[str] = []
    if isinstance(given, str):
        parts = given.split(".")
    elif isinstance(given, list | tuple):
        parts = list(given)
    if len(parts) == 1:
        parts = [DEFAULT_NAMESPACE, *parts]
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise InvalidInputError(
            "PROJSEG_BAD_NAME",
            f"{given!r} is not the name of a definition; write 'namespace.name', or a pair of "
            "texts where one holds a dot"[:300],
        )
    name = Name(check_name(parts[0]), check_name(parts[1]))
    if name.namespace.casefold() == RESERVED_NAMESPACE:
        raise InvalidInputError(
            "PROJSEG_BAD_NAME", f"namespace '{name.namespace}' is the catalog's own"
        )
    return name


def check_name(name: str) -> str:
    """Return a name that may be a folder's."""
    if not isinstance(name, str):
        raise InvalidInputError("PROJSEG_BAD_NAME", f"a name is a text, and not {name!r:.80}")
    problem = name_problem(name)
    if problem is None and len(name.encode()) > _NAME_BYTES_MAX:
        problem = f"has more than {_NAME_BYTES_MAX} bytes of UTF-8"
    if problem is None and name.startswith("."):
        problem = "begins with a dot"
    if problem is None and (found := [letter for letter in _NOT_IN_NAMES if letter in name]):
        problem = f"contains '{found[0]}'"
    if problem is not None:
        raise _bad_name(name, problem)
    return name


def check_new_name(name: str) -> str:
    """Return a name that may be given: besides, each of its characters can be seen."""
    for letter in check_name(name):
        is_unseen = letter != " " and unicodedata.category(letter) in _UNSEEN
        if is_unseen or _BLANK.match(letter):
            raise _bad_name(name, f"has the character U+{ord(letter):04X}, which nobody sees")
    if name != " ".join(name.split()):
        raise _bad_name(name, "begins or ends with a space, or has two in a row")
    return name


def _bad_name(name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_NAME", f"'{name[:80]}' cannot name a table or namespace: it {problem}"
    )


def check_action(action: str) -> None:
    """Refuse what is no action."""
    if action not in ACTIONS:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"action '{action}' is none of {', '.join(ACTIONS)}"
            f"{did_you_mean(str(action), ACTIONS)}",
        )


class ProjectionStatus(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The state of a projection in the segments of its table, with its rows and bytes there.

    `ENABLED`: in all segments; `PARTIAL`: in some; `DISABLED`: in none; `FAILED`: it could not be
    built in some. Segments that its scope leaves out count as none of these.
    """

    name: str
    status: str
    segments: int
    missing: int
    failed: int
    rows: int
    bytes: int


class TableStatus(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a table held at a version, and when it was counted, in microseconds since 1970.

    Projections are in the table's order, then those that only the definition has.
    """

    table_version: int
    at_us: int
    segments: int
    rows: int
    bytes: int
    projections: list[ProjectionStatus]


class TableMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A definition with what the catalog knows of it.

    Parameters
    ----------
    id : str
        Of the definition; a table that is dropped and created anew has another.
    namespace, name, type : str
        As written.
    state : str
        ACTIVE, or DELETED while it may be brought back.
    version : int
        Of the definition; each edit in the tenant takes a higher number.
    created_us, updated_us : int
        Microseconds since 1970, UTC.
    owner, updated_by : str or None
        As given to the catalog, never guessed.
    location : str or None
        Where the table is, or will be; None for what is no table.
    managed : bool
        Whether the catalog chose the location.
    table_id : str or None
        Of the table that was seen there first.
    bindings : dict of str to str
        The stored name of each declared column that was seen, by its name without case.
    stored_schema : dict of str to str
        The table's columns and types when they were last seen.
    stored_version : int or None
        The table version at which that was.
    stored_status : TableStatus or None
        What the table held when that was last counted.
    spec : TableSpec
        What the user wrote.
    """

    id: str
    namespace: str
    name: str
    type: str
    state: str
    version: int
    created_us: int
    updated_us: int
    owner: str | None = None
    updated_by: str | None = None
    location: str | None = None
    managed: bool = True
    table_id: str | None = None
    bindings: dict[str, str] = {}
    stored_schema: dict[str, str] = {}
    stored_version: int | None = None
    stored_status: TableStatus | None = None
    spec: TableSpec

    @property
    def full_name(self) -> Name:
        """Namespace and name."""
        return Name(self.namespace, self.name)

    def to_json(self) -> str:
        """Return it as JSON text, as the REST interface has it: times in milliseconds."""
        found = _MetadataJson(
            definition=self.id,
            id={"schema": self.namespace, "name": self.name},
            creation_time=self.created_us // 1000,
            update_time=self.updated_us // 1000,
            spec=msgspec.Raw(self.spec.to_json().encode()),
            **{field: getattr(self, field) for field in _SAME},
        )
        return msgspec.json.encode(found).decode()

    @property
    def tag(self) -> str:
        """What differs whenever `to_json` does: the version, and a digest of what was recorded.

        A version comes again after a backup was restored, but not at the same time.
        """
        seen = (self.table_id, self.bindings, self.stored_schema, self.stored_version, self.state)
        text = repr((self.updated_us, *seen, self.stored_status))
        return f"{self.version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def metadata_of_json(content: bytes) -> TableMetadata:
    """Return the definition that `TableMetadata.to_json` wrote."""
    found = msgspec.json.decode(content, type=_MetadataJson)
    spec = TableSpec.of(bytes(found.spec).decode())
    return TableMetadata(
        id=found.definition,
        namespace=found.id["schema"],
        name=found.id["name"],
        type=spec.type,
        created_us=found.creation_time * 1000,
        updated_us=found.update_time * 1000,
        spec=spec,
        **{field: getattr(found, field) for field in _SAME},
    )


class _MetadataJson(msgspec.Struct, kw_only=True, rename="camel"):
    definition: str
    id: dict[str, str]
    creation_time: int
    update_time: int
    version: int
    state: str
    owner: str | None
    updated_by: str | None
    location: str | None
    managed: bool
    spec: msgspec.Raw
    table_id: str | None
    bindings: dict[str, str]
    stored_schema: dict[str, str]
    stored_version: int | None
    stored_status: TableStatus | None = None


_SAME: Final = tuple(
    set(_MetadataJson.__struct_fields__) & set(TableMetadata.__struct_fields__) - {"id", "spec"}
)
COLUMNS: Final = tuple(TableMetadata.__struct_fields__)
"""The columns of a row of `definitions` that make a `TableMetadata`, in order."""


def metadata_of(row: Sequence[Any]) -> TableMetadata:
    """Return the definition that a row of the database is, its values in the order of `COLUMNS`."""
    fields = dict(zip(COLUMNS, row, strict=True))
    fields["spec"] = TableSpec.of(fields["spec"])
    fields["managed"] = bool(fields["managed"])
    for key in ("bindings", "stored_schema"):
        fields[key] = json.loads(fields[key]) if fields[key] else {}
    if (status := fields["stored_status"]) is not None:
        fields["stored_status"] = msgspec.json.decode(status, type=TableStatus)
    return TableMetadata(**fields)
