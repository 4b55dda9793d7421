"""`Store`: what a catalog asks of the place that keeps its definitions; its records in REST.

The records are written by a server and read by its clients.
"""

from __future__ import annotations

import base64
import datetime
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, Self, TypeVar

import msgspec

from projseg.catalog.spec.spec_edits import SpecEdit
from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.table_metadata import Action, Name, TableMetadata, TableStatus
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.format_limits import COLUMNS_MAX, NAME_BYTES_MAX
from projseg.segment_format.logical_types import parse_type_name

T = TypeVar("T", int, str)


class Store(Protocol):
    """The definitions of one tenant; `DefinitionStore` says what each method does and raises."""

    @property
    def database(self) -> StoreDatabase:
        """Where the definitions are."""

    @property
    def tenant(self) -> str:
        """Whose definitions."""

    @property
    def user(self) -> str | None:
        """The name of the user who edits, for the history."""

    @property
    def warehouse(self) -> str | None:
        """The folder or prefix where the store puts managed tables.

        None if it leaves that to whoever opens it.
        """

    @property
    def roots(self) -> Sequence[str] | None:
        """Below which registered tables lie that may be opened; None means anywhere."""

    def access(self) -> CatalogAdmin:
        """Return the principals, tokens and grants."""

    def head(self) -> int:
        """Return the version of the newest edit."""

    def load(self, name: Name) -> TableMetadata:
        """Return the definition of a name."""

    def find(self, name: Name) -> TableMetadata | None:
        """Return the definition of a name, or None."""

    def listed(
        self,
        namespace: str | None = None,
        type: str | None = None,
        page: int = 1000,
        *,
        among: tuple[Collection[str] | None, Collection[str] | None] = (None, None),
        after: tuple[str, str] = ("", ""),
    ) -> Iterator[TableMetadata]:
        """Yield the definitions in the order of their names, page by page."""

    def names(self, namespace: str | None, after: tuple[str, str], most: int) -> list[Name]:
        """Return names of definitions, in order, after a key that `Name.folded` is."""

    def put(
        self,
        name: Name,
        spec: TableSpec,
        action: Action = "new",
        version: int | None = None,
        *,
        location: Callable[[str], str | None] = ...,
        is_managed: bool = True,
    ) -> int:
        """Write a whole definition; return its version, or 0 if `ifNew` kept the existing one."""

    def change(self, name: Name, change: SpecEdit, version: int | None = None) -> int:
        """Apply an edit to the newest spec, and return the version."""

    def rename(self, old: Name, new: Name) -> int:
        """Give a definition another name, and return its version; its location stays."""

    def remove(
        self, name: Name, due_us: int, *, removes_files: bool, version: int | None = None
    ) -> TableMetadata:
        """Put a definition into the trash, and return it as it was."""

    def bring_back(self, name: Name, definition: str | None = None) -> int:
        """Bring the newest dropped definition of a name back, or one by its id."""

    def trash(self, due_us: int | None = None) -> Iterator[tuple[TableMetadata, int, bool]]:
        """Yield dropped definitions, when they are due, and whether their files go then."""

    def stage(
        self, name: Name, spec: TableSpec, location: Callable[[str], str | None]
    ) -> TableMetadata:
        """Make a definition without a name, whose first rows are being written."""

    def publish(self, definition: str, due_us: int, *, replace: bool) -> int:
        """Give a staged definition its name, and return the version."""

    def discard(self, definition: str) -> None:
        """Forget a staged definition whose files are gone."""

    def staged(self, before_us: int | None = None) -> list[TableMetadata]:
        """Return the staged definitions, or those that were staged before a time."""

    def begin_removal(self, definition: str) -> bool:
        """Mark a definition in the trash that is due.

        False if it is not due, or not in the trash.
        """

    def forget(self, definition: str) -> None:
        """Remove the row of a definition whose files are gone, or stay."""

    def now_us(self) -> int:
        """Return the earlier one of this machine's and the catalog's time, microseconds UTC."""

    def prune_changes(self, before_us: int) -> None:
        """Forget changes that are older; the feed then begins after them."""

    def record(self, definition: str, **facts: Any) -> None:
        """Write what was seen of a definition's table; its version stays."""

    def changes(self, since: int) -> list[Mapping[str, Any]]:
        """Return the changes after a version, in order."""

    def history(self, found: TableMetadata) -> list[Mapping[str, Any]]:
        """Return the changes of one definition that are kept, oldest first."""

    def namespaces(self) -> list[dict[str, Any]]:
        """Return the namespaces by name; `default` is always one."""

    def put_namespace(
        self, name: str, comment: str | None, properties: Mapping[str, str] | None
    ) -> int:
        """Make a namespace."""

    def remove_namespace(self, name: str, due_us: int, *, cascade: bool) -> int:
        """Remove a namespace.

        With `cascade` its definitions go to the trash, and their data stays.
        """


