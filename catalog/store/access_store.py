"""Who may do what to a tenant's definitions: principals, their tokens, and grants."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from projseg.catalog.spec.table_spec import SPECS
from projseg.catalog.store.databases import Database
from projseg.catalog.store.grants import (
    ACTIONS,
    GRANTS_MAX,
    Caller,
    Grant,
    grant_pattern,
    pattern_problem,
)
from projseg.catalog.store.store_contract import CatalogAdmin, milliseconds_of
from projseg.catalog.store.table_metadata import check_new_name
from projseg.catalog.store.tenant_edits import TENANTS, Edit, TenantEdits, now_us
from projseg.errors import InvalidInputError, PermissionDeniedError

_TOKEN_BYTES: Final = 32
_USED_AFTER_US: Final = 60_000_000  # last use is written so seldom

_PRINCIPALS: Final = sa.table(
    "principals", *map(sa.column, ("tenant", "name", "is_admin", "since", "created_us"))
)
_TOKENS: Final = sa.table(
    "tokens",
    *map(
        sa.column,
        ("id", "tenant", "principal", "digest", "created_us", "expires_us", "used_us"),
    ),
)
_GRANTS: Final = sa.table(
    "grants",
    *map(sa.column, ("id", "tenant", "principal", "action", "pattern", "external_type")),
)
_OF_TOKEN: Final = sa.and_(
    _PRINCIPALS.c.tenant == _TOKENS.c.tenant, _PRINCIPALS.c.name == _TOKENS.c.principal
)
# Made once, as each request asks them.
_CALLER: Final = (
    sa.select(_TOKENS, _PRINCIPALS.c.is_admin, _PRINCIPALS.c.since)
    .add_columns(TENANTS.c.warehouse, TENANTS.c.roots)
    .join_from(_TOKENS, _PRINCIPALS, _OF_TOKEN)
    .outerjoin(TENANTS, TENANTS.c.tenant == _TOKENS.c.tenant)
    .where(_TOKENS.c.id == sa.bindparam("id"))
)
_GRANTS_OF: Final = sa.select(_GRANTS.c.action, _GRANTS.c.pattern, _GRANTS.c.external_type).where(
    _GRANTS.c.tenant == sa.bindparam("tenant"), _GRANTS.c.principal == sa.bindparam("principal")
)


def caller_of(database: Database, token: str) -> Caller:
    """Return whom a token is of."""
    id_, _, secret = token.partition(".")
    now = now_us()
    with database.reading() as connection:
        found = connection.execute(_CALLER, {"id": id_}).first()
        digest = "" if found is None else found.digest
        is_right = hmac.compare_digest(digest, _digest(secret))
        if found is None or not is_right or (found.expires_us or now + 1) <= now:
            raise PermissionDeniedError(
                "PROJSEG_BAD_TOKEN", "the token is unknown, expired or revoked; ask for another"
            )
        grants = connection.execute(
            _GRANTS_OF, {"tenant": found.tenant, "principal": found.principal}
        ).all()
    if now - (found.used_us or 0) > _USED_AFTER_US:
        used = _TOKENS.update().where(_TOKENS.c.id == id_).values(used_us=now)
        database.edit(lambda connection: connection.execute(used), lambda _: True)
    return Caller(
        tenant=found.tenant,
        principal=found.principal,
        is_admin=bool(found.is_admin),
        since=int(found.since),
        grants=tuple(Grant(one.action, one.pattern, one.external_type) for one in grants),
        warehouse=found.warehouse,
        roots=tuple(json.loads(found.roots or "[]")),
    )


class Access(TenantEdits, CatalogAdmin):
    """The principals, tokens and grants of a tenant."""

    def create_tenant(
        self, name: str, warehouse: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Make a tenant, or change where its tables lie."""

        def work(edit: Edit) -> None:
            edit.note("tenant", name, None, None)
            edit.connection.execute(
                TENANTS.update()
                .where(TENANTS.c.tenant == name)
                .values(warehouse=warehouse, roots=json.dumps(list(roots)))
            )

        replace(self, tenant=check_new_name(name)).edit(work)

    def tenants(self) -> list[dict[str, Any]]:
        """Return all tenants of the database."""
        asked = sa.select(TENANTS.c.tenant, TENANTS.c.head, TENANTS.c.warehouse, TENANTS.c.roots)
        with self.database.reading() as connection:
            rows = connection.execute(asked.order_by(TENANTS.c.tenant)).mappings().all()
        return [{**row, "roots": json.loads(row["roots"] or "[]")} for row in rows]

    def create_principal(self, name: str, admin: bool = False) -> None:
        """Make a principal."""
        check_new_name(name)

        def work(edit: Edit) -> None:
            if self._principal(edit, name) is not None:
                raise InvalidInputError(
                    "PROJSEG_PRINCIPAL_EXISTS", f"principal '{name}' is there already"
                )
            edit.connection.execute(
                _PRINCIPALS.insert().values(
                    tenant=self.tenant,
                    name=name,
                    is_admin=int(admin),
                    since=edit.note("principal", name, None, None),
                    created_us=now_us(),
                )
            )

        self.edit(work)

    def drop_principal(self, name: str) -> None:
        """Drop a principal with its tokens and grants."""

        def work(edit: Edit) -> None:
            self._require_principal(edit, name)
            edit.note("principal", name, None, None)
            own = {_PRINCIPALS: "name", _TOKENS: "principal", _GRANTS: "principal"}
            for table, column in own.items():
                edit.connection.execute(
                    table.delete().where(table.c.tenant == self.tenant, table.c[column] == name)
                )

        self.edit(work)

    def create_token(
        self, principal: str, expires: datetime.datetime | None = None
    ) -> tuple[str, str]:
        """Make a token, and return its id and itself, which nobody sees again."""
        id_, expires_ms = uuid.uuid4().hex, milliseconds_of(expires)
        secret = base64.urlsafe_b64encode(secrets.token_bytes(_TOKEN_BYTES)).decode().rstrip("=")

        def work(edit: Edit) -> None:
            self._require_principal(edit, principal)
            edit.note("token", principal, None, None)
            edit.connection.execute(
                _TOKENS.insert().values(
                    id=id_,
                    tenant=self.tenant,
                    principal=principal,
                    digest=_digest(secret),
                    created_us=now_us(),
                    expires_us=None if expires_ms is None else expires_ms * 1000,
                )
            )

        self.edit(work)
        return id_, f"{id_}.{secret}"

    def grant(
        self, principal: str, action: str, pattern: str, external_type: str | None = None
    ) -> str:
        """Grant an action on all definitions whose `namespace.name` a pattern matches.

        Returns the grant's id.
        """
        if action not in ACTIONS:
            raise _bad(f"action '{action}' is none of {', '.join(ACTIONS)}")
        if external_type is not None and (external_type not in SPECS or action != "EXTERNAL"):
            raise _bad(f"'{external_type}' is no type of files that EXTERNAL is granted for")
        if not isinstance(pattern, str):
            raise _bad(f"a pattern is a text, and not {pattern!r:.80}")
        grant_pattern(pattern)
        id_ = uuid.uuid4().hex

        def work(edit: Edit) -> str:
            self._require_principal(edit, principal)
            own = (_GRANTS.c.tenant == self.tenant, _GRANTS.c.principal == principal)
            asked = sa.select(sa.func.count()).select_from(_GRANTS).where(*own)
            if edit.connection.execute(asked).scalar_one() >= GRANTS_MAX:
                raise _bad(
                    f"'{principal}' has {GRANTS_MAX} grants, and no principal has more; revoke "
                    "some, or write several names in one pattern"
                )
            edit.connection.execute(
                _GRANTS.insert().values(
                    id=id_,
                    tenant=self.tenant,
                    principal=principal,
                    action=action,
                    pattern=pattern,
                    external_type=external_type,
                )
            )
            self._list_anew(edit, principal)
            return id_

        return self.edit(work)

    def revoke(self, id: str) -> None:
        """Take a token or a grant away; one that is not there stays away."""

        def work(edit: Edit) -> None:
            for table in (_TOKENS, _GRANTS):
                own = (table.c.tenant == self.tenant, table.c.id == id)
                principal = edit.connection.execute(sa.select(table.c.principal).where(*own))
                for row in principal.all():
                    self._list_anew(edit, row.principal)
                edit.connection.execute(table.delete().where(*own))

        self.edit(work)

    def listed(
        self,
        what: str,
        principal: str | None = None,
        *,
        after: tuple[str, str] = ("", ""),
        most: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return `principals`, `tokens` (never themselves) or `grants`.

        A grant has a `problem` if its pattern is refused and it gives nothing.
        """
        table = {"principals": _PRINCIPALS, "tokens": _TOKENS, "grants": _GRANTS}[what]
        owner = table.c.name if what == "principals" else table.c.principal
        kept = [c for c in table.c if c.name not in ("tenant", "digest", "since")]
        key = (owner, kept[0])
        own = (table.c.tenant == self.tenant, sa.tuple_(*key) > sa.tuple_(*after))
        asked = sa.select(*kept).where(*own).order_by(*key).limit(most)
        if principal is not None:
            asked = asked.where(owner == principal)
        with self.database.reading() as connection:
            found = [dict(row) for row in connection.execute(asked).mappings()]
        for row in found if what == "grants" else ():
            row["problem"] = pattern_problem(row["pattern"])
        return found

    def _list_anew(self, edit: Edit, principal: str) -> None:
        """Make a principal's clients list everything anew, because its read grants have changed."""
        version = edit.note("grant", principal, None, None)
        edit.connection.execute(
            _PRINCIPALS.update()
            .where(_PRINCIPALS.c.tenant == self.tenant, _PRINCIPALS.c.name == principal)
            .values(since=version)
        )

    def _principal(self, edit: Edit, name: str) -> Any:
        own = (_PRINCIPALS.c.tenant == self.tenant, _PRINCIPALS.c.name == name)
        return edit.connection.execute(sa.select(_PRINCIPALS).where(*own)).first()

    def _require_principal(self, edit: Edit, name: str) -> None:
        if self._principal(edit, name) is None:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PRINCIPAL", f"the tenant has no principal '{name[:80]}'"
            )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", problem)
