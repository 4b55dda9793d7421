"""The definitions of a tenant behind a server: the store of SQL, asked by REST."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from projseg.catalog.spec.spec_edits import SpecEdit
from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.operations import Begun, Names, NewSchema, Register, Rename
from projseg.catalog.store.rest_client import (
    Received,
    RestAccess,
    RestConnection,
    decoded,
    pages,
)
from projseg.catalog.store.store_contract import (
    Changes,
    DroppedTables,
    SeenTable,
    Tables,
    page_token,
)
from projseg.catalog.store.table_metadata import (
    Action,
    Name,
    TableMetadata,
    check_action,
    metadata_of_json,
)
from projseg.errors import CatalogConflictError, InvalidInputError, PermissionDeniedError

_RANDOM: Final = random.SystemRandom()
_KNOWN_MAX: Final = 10_000
_EDIT_TRIES: Final = 200
_SPECS: Final = 100
_NAMES: Final = 10_000
_UNKNOWN: Final = ("PROJSEG_UNKNOWN_TABLE", "PROJSEG_UNKNOWN_NAMESPACE")


class _Configuration(msgspec.Struct):
    """What a client needs to know of its tenant."""

    tenant: str
    warehouse: str | None
    roots: tuple[str, ...]
    head: int


class _Schemas(msgspec.Struct):
    """A page of namespaces."""

    schemas: list[dict[str, Any]]


class RestStore:
    """The definitions that a token may read, and the edits that it may make.

    The token must be of the tenant, if one is given. Replies are kept with their tags, and a
    request that meets nothing new is answered by 304.
    """

    user: str | None = None

    def __init__(self, uri: str, token: str | None, timeout: float, tenant: str | None) -> None:
        self.database = RestConnection(uri, token, timeout)
        self._wanted = tenant
        self._config: _Configuration | None = None
        self._known: dict[tuple[str, str], tuple[str, TableMetadata]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @property
    def tenant(self) -> str:
        """Whose definitions: the token's."""
        return self._configured().tenant

    @property
    def warehouse(self) -> str | None:
        """Where the server puts managed tables."""
        return self._configured().warehouse

    @property
    def roots(self) -> Sequence[str]:
        """Below which registered tables lie."""
        return self._configured().roots

    def access(self) -> RestAccess:
        """Principals, tokens and grants, for admins."""
        return RestAccess(self._call)

    def head(self) -> int:
        """Return the version of the newest edit."""
        return self._call("config").record(_Configuration).head

    def load(self, name: Name) -> TableMetadata:
        """Return the definition of a name, as in `DefinitionStore`."""
        known = self._known.get(name.folded)
        try:
            reply = self._call("metadata_of", *name, tag=None if known is None else known[0])
        except InvalidInputError:
            self._known.pop(name.folded, None)
            raise
        if reply.status == 304 and known is not None:
            return known[1]
        found = decoded(reply.content, metadata_of_json)
        self._keep(found, reply.tag)
        return found

    def find(self, name: Name) -> TableMetadata | None:
        """Return the definition of a name, or None."""
        try:
            return self.load(name)
        except InvalidInputError as error:
            if error.code in _UNKNOWN:
                return None
            raise

    def listed(
        self,
        namespace: str | None = None,
        type: str | None = None,
        page: int = _SPECS,
        *,
        among: tuple[Collection[str] | None, Collection[str] | None] = (None, None),
        after: tuple[str, str] = ("", ""),
    ) -> Iterator[TableMetadata]:
        """Yield the definitions in the order of their names, page by page."""
        schemas, names = (
            None if some is None else {one.casefold() for one in some} for some in among
        )
        for schema, token in self._schemas(namespace, after):
            if schemas is not None and schema.casefold() not in schemas:
                continue
            for found in self._of_namespace(schema, names, page, token):
                is_after = found.full_name.folded > after
                if is_after and (type is None or found.type == type):
                    yield found

    def _of_namespace(
        self, schema: str, names: Collection[str] | None, page: int, token: str | None
    ) -> Iterator[TableMetadata]:
        if names is not None:
            loaded = (self.find(Name(schema, name)) for name in sorted(names))
            yield from (one for one in loaded if one is not None)
            return
        while token is not None:
            query = {"pageSize": min(page, _SPECS), "pageToken": token}
            try:
                reply = self._call("tables", schema, query=query)
            except InvalidInputError as error:
                if error.code in _UNKNOWN:
                    return  # dropped since it was listed
                raise
            content = reply.record(Tables)
            for text in content.tables:
                yield decoded(bytes(text), metadata_of_json)
            token = content.nextPageToken

    def names(self, namespace: str | None, after: tuple[str, str], most: int) -> list[Name]:
        """Return names of definitions, in order, after a key that `Name.folded` is."""
        found: list[Name] = []
        for schema, first in self._schemas(namespace, after):
            token: str | None = first
            while token is not None and len(found) < most:
                query = {"pageSize": _NAMES, "pageToken": token}
                page = self._call("table_names", schema, query=query).record(Names)
                found += [Name(schema, name) for name in page.names]
                token = page.next_page_token
        return found[:most]

    def _schemas(self, namespace: str | None, after: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the namespaces that have names after a key, and the token of each one's page."""
        known = {str(found["name"]).casefold(): str(found["name"]) for found in self.namespaces()}
        wanted = known if namespace is None else {namespace.casefold()} & known.keys()
        for folded in sorted(wanted):
            if folded >= after[0]:
                yield known[folded], page_token(after) if folded == after[0] else ""

    def put(
        self,
        name: Name,
        spec: TableSpec,
        action: Action = "new",
        version: int | None = None,
        *,
        location: Callable[[str], str | None] = lambda _: None,
        is_managed: bool = True,
    ) -> int:
        """Write a whole definition, as in `DefinitionStore`; the server places managed tables."""
        check_action(action)
        text, query = spec.to_json().encode(), {"action": action, "version": version}
        if is_managed:
            return self._call("create", *name, body=text, query=query).version
        body = Register(location("") or "", msgspec.Raw(text))
        return self._call("register", *name, body=body, query=query).version

    def change(self, name: Name, change: SpecEdit, version: int | None = None) -> int:
        """Apply an edit to the newest spec; what has no request is written if nobody is faster."""
        operation = change.operation
        if operation == "merge" or (operation is not None and version is None):
            query = {"version": version}
            return self._call(operation, *name, body=change.body, query=query).version
        for tries in range(_EDIT_TRIES):
            found = self.load(name)
            try:
                return self.put(name, change.apply(found.spec), "replace", version or found.version)
            except CatalogConflictError:
                if version is not None or tries == _EDIT_TRIES - 1:
                    raise
            time.sleep(_RANDOM.uniform(0, min(0.25, 0.005 * 2**tries)))
        raise AssertionError("the last try returns or raises")

    def rename(self, old: Name, new: Name) -> int:
        """Give a definition another name; its location stays. Returns the version."""
        body = Rename(list(old), list(new))
        return self._call("rename", body=body).version

    def remove(
        self, name: Name, due_us: int, *, removes_files: bool, version: int | None = None
    ) -> TableMetadata:
        """Put a definition into the trash, and return it as it was; the server says until when."""
        found = self.load(name)
        data = "keep" if not removes_files else "trash"
        query = {"data": "now" if due_us <= time.time_ns() // 1000 else data, "version": version}
        self._call("drop", *name, query=query)
        return found

    def bring_back(self, name: Name, definition: str | None = None) -> int:
        """Bring the newest dropped definition of a name back, or one by its id."""
        wanted = [
            found.id
            for found, _, _ in self.trash()
            if found.id == definition
            or (definition is None and found.full_name.folded == name.folded)
        ]
        if not wanted:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_TABLE",
                f"the trash holds no definition '{definition or name}'; it may have been due",
            )
        return self._call("undrop", wanted[-1]).version

    def trash(self, due_us: int | None = None) -> Iterator[tuple[TableMetadata, int, bool]]:
        """Yield dropped definitions, when they are due, and whether their files go then."""
        for reply in pages(self._call, "trash"):
            for one in reply.record(DroppedTables).items:
                found, due = decoded(bytes(one.table), metadata_of_json), one.due_at * 1000
                if due_us is None or due <= due_us:
                    yield found, due, one.removes_files

    def stage(
        self, name: Name, spec: TableSpec, location: Callable[[str], str | None]
    ) -> TableMetadata:
        """Make a definition without a name; the server places its table."""
        reply = self._call("stage", *name, body=spec.to_json().encode())
        return decoded(reply.content, metadata_of_json)

    def publish(self, definition: str, due_us: int, *, replace: bool) -> int:
        """Give a staged definition its name, and return the version."""
        query = {"replace": "true" if replace else "false"}
        return self._call("publish", definition, query=query).version

    def discard(self, definition: str) -> None:
        """Forget a staged definition whose files are gone."""
        self._call("discard", definition)

    def staged(self, before_us: int | None = None) -> list[TableMetadata]:
        """Return nothing: unfinished definitions are left to the `gc` of the server's operator."""
        return []

    def begin_removal(self, definition: str) -> bool:
        """Mark a definition in the trash that is due; False if it is not, or was brought back."""
        try:
            return self._call("begin_removal", definition).record(Begun).begun
        except InvalidInputError as error:
            if error.code in _UNKNOWN:
                return False
            raise

    def forget(self, definition: str) -> None:
        """Remove the row of a definition whose files are gone, or stay."""
        self._call("forget", definition)

    def now_us(self) -> int:
        """Return this machine's time; the server judges by its own what is due."""
        return time.time_ns() // 1000

    def prune_changes(self, before_us: int) -> None:
        """Leave that to the `gc` of whoever runs the server."""

    def record(self, definition: str, **facts: Any) -> None:
        """Tell the server what was seen of a definition's table, where that is allowed."""
        body = SeenTable(**facts)
        try:
            self._call("record", definition, body=body)
        except PermissionDeniedError:
            return  # whoever may write tells it
        except InvalidInputError as error:
            if error.code not in _UNKNOWN:
                raise

    def changes(self, since: int) -> list[Mapping[str, Any]]:
        """Return the changes after a version, in order."""
        return self._changes("changes", since=since)

    def history(self, found: TableMetadata) -> list[Mapping[str, Any]]:
        """Return the changes of one definition that are kept, oldest first."""
        return self._changes("history", *found.full_name)

    def _changes(
        self, operation: str, *parts: str, since: int | None = None
    ) -> list[Mapping[str, Any]]:
        replies = pages(self._call, operation, *parts, query={"since": since})
        found = (reply.record(Changes).changes for reply in replies)
        return [one.row() for page in found for one in page]

    def namespaces(self) -> list[dict[str, Any]]:
        """Return the namespaces by name; `default` is always one."""
        replies = pages(self._call, "schemas")
        return [one for page in replies for one in page.record(_Schemas).schemas]

    def put_namespace(
        self, name: str, comment: str | None, properties: Mapping[str, str] | None
    ) -> int:
        """Make a namespace."""
        body = NewSchema(comment, dict(properties or {}))
        return self._call("create_schema", name, body=body).version

    def remove_namespace(self, name: str, due_us: int, *, cascade: bool) -> int:
        """Remove a namespace; with `cascade` its definitions go to the trash, their data stays."""
        query = {"cascade": "true" if cascade else "false"}
        self._call("drop_schema", name, query=query)
        return self.head()

    def _call(self, operation: str, *parts: str, **more: Any) -> Received:
        self._configured()
        return self.database.call(operation, *parts, **more)

    def _configured(self) -> _Configuration:
        if self._config is None:
            found = self.database.call("config").record(_Configuration)
            if self._wanted not in (None, found.tenant):
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT",
                    f"the token is of tenant '{found.tenant}', and not of '{self._wanted}'",
                )
            self._config = found
        return self._config

    def _keep(self, found: TableMetadata, tag: str | None) -> None:
        if tag is None:
            return
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[found.full_name.folded] = (tag, found)
