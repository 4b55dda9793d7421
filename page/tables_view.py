"""The first view: all tables, fifty at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import msgspec

from projseg.algebra.time.interval import micros_to_iso
from projseg.catalog.places import Places
from projseg.errors import ProjsegError
from projseg.page.table_view import table_warnings
from projseg.table import Table

_PAGE: Final = 50
_AT_ONCE: Final = 16
_DECODED_MAX: Final = 1000  # segments of a table whose projections are added up


class TableLine(msgspec.Struct, omit_defaults=True):
    """A table, or why it cannot be opened."""

    name: str
    rows: int | None = None
    segments: int | None = None
    bytes: int | None = None
    newest_time: str | None = None
    committed: str | None = None
    operation: str | None = None
    version: int | None = None
    projection_share: float | None = None
    warnings: int | None = None
    code: str | None = None
    message: str | None = None

    @property
    def to_mend(self) -> str:
        """Return what is wrong with it, in short."""
        if self.code is not None:
            return f"{self.code}: {self.message}"
        return f"{self.warnings} warnings" if self.warnings else ""


class TablesRecord(msgspec.Struct):
    """One page of the tables that a search finds, ordered by name; pages are counted from 1.

    The search is a part of names, in any case; `count` is of all these tables.
    """

    search: str
    count: int
    page: int
    pages: int
    tables: list[TableLine]


def tables_record(places: Places, search: str, page: int) -> TablesRecord:
    """Return the tables; those of other parts are not opened."""
    folded = search.casefold()
    names = [name for name in places.names() if folded in name.casefold()]
    pages = max(-(-len(names) // _PAGE), 1)
    page = min(max(page, 1), pages)
    shown = names[(page - 1) * _PAGE : page * _PAGE]
    with ThreadPoolExecutor(_AT_ONCE) as threads:  # a store may take long for each
        lines = list(threads.map(partial(_line, places), shown))
    return TablesRecord(search, len(names), page, pages, lines)


def _line(places: Places, name: str) -> TableLine:
    try:
        return _line_of(name, places.table(name))
    except ProjsegError as error:
        return TableLine(name, code=error.code, message=error.message)
    except OSError as error:
        return TableLine(name, code="PROJSEG_STORAGE_FAILED", message=str(error.strerror))


def _line_of(name: str, table: Table) -> TableLine:
    snapshot = table.snapshot
    times = [
        one.max_time_us for one in snapshot.file.manifests if one.min_time_us <= one.max_time_us
    ]
    share = warnings = None
    if 0 < len(snapshot.segments) <= _DECODED_MAX and snapshot.data_bytes:
        stored = sum(p.byte_count for entry in snapshot.segments for p in entry.projections)
        share = stored / snapshot.data_bytes
        warnings = sum(1 for _ in table_warnings(table, list(snapshot.segments)))
    return TableLine(
        name=name,
        rows=snapshot.row_count,
        segments=len(snapshot.segments),
        bytes=snapshot.data_bytes,
        newest_time=micros_to_iso(max(times)) if times else None,
        committed=micros_to_iso(snapshot.timestamp_us),
        operation=snapshot.operation,
        version=snapshot.version,
        projection_share=share,
        warnings=warnings,
    )
