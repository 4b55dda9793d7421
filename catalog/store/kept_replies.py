"""Replies that are kept for a day, so that a request which is sent again is not done again.

The reply is written in the transaction of the edit: either both are there, or neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from projseg.errors import InvalidInputError

KEPT_US: Final = 86_400_000_000
_REPLIES: Final = sa.table(
    "replies",
    *map(sa.column, ("tenant", "principal", "key", "digest", "status", "content", "at_us")),
)


class KeptContent(NamedTuple):
    """What was answered: the status of HTTP, and a JSON text or None."""

    status: int
    content: str | None


class RepeatedRequestError(Exception):
    """A request that was done before; it travels no further than the server."""

    def __init__(self, reply: KeptContent) -> None:
        super().__init__("the request was done before")
        self.reply = reply


@dataclass(frozen=True)
class RequestKey:
    """A request that its sender, whose keys nobody else meets, may send again.

    The digest is of everything that the request says.
    """

    tenant: str
    principal: str
    key: str
    digest: str

    def reply(self, connection: sa.Connection) -> KeptContent | None:
        """Return what was answered to the request less than a day ago; None if it is new."""
        since = time.time_ns() // 1000 - KEPT_US
        asked = sa.select(_REPLIES).where(*self._own(), _REPLIES.c.at_us > since)
        found = connection.execute(asked).first()
        if found is None:
            return None
        if found.digest != self.digest:
            raise InvalidInputError(
                "PROJSEG_KEY_REUSED",
                f"Idempotency-Key '{self.key}' came with another request; choose a new one for "
                "each",
            )
        return KeptContent(found.status, found.content)

    def _own(self) -> tuple[sa.ColumnElement[bool], ...]:
        columns = _REPLIES.c
        return (
            columns.tenant == self.tenant,
            columns.principal == self.principal,
            columns.key == self.key,
        )

    def keep(self, connection: sa.Connection, reply: KeptContent) -> None:
        """Keep a reply, and forget those of the tenant that are older than a day."""
        now, columns = time.time_ns() // 1000, _REPLIES.c
        old = sa.and_(columns.tenant == self.tenant, columns.at_us <= now - KEPT_US)
        connection.execute(_REPLIES.delete().where(old))
        connection.execute(
            _REPLIES.insert().values(
                tenant=self.tenant,
                principal=self.principal,
                key=self.key,
                digest=self.digest,
                status=reply.status,
                content=reply.content,
                at_us=now,
            )
        )


@dataclass(frozen=True)
class KeptReply:
    """The reply to one request, made of its edit's result and kept with the edit."""

    request: RequestKey
    reply_of: Callable[[Any], KeptContent]

    def check(self, connection: sa.Connection) -> None:
        """Raise RepeatedRequestError, with the reply, for what was done while the request waited.

        It waited for the tenant's lock.
        """
        found = self.request.reply(connection)
        if found is not None:
            raise RepeatedRequestError(found)

    def keep(self, connection: sa.Connection, result: Any) -> None:
        """Keep the reply that an edit's result makes."""
        self.request.keep(connection, self.reply_of(result))
