"""Records of the REST interface, which a server writes and its clients read."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from projseg.catalog.store.table_metadata import TableStatus
from projseg.errors import InvalidInputError


class Change(msgspec.Struct):
    """One change of the feed: as of a row of `changes`, its time in milliseconds."""

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
    """A part of the feed, with the tenant's head and epoch before it was read; or a history."""

    changes: list[Change]
    head: int | None = None
    epoch: str | None = None


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
    """The trash."""

    items: list[DroppedTable]
    next_page_token: str | None = None


class SeenTable(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a client tells of a definition's table."""

    table_id: str
    bindings: dict[str, str]
    stored_schema: dict[str, str]
    stored_version: int
    stored_status: TableStatus | None = None


def page_token(key: tuple[str, str]) -> str:
    """Return the token of the page after a key; `Name.folded` is one."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def key_of_page(token: str | None) -> tuple[str, str]:
    """Return the key that a token is of.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_ARGUMENT.
    """
    if not token:
        return ("", "")
    try:
        namespace, name = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "the pageToken is none of ours") from error
    return str(namespace), str(name)
