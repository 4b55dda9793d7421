"""Connections to SQLite files and to PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import sqlalchemy as sa

from projseg.errors import UnsupportedFeatureError
from projseg.extras import require

IMMEDIATE: Final = "projseg_immediate"
"""The execution option of connections whose transactions write: SQLite lets none become one."""


POOL_SIZE: Final = 2
"""Connections that a process keeps: few, so that many processes share a server."""


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a catalog; None if a server has it."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return Path(uri).absolute()
    if scheme == "sqlite":
        return Path(unquote(rest.removeprefix("/"))).absolute()
    if scheme in ("postgresql", "postgres"):
        return None
    raise UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_STORAGE",
        f"a catalog is a SQLite file or at postgresql://…, not at '{scheme}://'",
    )


def sqlite_engine(path: Path, timeout: float, pool_size: int) -> sa.Engine:
    """Return the engine of a file: a write-ahead log, and each commit on the disk."""
    address = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        # SQLAlchemy begins transactions; the module of Python would begin late, and as a reader.
        made = sqlite3.connect(
            address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        try:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            made.close()
            raise
        return made

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=sa.QueuePool, pool_size=pool_size
    )

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        is_edit = connection.get_execution_options().get(IMMEDIATE)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_edit else "BEGIN")

    return engine


def postgres_engine(uri: str, timeout: float, pool_size: int) -> sa.Engine:
    """Return the engine of a server."""
    require("psycopg", "a catalog in PostgreSQL")
    address = "postgresql+psycopg://" + uri.partition("://")[2]
    return sa.create_engine(
        address,
        pool_size=pool_size,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": max(1, round(timeout)),
            "options": f"-c lock_timeout={round(timeout * 1000)}",
        },
    )


@contextmanager
def plain_connection(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """Yield a connection without an engine, which begins nothing by itself."""
    made = sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True)
    try:
        yield made
    finally:
        made.close()
