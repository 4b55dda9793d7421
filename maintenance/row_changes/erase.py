"""Erase rows: delete them, write anew what stored them, vacuum, and search what is left.

The search has four parts. The filter runs over every earlier version that is kept. Every file in
every place where values may be (`PLACES`) is read, and its texts are compared with those of the
erased rows. Bloom files must not speak of segments that are gone. What no one can tell, such as a
file of another program in the folder, is named. A text that rows of the newest version still
have is not looked for elsewhere, as it tells nothing of the erased ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import Arguments
from projseg.algebra.expressions.sql_words import text_literals
from projseg.algebra.expressions.tree import Literal
from projseg.errors import InvalidInputError
from projseg.maintenance.compact import Compaction, compact
from projseg.maintenance.row_changes.affected_segments import affected_segments
from projseg.maintenance.row_changes.delete_and_update import delete_rows
from projseg.maintenance.row_changes.matching_rows import Condition, rows_as_batches, scanned
from projseg.maintenance.row_changes.search_left import FOUND, Search
from projseg.reader.plan.query_plan import QueryPlan
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import named_schema
from projseg.table_layer.still_stored import Holders
from projseg.table_layer.vacuum import vacuum

TEXTS_MAX: Final = 10_000
"""Most distinct texts of erased rows that are searched for."""

LeaveViews = Callable[[Snapshot], tuple[Sequence[Snapshot], Sequence[tuple[str, str]]]]
"""Has the views that read a table follow it; returns tables with views, and what failed and why."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure did, and what it found afterwards.

    Parameters
    ----------
    version : int
        The newest table version.
    deleted_rows : int
        How many rows were deleted.
    rewritten_segments : int
        How many segments were written anew without removed values.
    removed_files, removed_bytes : int
        What the vacuum removed.
    searched_texts : int
        How many texts of the erased rows, and of the filter, were looked for; texts that other rows
        still have are not counted.
    searched_files, searched_bytes : int
        How many files were searched, and their size.
    searched_values : int
        How many decoded values were compared.
    found : pa.Table
        file, versions, tags, what, count, advice. `what` is `rows` (the filter is true for `count`
        rows), `hidden rows` (deleted rows that the filter cannot be run on), `texts`, `history`
        (texts in descriptions of commits), `filters` (index filters of segments that are gone),
        `unreadable` or `foreign` (a file that projseg did not make). The table is empty if nothing
        was found.
    """

    version: int
    deleted_rows: int
    rewritten_segments: int
    removed_files: int
    removed_bytes: int
    searched_texts: int
    searched_files: int
    searched_bytes: int
    searched_values: int
    found: pa.Table = field(repr=False)


def erase(
    base: Snapshot,
    condition: Condition,
    note: CommitNote,
    *,
    retention_hours: float = 0,
    leave_views: LeaveViews | None = None,
) -> tuple[Snapshot, Erased]:
    """Delete rows, rewrite segments that store removed values, vacuum, and search the rest.

    `leave_views` is called before the search, if there are views.
    """
    texts = _texts_of(base, condition)
    snapshot, deleted = delete_rows(base, condition, note)
    snapshot, rewritten = compact(snapshot, Compaction(purge=True), note=note)
    snapshot, removed = vacuum(
        snapshot, retention_hours, note, dry_run=False, force=True, is_alone=True
    )
    viewed, problems = ((snapshot,), ()) if leave_views is None else leave_views(snapshot)
    search = Search(Holders.of(snapshot), texts)
    search.run(condition, viewed, problems)
    return snapshot, Erased(
        snapshot.version,
        deleted.deleted_rows,
        len(rewritten),
        removed.file_count,
        removed.bytes,
        len(search.texts),
        search.file_count,
        search.byte_count,
        search.value_count,
        pa.Table.from_pylist(search.found, FOUND),
    )


def _texts_of(base: Snapshot, condition: Condition) -> frozenset[bytes]:
    """Return the texts of the filter, and those that its columns have in the rows it means."""
    spec = scanned(base.properties, condition)
    types = {name: base.properties.schema.field(name).type for name in base.properties.schema.names}
    read = frozenset[str]() if spec.filter is None else spec.filter.columns
    names = [name for name, type_ in types.items() if name in read and _is_text(type_)]
    texts = {text.encode() for text in text_literals(condition.filter or "")}
    texts.update(_given_texts(condition.args))
    if names:
        given = {name: "NULL" for name in types if name not in names}
        wanted = QueryPlan(
            scanned(base.properties, condition, given), named_schema(base.properties), ()
        )
        for affected in affected_segments(base, condition):
            for batch in rows_as_batches(wanted, affected.source(), affected.row_ids):
                for name in names:
                    texts.update(_distinct(batch[name]))
            if len(texts) > TEXTS_MAX:
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT",
                    f"the rows to be erased have more than {TEXTS_MAX} texts in the columns "
                    f"{', '.join(names)}, too many to be searched for; erase fewer rows at once, "
                    "or delete, compact and vacuum",
                )
    return frozenset(texts - {b""})


def _given_texts(given: Arguments | None) -> Iterator[bytes]:
    for value in () if given is None else given.values.values():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Literal) and isinstance(one.value, str | bytes):
                yield one.value.encode() if isinstance(one.value, str) else one.value


def _distinct(values: pa.Array) -> Iterator[bytes]:
    for value in values.unique().drop_null().to_pylist():
        yield value.encode() if isinstance(value, str) else value


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))
