"""Requests of the REST interface: who asks, for what, with which rights; pages of names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Final, TypeVar

import msgspec

from projseg.catalog.definitions import Definitions
from projseg.catalog.store.definition_store import DefinitionStore
from projseg.catalog.store.grants import Caller
from projseg.catalog.store.kept_replies import KeptContent, KeptReply, RequestKey
from projseg.catalog.store.operations import RestOperation, Version
from projseg.catalog.store.store_contract import key_of_page, page_token
from projseg.catalog.store.table_metadata import (
    ACTIVE,
    DELETED,
    STAGED,
    Name,
    TableMetadata,
    parse_name,
)
from projseg.catalog.store.tenant_edits import PAGE_BYTES
from projseg.catalog.table_places import TablePlaces
from projseg.errors import InvalidInputError, PermissionDeniedError

ROWS_MAX: Final = 1000
_NAMES_MAX: Final = 10_000
DEFINITIONS_MAX: Final = 100
_ABSENT: Final = {
    ACTIVE: "there is no such definition",
    STAGED: "no such definition is being made",
    DELETED: "the trash holds no such definition",
}
T = TypeVar("T")
K = TypeVar("K", int, str)
R = TypeVar("R")


@dataclass(frozen=True)
class RestRequest:
    """One request of a known caller to the definitions of their tenant, and where its tables lie.

    `path` and `query` have the parts of the path and the parameters. `known_tags` has the tags in
    `If-None-Match`, of replies that the client has; `key` is the value of `Idempotency-Key`.
    `granted` is the definition that the path names, on which the caller has what the operation
    needs.
    """

    operation: RestOperation
    store: DefinitionStore
    places: TablePlaces
    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    known_tags: tuple[str, ...] = ()
    key: RequestKey | None = None
    granted: TableMetadata | None = None

    @property
    def name(self) -> Name:
        """The definition that the path names."""
        return parse_name((self.path["ns"], self.path["name"]))

    def judged(self) -> RestRequest:
        """Return the request with its definition, once the caller has what the operation needs.

        WRITE on a name is judged by the store, in the transaction that edits.
        """
        operation = self.operation
        if operation.needs == "ADMIN" and not self.caller.is_admin:
            raise PermissionDeniedError(
                "PROJSEG_PERMISSION_DENIED", f"'{self.caller.principal}' is no admin of the tenant"
            )
        if operation.states:
            found = self.store.by_id(self.path["id"], *operation.states)
            absent = _ABSENT[operation.states[0]]
        elif operation.needs == "READ":
            found = self.store.find(self.name)
            absent = f"the catalog has no definition '{self.name}'"
        else:
            return self
        if found is None or not self.caller.may("READ", found.full_name):
            raise InvalidInputError("PROJSEG_UNKNOWN_TABLE", absent)
        if operation.needs == "WRITE":
            self.caller.require("WRITE", found.full_name)
        return replace(self, granted=found)

    @property
    def definition(self) -> TableMetadata:
        """The definition that the path names, which the caller may read, or edit by its id."""
        assert self.granted is not None, "`judged` finds it"
        return self.granted

    def reply(self, content: Any = None, status: int | None = None) -> RestReply:
        """Return a reply; its status is the operation's first, unless another is given."""
        return RestReply(content, self.operation.statuses[0] if status is None else status)

    def edited(
        self,
        edit: Callable[[Definitions], T],
        content: Callable[[T], Any] | None = None,
        status: int | None = None,
    ) -> RestReply:
        """Do the request's one edit; its reply is kept with it where the operation keeps replies.

        `content` is made of the edit's result, by default the version or nothing; `status` is as in
        `reply`.
        """

        def reply_of(result: T) -> RestReply:
            if content is not None:
                return self.reply(content(result), status)
            has_version = self.operation.reply is Version
            return self.reply({"version": result} if has_version else None, status)

        store = self.store
        if self.key is not None and self.operation.keeps_reply:
            kept = KeptReply(self.key, lambda result: reply_of(result).to_kept())
            store = replace(store, kept=kept)
        return reply_of(edit(Definitions(store, self.places)))

    def unless_known(self, tag: str, content: Callable[[], str]) -> RestReply:
        """Return a JSON text with its tag, or that the client has it."""
        if {"*", f'"{tag}"'} & set(self.known_tags):
            return RestReply(None, 304, tag)
        return RestReply(content(), tag=tag)

    def whole_body(self) -> bytes:
        """Return the body, in which no object has two fields of one name: one would be ignored."""
        repeated = _repeated_field(self.body)
        if repeated is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"an object of the body has the field '{repeated[:80]}' twice; give it once",
            )
        return self.body

    def json(self) -> Any:
        """Return the body's value."""
        try:
            return msgspec.json.decode(self.whole_body() or b"{}")
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInputError("PROJSEG_BAD_SPEC", f"$: {str(error)[:200]}") from error

    def record(self, form: type[R]) -> R:
        """Return the body as a record of a form; none at all is one without fields."""
        try:
            return msgspec.json.decode(self.whole_body() or b"{}", type=form)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"$: {str(error)[:200]}") from error

    def number(self, name: str) -> int | None:
        """Return a parameter that is a whole number."""
        text = self.query.get(name)
        if text is not None and not (text.isdecimal() and len(text) < 19):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"{name} is '{text[:40]}', no whole number of at most 18 digits",
            )
        return None if text is None else int(text)

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false."""
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"{name} is '{text[:40]}'; it is true or false"
            )
        return text == "true"


@dataclass(frozen=True)
class RestReply:
    """A reply: values of JSON or a JSON text, and the status of HTTP.

    The tag differs whenever the content does, for `ETag`.
    """

    content: Any = None
    status: int = 200
    tag: str | None = None

    def to_kept(self) -> KeptContent:
        """Return it as it is kept."""
        if self.content is None:
            return KeptContent(self.status, None)
        is_text = isinstance(self.content, str)
        text = self.content if is_text else msgspec.json.encode(self.content).decode()
        return KeptContent(self.status, text)


def _repeated_field(body: bytes) -> str | None:
    """Return a name that an object of a JSON text has twice; None also of what is no JSON."""
    repeated: list[str] = []

    def note(fields: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in fields:
            if name in seen:
                repeated.append(name)
            seen.add(name)

    with suppress(ValueError, RecursionError):  # its reader says what is wrong
        json.loads(body, object_pairs_hook=note)
    return repeated[0] if repeated else None


def page_size(request: RestRequest, most: int) -> int:
    """Return how many rows a page has at most."""
    size = request.number("pageSize")
    if size == 0:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "pageSize is 0; a page has 1 row at least")
    return min(size or ROWS_MAX, most)


def page_after(request: RestRequest, first: tuple[K, str]) -> tuple[K, str]:
    """Return the key before a page; `first` is that before all."""
    return key_of_page(request.query.get("pageToken"), first)


def filled(rows: Iterator[tuple[T, int, str]], size: int) -> tuple[list[T], str | None]:
    """Return a page of rows, at least one, and the token of the next.

    A row comes with its bytes and the token of the page after it; a page has at most `size` rows
    and `PAGE_BYTES`.
    """
    found: list[T] = []
    left, token = PAGE_BYTES, ""
    for row, size_bytes, after in rows:
        if len(found) == size or (found and size_bytes > left):
            return found, token
        found.append(row)
        left, token = left - size_bytes, after
    return found, None


def page_of(request: RestRequest) -> tuple[list[Name], str | None]:
    """Return a page of readable names, and the token of the next; a token is the last key."""
    size, namespace = page_size(request, _NAMES_MAX), _namespace(request)
    names = _names(request, namespace, page_after(request, ("", "")), size + 1)
    return filled(((name, 0, page_token(name.folded)) for name in names), size)


def definitions_of(request: RestRequest) -> Iterator[TableMetadata]:
    """Yield the readable definitions from the asked page on; `filled` ends it."""
    size, namespace = page_size(request, DEFINITIONS_MAX), _namespace(request)
    after = page_after(request, ("", ""))
    for found in request.store.listed(namespace, page=size + 1, after=after):
        if request.caller.may("READ", found.full_name):
            yield found


def _namespace(request: RestRequest) -> str | None:
    """Return the namespace that a page is of, if the path names one."""
    found = request.path.get("ns")
    if found is not None and request.store.namespace(found) is None:
        raise InvalidInputError("PROJSEG_UNKNOWN_NAMESPACE", "there is no such namespace")
    return found


def _names(
    request: RestRequest, namespace: str | None, after: tuple[str, str], size: int
) -> Iterator[Name]:
    while True:
        names = request.store.names(namespace, after, size)
        allowed = request.caller.allowed("READ", [name.text for name in names])
        yield from compress(names, allowed)
        if len(names) < size:
            return
        after = names[-1].folded
