"""Put base rows and projections into a segment file, each dictionary once, before its first use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from projseg.aggregation.rows import MemorySource
from projseg.errors import LimitExceededError
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.segment_format.segment_encoder import SegmentEncoder
from projseg.segment_format.segment_file import SegmentFile
from projseg.segment_format.vectors import Ids, Vector
from projseg.writer.projection_builder import BuiltProjection, NotBuilt

REASON_CHARACTERS_MAX = 1000

_Column = tuple[Role, str, Vector]


class SegmentContents:
    """The tables of one file, in the order they are added: base rows, then projections."""

    def __init__(self, encoder: SegmentEncoder) -> None:
        self._encoder = encoder
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
                sort_order=tuple(projection.grouping),
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
                taken = self._dictionary_names.values()
                tries = (name if n == 0 else f"{name[:200]}/{n}" for n in count())
                free = next(one for one in tries if one not in taken)
                self._encoder.add_dictionary(free, vector.dictionary)
                self._dictionary_names[id(vector.dictionary)] = free

    def _add_columns(self, columns: Sequence[_Column]) -> None:
        for role, name, vector in columns:
            dictionary = None
            if isinstance(vector, Ids):
                dictionary = self._dictionary_names[id(vector.dictionary)]
            self._encoder.add_column(name, vector, role=role, dictionary=dictionary)