class StoreDatabase(Protocol):
    """The database that holds a store's definitions: its connections, and its upkeep."""

    uri: str
    path: Path | None

    @property
    def is_missing(self) -> bool:
        """Whether it is a file that is not there, which the first edit makes."""

    def close(self) -> None:
        """Close all connections; the next request opens others."""

    def make(self) -> None:
        """Make the catalog where it is not there."""

    def migrate(self) -> bool:
        """Bring it to this release's schema; whether there was anything to do."""

    def copy_to(self, path: Path) -> None:
        """Copy the store as it is at one moment."""

    def restore_from(self, path: Path) -> None:
        """Put a copy in place of everything."""


class CatalogAdmin(ABC):
    """Who may use a catalog through its server: tenants, principals, tokens and grants.

    Whoever has the database's password needs none of this, and is bound by none of it.
    """

    @abstractmethod
    def create_tenant(
        self, name: str, warehouse: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Create a tenant, or change where its managed and its registered tables may lie."""

    @abstractmethod
    def tenants(self) -> list[dict[str, Any]]:
        """Return tenant, head, warehouse and roots of each."""

    @abstractmethod
    def create_principal(self, name: str, admin: bool = False) -> None:
        """Make a principal of the catalog's tenant."""

    @abstractmethod
    def drop_principal(self, name: str) -> None:
        """Drop a principal with its tokens and grants."""

    @abstractmethod
    def create_token(
        self, principal: str, expires: datetime.datetime | None = None
    ) -> tuple[str, str]:
        """Return a token's id and the token, which is shown this once."""

    @abstractmethod
    def grant(
        self, principal: str, action: str, pattern: str, external_type: str | None = None
    ) -> str:
        """Grant `READ`, `WRITE`, `EXTERNAL` or `ADMIN` where a pattern matches; returns an id."""

    @abstractmethod
    def revoke(self, id: str) -> None:
        """Take a grant, or a token, away; one that is not there stays away."""

    def revoke_token(self, id: str) -> None:
        """Take a token away."""
        self.revoke(id)

    def principals(self) -> list[dict[str, Any]]:
        """Return the principals by name."""
        return self.listed("principals")

    def tokens(self, principal: str | None = None) -> list[dict[str, Any]]:
        """Return the ids of the tokens, never the tokens themselves."""
        return self.listed("tokens", principal)

    def grants(self, principal: str | None = None) -> list[dict[str, Any]]:
        """Return the grants."""
        return self.listed("grants", principal)

    @abstractmethod
    def listed(self, what: str, principal: str | None = None) -> list[dict[str, Any]]:
        """Return `principals`, `tokens` or `grants`."""


def milliseconds_of(expires: datetime.datetime | None) -> int | None:
    """Return when a token expires, in milliseconds since 1970.

    Raises InvalidInputError (PROJSEG_BAD_ARGUMENT) without a time zone.
    """
    if expires is not None and expires.tzinfo is None:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "expires needs a time zone")
    return None if expires is None else int(expires.timestamp() * 1000)


