"""Databases of catalogs: how they are opened, when a transaction is retried, what errors mean."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from projseg.catalog.store.connections import (
    IMMEDIATE,
    POOL_SIZE,
    plain_connection,
    postgres_engine,
    sqlite_engine,
    sqlite_path,
)
from projseg.errors import (
    CatalogError,
    CatalogStateUnknownError,
    CatalogUnavailableError,
    InvalidInputError,
    ProjsegError,
    UnsupportedFeatureError,
    without_secrets,
)

T = TypeVar("T")
MIGRATIONS: Final = Path(__file__).parent / "migrations"
_RANDOM: Final = random.SystemRandom()
_LONGEST_PAUSE_SECONDS: Final = 0.25
_RETRIED: Final = ("40001", "40P01", "23505")  # serialization, deadlock, two first edits at once
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_VALUES: Final = (OverflowError, UnicodeEncodeError)
"""What Python's modules raise of values that a database does not keep."""
LandedLookup = Callable[[sa.Connection], bool]


class _Opened(NamedTuple):
    """A process's connections, and the turn of its threads to write."""

    process: int
    engine: sa.Engine
    turn: threading.Lock


class Database:
    """A catalog's database; picklable, without its connections.

    The URI is a path or `sqlite:///path` of a file, or `postgresql://user@host/name`; `timeout` has
    the seconds to wait for a database that is locked or does not answer.
    """

    def __init__(self, uri: str, timeout: float = 10) -> None:
        self.uri = str(uri)
        self.timeout = timeout
        self.path = sqlite_path(self.uri)
        self.pool_size = POOL_SIZE
        self._opened: _Opened | None = None
        self._is_checked = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_is_checked": False}

    def __repr__(self) -> str:
        return without_secrets(self.uri)

    @property
    def is_missing(self) -> bool:
        """Whether it is a file that is not there."""
        return self.path is not None and not self.path.exists()

    def close(self) -> None:
        """Close all connections; the next use opens others."""
        if self._opened is not None and self._opened.process == os.getpid():
            self._opened.engine.dispose()
        self._opened = None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection in a transaction that reads."""
        try:
            with self._connected() as connection:
                yield connection
        except (sa.exc.SQLAlchemyError, *_NO_VALUES) as error:
            raise self._translated(error) from error

    def now_us(self) -> int:
        """Return the earlier one of this machine's and the database's time, microseconds UTC.

        What is removed by a clock is removed by the later of two judges.
        """
        now = time.time_ns() // 1000
        if self.path is not None:
            return now
        with self.reading() as connection:
            theirs = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
        return min(now, int(theirs.timestamp() * 1_000_000))

    def edit(self, work: Callable[[sa.Connection], T], has_landed: LandedLookup) -> T:
        """Do work in one transaction that writes; again, from its start, where others were faster.

        `has_landed` says whether the work is there, where the answer to its commit was lost. Raises
        the errors of `reading`, when nothing was changed, or CatalogStateUnknownError.
        """
        deadline, tries = time.monotonic() + self.timeout, 0
        while True:
            is_committing = False
            try:
                with self._turn(deadline), self._connected(is_edit=True) as connection:
                    result = work(connection)
                    is_committing = True
                    connection.commit()
                    return result
            except sa.exc.SQLAlchemyError as error:
                if is_committing and _is_lost(error) and self._find(has_landed, error):
                    return result
                if not (_is_retried(error) or is_committing) or time.monotonic() > deadline:
                    raise self._translated(error) from error
            except _NO_VALUES as error:
                raise self._translated(error) from error
            tries += 1
            # Whoever tries again at once starves the others.
            time.sleep(_RANDOM.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.002 * 2**tries)))

    def _find(self, has_landed: LandedLookup, lost: Exception) -> bool:
        """Return whether a transaction landed whose commit had no answer."""
        self.close()
        try:
            with self._connected() as connection:
                return has_landed(connection)
        except sa.exc.SQLAlchemyError as error:
            raise CatalogStateUnknownError(
                "PROJSEG_CATALOG_STATE_UNKNOWN",
                f"catalog {self} was lost while it committed, and does not answer "
                f"({_cause(lost)}); read the definition before you edit it again",
            ) from error

    def make(self) -> None:
        """Make the catalog in an empty database, or in a new file; one that is there stays."""
        if self.path is not None:
            if not self.path.parent.is_dir():
                raise CatalogUnavailableError(
                    "PROJSEG_CATALOG_UNAVAILABLE",
                    f"{self.path.parent} is no folder, so no catalog can be made in it; make it",
                )
            with suppress(OSError):
                self.path.touch()
        try:
            with self._begun(is_edit=True) as connection:
                if _revision(connection) is None:
                    self._upgrade(connection)
                    connection.commit()
        except sa.exc.SQLAlchemyError as error:
            raise self._translated(error) from error

    def migrate(self) -> bool:
        """Bring an older catalog to this release's schema; a file is copied beside itself first."""
        try:
            with self._begun() as connection:
                revision = _revision(connection)
            if revision == _head_revision():
                return False
            self._check(revision, allows_older=True)
            if self.path is not None:
                self.copy_to(self.path.with_name(f"{self.path.name}.before-{_head_revision()}"))
            with self._begun(is_edit=True) as connection:
                self._upgrade(connection)
                connection.commit()
        except sa.exc.SQLAlchemyError as error:
            raise self._translated(error) from error
        return True

    def copy_to(self, path: Path) -> None:
        """Copy a catalog that is a file, as it is at one moment."""
        own = self._own_file()
        if path.exists():
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"{path} is there already; name a new file"
            )
        with plain_connection(own) as source, plain_connection(path, "rwc") as target:
            source.backup(target)

    def restore_from(self, path: Path) -> None:
        """Put what a copy holds in place of everything, under a new epoch."""
        own = self._own_file()
        other = Database(str(path), self.timeout)
        with other.reading():
            pass
        other.close()
        self.close()
        with plain_connection(path) as source, plain_connection(own, "rwc") as target:
            source.backup(target)
            target.execute("UPDATE info SET epoch = ?", (uuid.uuid4().hex,))
            target.commit()

    def _own_file(self) -> Path:
        if self.path is None:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_STORAGE",
                f"catalog {self} is a server's database; use the server's own tools (pg_dump), or "
                "export its definitions",
            )
        return self.path

    def _upgrade(self, connection: sa.Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    @contextmanager
    def _connected(self, *, is_edit: bool = False) -> Iterator[sa.Connection]:
        if self.is_missing:
            if not is_edit:
                raise CatalogUnavailableError(
                    "PROJSEG_CATALOG_UNAVAILABLE",
                    f"there is no catalog at {self.path}; the first edit makes it, or Catalog.init",
                )
            self.make()
        with self._begun(is_edit=is_edit) as connection:
            if not self._is_checked:
                self._check(_revision(connection))
                self._is_checked = True
            yield connection

    @contextmanager
    def _begun(self, *, is_edit: bool = False) -> Iterator[sa.Connection]:
        engine = self._own().engine
        if is_edit:
            engine = engine.execution_options(**{IMMEDIATE: True})
        with engine.connect() as connection:
            yield connection

    @contextmanager
    def _turn(self, deadline: float) -> Iterator[None]:
        """Wait for the edits of this process's other threads.

        Else they would ask for a file's lock at growing intervals, and the last wait the longest.
        """
        turn, left = self._own().turn, max(0, deadline - time.monotonic())
        is_own = self.path is not None and turn.acquire(timeout=left)
        try:
            yield
        finally:
            if is_own:
                turn.release()

    def _own(self) -> _Opened:
        """Return this process's connections: they are nothing that a forked child may use."""
        if self._opened is None or self._opened.process != os.getpid():
            made = (
                sqlite_engine(self.path, self.timeout, self.pool_size)
                if self.path
                else postgres_engine(self.uri, self.timeout, self.pool_size)
            )
            self._opened = _Opened(os.getpid(), made, threading.Lock())
        return self._opened

    def _check(self, revision: str | None, *, allows_older: bool = False) -> None:
        if revision is None:
            raise CatalogUnavailableError(
                "PROJSEG_CATALOG_UNAVAILABLE",
                f"database {self} holds no catalog; make one with Catalog.init",
            )
        if revision == _head_revision():
            return
        known = {one.revision for one in ScriptDirectory.from_config(_config()).walk_revisions()}
        if revision not in known:
            raise CatalogError(
                "PROJSEG_UNSUPPORTED_CATALOG_VERSION",
                f"a later release of projseg made catalog {self} (schema {revision[:40]}); use it",
            )
        if not allows_older:
            raise CatalogError(
                "PROJSEG_CATALOG_NEEDS_MIGRATION",
                f"catalog {self} has schema {revision}, this release {_head_revision()}; call "
                "Catalog.migrate",
            )

    def _translated(self, error: Exception) -> ProjsegError:
        if isinstance(error, (sa.exc.DataError, *_NO_VALUES)):
            return InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                "a text or number is none that the catalog's database keeps, such as one with the "
                "character U+0000, half of a surrogate pair or more than 64 bits; nothing was "
                "changed",
            )
        if _is_retried(error):
            return CatalogError(
                "PROJSEG_CATALOG_BUSY",
                f"catalog {self} stayed locked by others for {self.timeout:g} seconds; nothing was "
                "changed: try again",
            )
        return CatalogUnavailableError(
            "PROJSEG_CATALOG_UNAVAILABLE",
            f"catalog {self} does not answer: {_cause(error)}; tables can be used by path",
        )


def _head_revision() -> str:
    """Return the name of this release's schema."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _is_retried(error: Exception) -> bool:
    original = getattr(error, "orig", None)
    if isinstance(original, sqlite3.Error):
        return (getattr(original, "sqlite_errorcode", 0) or 0) & 0xFF in _LOCKED
    return getattr(original, "sqlstate", None) in (*_RETRIED, "55P03")


def _is_lost(error: Exception) -> bool:
    return not isinstance(getattr(error, "orig", None), sqlite3.Error)


def _cause(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return without_secrets(lines[0])[:300] if lines else type(error).__name__
