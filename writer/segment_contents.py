"""Put base rows and projections into a segment file, each dictionary once, before its first use."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from itertools import repeat
from typing import Final

import pyarrow as pa

from projseg.errors import LimitExceededError
from projseg.evaluation.rows import MemorySource
from projseg.segment_format.file.encoded_parts import EncodedColumn, encode_column
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.layout.footer import BASE_TABLE, Role
from projseg.segment_format.layout.frame import FILE_ID_BYTES
from projseg.segment_format.vectors.vectors import Ids, Vector
from projseg.table_layer.metadata.projection_scope import ProjectionScope
from projseg.writer.projection_builder import BuiltProjection, NotBuilt

_ROWS_MIN: Final = 1 << 14


def are_worth_threads(row_count: int) -> bool:
    """Whether work on columns of so many rows takes longer than handing it to a thread."""
    return row_count >= _ROWS_MIN


REASON_CHARACTERS_MAX = 1000

_Column = tuple[Role, str, Vector]


class SegmentContents:
    """The tables of one file, in the order they are added: base rows, then projections.

    Parameters
    ----------
    encoder : SegmentEncoder
        Writes the file.
    pool : Executor or None
        Encodes the columns of a table of many rows side by side; they are written in order.
    """

    def __init__(self, encoder: SegmentEncoder, pool: Executor | None = None) -> None:
        self._encoder, self._pool = encoder, pool
        self._dictionary_names: dict[int, str] = {}

    def add_base(self, source: MemorySource, sort_order: Sequence[str]) -> None:
        """Write the base table."""
        columns: list[_Column] = [("base", name, v) for name, v in source.vectors.items()]
        self._add_dictionaries(columns, [name for _, name, _ in columns])
        self._encoder.begin_table(BASE_TABLE, source.row_count, sort_order=sort_order)
        self._add_columns(columns)
        self._encoder.end_table()

    def copy_tables(
        self, source: SegmentFile, tables: Sequence[tuple[str, tuple[str, str] | None]]
    ) -> None:
        """Copy tables of another segment, the base table first, and the dictionaries they use.

        Nothing is decoded or encoded, and each part's checksum is proved.

        Parameters
        ----------
        source : SegmentFile
            The other segment; it must live as long as this object.
        tables : sequence of (str, (str, str) or None)
            For each table its name there, and the name and the definition it is stored under here;
            None: as there.
        """
        used = {column.dictionary for name, _ in tables for column in source.table(name).columns}
        for position, entry in enumerate(source.footer.dictionaries):
            if position in used:
                self._encoder.copy_dictionary(source, entry.name)
                self._dictionary_names[id(source.dictionary(entry.name))] = entry.name
        for name, stored_as in tables:
            self._encoder.copy_table(source, name, stored_as=stored_as)

    def add_projection(self, projection: BuiltProjection) -> BuiltProjection | NotBuilt:
        """Write a projection, or return why the format cannot hold it; the file stays valid."""
        spec = projection.spec
        columns: list[_Column] = [("grouping", n, v) for n, v in projection.grouping.items()]
        columns += [("state", name, vector) for name, vector in projection.states.items()]
        begun = False
        try:
            self._add_dictionaries(columns, [f"projection/{n}" for n in range(len(columns))])
            self._encoder.begin_table(
                spec.name,
                projection.row_count,
                definition=spec.definition,
                definition_hash=spec.definition_hash,
                sort_order=spec.stored_order,
            )
            begun = True
            self._add_columns(columns)
        except LimitExceededError as error:
            if begun:
                self._encoder.abandon_table()
            return NotBuilt(spec, str(error))
        self._encoder.end_table()
        return projection

    def add_not_built(self, failed: NotBuilt) -> None:
        """Record a projection that the segment lacks, and why."""
        reason = failed.reason[:REASON_CHARACTERS_MAX]
        self._encoder.add_not_built(failed.spec.name, failed.spec.definition_hash, reason)

    def _add_dictionaries(self, columns: Sequence[_Column], preferred: Sequence[str]) -> None:
        """Add the dictionaries that no earlier table has, under names that are not taken."""
        for (_, _, vector), name in zip(columns, preferred, strict=True):
            if isinstance(vector, Ids) and id(vector.dictionary) not in self._dictionary_names:
                free = self._encoder.free_name(name)
                self._encoder.add_dictionary(free, vector.dictionary)
                self._dictionary_names[id(vector.dictionary)] = free

    def _add_columns(self, columns: Sequence[_Column]) -> None:
        with closing(self._encoded(columns)) as encoded:
            for (role, name, vector), one in zip(columns, encoded, strict=True):
                dictionary = None
                if isinstance(vector, Ids):
                    dictionary = self._dictionary_names[id(vector.dictionary)]
                self._encoder.add_column(
                    name, vector, role=role, dictionary=dictionary, encoded=one
                )

    def _encoded(self, columns: Sequence[_Column]) -> Generator[EncodedColumn | None, None, None]:
        """Yield what the pool makes of each column, or None for what the encoder is to encode."""
        row_count = max((len(vector) for _, _, vector in columns), default=0)
        if self._pool is None or not are_worth_threads(row_count):
            yield from repeat(None, len(columns))
            return
        # The largest first: no thread begins a long column when others have nothing left to do.
        by_size = sorted(range(len(columns)), key=lambda n: -columns[n][2].nbytes)
        futures = {
            n: self._pool.submit(encode_column, columns[n][2], columns[n][0]) for n in by_size
        }
        try:
            for number in range(len(columns)):
                yield futures.pop(number).result()
        finally:
            for future in futures.values():
                future.cancel()


def guarded(
    result: BuiltProjection | NotBuilt, scope: ProjectionScope, base_rows: int, base_bytes: int
) -> BuiltProjection | NotBuilt:
    """Return a projection, or why its scope leaves it out.

    Parameters
    ----------
    result : BuiltProjection or NotBuilt
        What was built.
    scope : ProjectionScope
        What is declared of its size.
    base_rows, base_bytes : int
        Rows of the base table, and stored bytes of its columns.
    """
    if isinstance(result, NotBuilt):
        return result
    reason = scope.row_guard(result.row_count, base_rows)
    if reason is None and scope.max_bytes_ratio is not None:
        reason = scope.bytes_guard(_stored_bytes(result), base_bytes)
    return result if reason is None else NotBuilt(result.spec, reason)


def _stored_bytes(projection: BuiltProjection) -> int:
    """Return the stored bytes of a projection's columns, by encoding it to nowhere."""
    encoder = SegmentEncoder(lambda _: None, file_id=bytes(FILE_ID_BYTES), schema=pa.schema([]))
    encoder.begin_table(BASE_TABLE, 0)
    encoder.end_table()
    if isinstance(SegmentContents(encoder).add_projection(projection), NotBuilt):
        return 0  # it passes a limit of the format, which says more than its size
    return encoder.column_bytes(projection.spec.name)