class Change(msgspec.Struct):
    """One change of the feed, with the fields of a row of `changes`.

    Its time is in milliseconds.
    """

    version: int
    name: str
    kind: str
    at: int
    by: str | None
    spec: msgspec.Raw

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return the record of a row."""
        spec = row["spec"] or "null"
        kept = {key: row[key] for key in ("version", "name", "kind", "by")}
        return cls(**kept, at=row["at_us"] // 1000, spec=msgspec.Raw(spec.encode()))

    def row(self) -> dict[str, Any]:
        """Return the row."""
        spec = bytes(self.spec).decode()
        found = msgspec.structs.asdict(self)
        return {**found, "at_us": self.at * 1000, "spec": None if spec == "null" else spec}


class Changes(msgspec.Struct, omit_defaults=True):
    """A page of the feed, with the tenant's head and epoch before it was read; or of a history."""

    changes: list[Change]
    head: int | None = None
    epoch: str | None = None
    nextPageToken: str | None = None


class Tables(msgspec.Struct):
    """A page of definitions."""

    tables: list[msgspec.Raw]
    nextPageToken: str | None


class DroppedTable(msgspec.Struct, rename="camel"):
    """A dropped definition; times are in milliseconds."""

    id: str
    name: str
    deleted_at: int
    due_at: int
    removes_files: bool
    table: msgspec.Raw


class DroppedTables(msgspec.Struct, rename="camel"):
    """A page of the trash."""

    items: list[DroppedTable]
    next_page_token: str | None = None


_Seen = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
_ByColumn = msgspec.Meta(max_length=COLUMNS_MAX)
SEEN_BYTES_MAX: Final = 1 << 20
_INTEGER_MAX: Final = 2**63 - 1


class SeenTable(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a client tells of a definition's table."""

    table_id: _Seen
    bindings: Annotated[dict[_Seen, _Seen], _ByColumn]
    stored_schema: Annotated[dict[_Seen, str], _ByColumn]
    stored_version: Annotated[int, msgspec.Meta(ge=0, le=_INTEGER_MAX)]
    stored_status: TableStatus | None = None


def check_seen(seen: SeenTable) -> None:
    """Refuse what no table has, as lists and pages of definitions show it to everybody.

    Raises InvalidInputError (PROJSEG_BAD_ARGUMENT).
    """
    size = len(msgspec.json.encode(seen))
    if size > SEEN_BYTES_MAX:
        raise _bad_seen(f"it has {size} bytes; at most {SEEN_BYTES_MAX} are kept")
    for name, text in seen.stored_schema.items():
        try:
            parse_type_name(text)
        except ProjsegError as error:
            raise _bad_seen(f"column '{name}': {error.message}") from error
    status = seen.stored_status
    for record in () if status is None else (status, *status.projections):
        for field in record.__struct_fields__:
            value = getattr(record, field)
            if isinstance(value, int) and not 0 <= value <= _INTEGER_MAX:
                raise _bad_seen(f"{field} is {value}; it is between 0 and {_INTEGER_MAX}")


def _bad_seen(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", f"$: {problem}")


def page_token(key: tuple[str, str] | tuple[int, str]) -> str:
    """Return the token of the page after a key; `Name.folded` is one."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def key_of_page(token: str | None, first: tuple[T, str]) -> tuple[T, str]:
    """Return the key of a page's token; without one, that before all pages, of the same types.

    Raises InvalidInputError (PROJSEG_BAD_ARGUMENT).
    """
    if not token:
        return first
    try:
        text = base64.urlsafe_b64decode(token.encode())
        found: tuple[T, str] = msgspec.json.decode(text, type=tuple[type(first[0]), str])  # type: ignore[misc]
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "the pageToken is none of ours") from error
    return found
