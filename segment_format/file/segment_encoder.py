"""Write one segment file in one forward pass: parts first, directory last. SPEC.md section 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.dictionaries.dictionary_pages import dictionary_hashes, dictionary_pages
from projseg.segment_format.file.encoded_parts import (
    EncodedColumn,
    SegmentSummary,
    TableSummary,
    copy_index,
    copy_pages,
    copy_part,
    encode_column,
)
from projseg.segment_format.indexes.bitmap_writer import write_index
from projseg.segment_format.layout.footer import (
    ABANDONED,
    BASE_TABLE,
    ColumnEntry,
    ColumnKind,
    DictionaryEntry,
    ExtraPartEntry,
    FieldEntry,
    Footer,
    NotBuiltEntry,
    Role,
    TableEntry,
    encode_footer,
    has_zone_rules,
)
from projseg.segment_format.layout.format_limits import (
    COLUMNS_MAX,
    FOOTER_BYTES_MAX,
    PROJECTIONS_MAX,
    SEGMENT_ROWS_MAX,
    expanded_bytes_max,
    name_problem,
    require_limit,
)
from projseg.segment_format.layout.frame import (
    FILE_ID_BYTES,
    GROUPS_ONLY,
    ROW_PROJECTIONS,
    ZONE_RULES,
    Tail,
    pack_head,
)
from projseg.segment_format.layout.logical_types import parse_type_name, type_name
from projseg.segment_format.pages.column_writer import PartSink, packed_pages, write_pages
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector

if TYPE_CHECKING:
    from projseg.segment_format.file.segment_file import SegmentFile

WRITER = "projseg 0.1.0"


@dataclass
class _OpenTable:
    """A table whose columns are being written."""

    name: str
    row_count: int
    definition: str
    definition_hash: str
    sort_order: tuple[str, ...]
    byte_count: int = 0
    columns: list[ColumnEntry] = field(default_factory=list)
    column_bytes: dict[tuple[Role, str], int] = field(default_factory=dict)


class SegmentEncoder:
    """A segment file under construction.

    Call `add_dictionary` before the columns that use it; `begin_table`, `add_column`...,
    `end_table` for the base table and then for each projection; then `finish`.
    Methods raise InvalidInputError for a call out of this order, or with a name, row count or
    dictionary that does not fit, and LimitExceededError for what passes a limit of the format.

    Parameters
    ----------
    write : callable
        Takes the file's bytes, in order; nothing is ever written twice.
    file_id : bytes[16]
        Unique to this file; seeds all checksums.
    schema : pa.Schema
        The table's columns; the base table must hold each.
    """

    def __init__(
        self, write: Callable[[bytes], object], *, file_id: bytes, schema: pa.Schema
    ) -> None:
        if len(file_id) != FILE_ID_BYTES:
            raise InvalidInputError(
                "PROJSEG_INTERNAL", f"a file id of {len(file_id)} bytes, not {FILE_ID_BYTES}"
            )
        self._schema, self._file_id = schema, file_id
        self._dictionaries: dict[str, Dictionary] = {}
        self._dictionary_entries: list[DictionaryEntry] = []
        self._open: _OpenTable | None = None
        self._tables: list[TableEntry] = []
        self._summaries: list[TableSummary] = []
        self._not_built: list[NotBuiltEntry] = []
        self._abandoned: list[ExtraPartEntry] = []
        self._sink = PartSink(write, file_id)
        self._sink.put(pack_head(file_id))

    def add_dictionary(
        self, name: str, dictionary: Dictionary, *, store_hashes: bool = True
    ) -> None:
        """Write a dictionary that columns of any table may then name.

        Parameters
        ----------
        name : str
            Unique among the dictionaries of the segment.
        dictionary : Dictionary
            Proved sorted here.
        store_hashes : bool
            Whether to keep the value hashes; without them a reader computes them.
        """
        _require(self._open is None, f"dictionary '{name}' inside a table")
        _require_name("dictionary", name, self._dictionaries)
        pages = write_pages(self._sink, packed_pages(dictionary_pages(dictionary)))
        hashes = None
        if store_hashes and len(dictionary):
            hashes = self._sink.part(dictionary_hashes(dictionary).astype("<u8").tobytes())
        self._dictionaries[name] = dictionary
        self._dictionary_entries.append(
            DictionaryEntry(
                name, type_name(dictionary.type), len(dictionary), pages.directory, hashes
            )
        )

    def copy_dictionary(self, source: SegmentFile, name: str) -> None:
        """Copy a dictionary of another segment, pages and hashes as they are."""
        _require(self._open is None, f"dictionary '{name}' inside a table")
        _require_name("dictionary", name, self._dictionaries)
        entry = source.dictionary_entry(name)
        records = source.dictionary_directory(entry).records
        pages = copy_pages(self._sink, source, records, f"dictionary '{name}'")
        hashes = copy_part(self._sink, source, entry.hashes, f"hashes of '{name}'")
        self._dictionaries[name] = source.dictionary(name)
        self._dictionary_entries.append(
            msgspec.structs.replace(entry, pages=pages.directory, hashes=hashes)
        )

    def copy_table(
        self, source: SegmentFile, name: str, *, stored_as: tuple[str, str] | None = None
    ) -> None:
        """Copy a table of another segment, pages and bitmap indexes as they are.

        Its dictionaries must have been copied, or added with the same values, under their names.

        Parameters
        ----------
        source : SegmentFile
            The other segment.
        name : str
            The table's name there.
        stored_as : (str, str) or None
            The name and the definition under which a projection is stored here; None: as there.
        """
        table = source.table(name)
        new_name, definition = stored_as or (name, table.definition)
        self.begin_table(
            new_name,
            table.row_count,
            definition=definition,
            definition_hash=table.definition_hash,
            sort_order=table.sort_order,
        )
        for column in table.columns:
            self._copy_column(source, name, column)
        self.end_table()

    def _copy_column(self, source: SegmentFile, table: str, column: ColumnEntry) -> None:
        assert self._open is not None, "copy_table began the table"
        position = None
        if column.dictionary is not None:
            wanted = source.footer.dictionaries[column.dictionary].name
            _require(wanted in self._dictionaries, f"dictionary '{wanted}' was not added")
            ours, theirs = self._dictionaries[wanted], source.dictionary(wanted)
            _require(
                ours is theirs or ours.values.equals(theirs.values),
                f"dictionary '{wanted}' is not the one that table '{table}' uses",
            )
            position = list(self._dictionaries).index(wanted)
        start = self._sink.offset
        records = source.directory(table, column.role, column.name).records
        owner = f"{table}/{column.role}/{column.name}"
        pages = copy_pages(self._sink, source, records, owner)
        blocks = copy_index(self._sink, source, table, column.role, column.name)
        self._open.byte_count += self._sink.offset - start
        self._open.column_bytes[column.role, column.name] = pages.stored_bytes
        self._open.columns.append(
            msgspec.structs.replace(
                column, dictionary=position, pages=pages.directory, index_blocks=blocks
            )
        )

    def begin_table(
        self,
        name: str,
        row_count: int,
        *,
        definition: str = "",
        definition_hash: str = "",
        sort_order: Sequence[str] = (),
    ) -> None:
        """Start a table; the first must be the base table, `BASE_TABLE`."""
        _require(self._open is None, f"table '{name}' inside another")
        _require((name == BASE_TABLE) == (not self._tables), f"table '{name}' out of its place")
        _require_name("table", name, [table.name for table in self._tables])
        require_limit("number of rows of a table", row_count, SEGMENT_ROWS_MAX)
        require_limit("number of projections of a segment", len(self._tables), PROJECTIONS_MAX)
        self._sink.recent.clear()
        self._open = _OpenTable(name, row_count, definition, definition_hash, tuple(sort_order))

    def add_column(
        self,
        name: str,
        vector: Vector,
        *,
        role: Role,
        dictionary: str | None = None,
        encoded: EncodedColumn | None = None,
    ) -> None:
        """Write a column of the open table.

        Parameters
        ----------
        name : str
            Unique among the table's columns of this role.
        vector : Vector
            As many rows as the table.
        role : "base", "grouping" or "state"
        dictionary : str, optional
            For an `Ids` vector: the name under which its dictionary was added.
        encoded : EncodedColumn, optional
            What `encode_column` made of the vector, if somebody called it already.
        """
        table = self._open
        assert table is not None, "begin_table comes first"
        _require_name("column", name, [c.name for c in table.columns if c.role == role])
        require_limit("number of columns of a table", len(table.columns) + 1, COLUMNS_MAX)
        _require(
            len(vector) == table.row_count,
            f"column '{name}' of {len(vector)} rows in a table of {table.row_count}",
        )
        parse_type_name(type_name(vector.type))  # refuses what no reader could name again
        dictionary_index = self._dictionary_index(name, vector, dictionary)
        encoded = encode_column(vector, role) if encoded is None else encoded
        pages = write_pages(self._sink, encoded.pages)
        start = self._sink.offset
        index_blocks = write_index(self._sink, encoded.index_blocks)
        table.byte_count += pages.stored_bytes + self._sink.offset - start
        table.column_bytes[role, name] = pages.stored_bytes
        table.columns.append(
            ColumnEntry(
                role,
                name,
                type_name(vector.type),
                _kind(vector),
                dictionary_index,
                pages.directory,
                index_blocks,
            )
        )

    def end_table(self) -> None:
        """Finish the open table."""
        table = self._open
        assert table is not None, "begin_table comes first"
        self._open = None
        self._tables.append(
            TableEntry(
                table.name,
                table.row_count,
                table.definition,
                table.definition_hash,
                table.sort_order,
                tuple(table.columns),
            )
        )
        self._summaries.append(
            TableSummary(table.name, table.row_count, table.byte_count, table.column_bytes)
        )

    def abandon_table(self) -> None:
        """Give up the open table, such as a projection with a value that passes a limit.

        Its parts that are already written stay in the file; no reader uses them.
        """
        _require(self._open is not None and bool(self._tables), "no projection to abandon")
        self._open = None
        self._abandoned += [ExtraPartEntry(ABANDONED, entry) for entry in self._sink.recent]

    def add_not_built(self, name: str, definition_hash: str, reason: str) -> None:
        """Record a projection that this segment lacks, and why."""
        self._not_built.append(NotBuiltEntry(name, definition_hash, reason))

    def column_bytes(self, table: str) -> int:
        """Return the stored bytes of the pages of all columns of a finished table."""
        summary = next(summary for summary in self._summaries if summary.name == table)
        return sum(summary.column_bytes.values())

    def finish(self) -> SegmentSummary:
        """Write footer and tail; nothing may follow."""
        _require(self._open is None and bool(self._tables), "finish before end_table")
        self._require_base_columns()
        fields = tuple(FieldEntry(f.name, type_name(f.type), f.nullable) for f in self._schema)
        content = encode_footer(
            Footer(
                self._file_id,
                WRITER,
                fields,
                tuple(self._dictionary_entries),
                tuple(self._tables),
                tuple(self._not_built),
                tuple(self._abandoned),
            )
        )
        require_limit("footer's size in bytes", len(content), FOOTER_BYTES_MAX)
        has_rows = any(table.holds_rows for table in self._tables)
        features = ROW_PROJECTIONS if has_rows else 0
        if any(has_zone_rules(table.definition) for table in self._tables):
            features |= ZONE_RULES
        if not fields and len(self._tables) > 1:
            features |= GROUPS_ONLY
        tail = Tail(self._sink.offset, len(content), required_features=features)
        self._sink.put(content)
        self._sink.put(tail.pack(content))
        held = sum(dictionary.value_bytes for dictionary in self._dictionaries.values())
        most = expanded_bytes_max(self._sink.offset)
        what = (
            "bytes of a segment's dictionaries (a smaller target_segment_rows makes them smaller)"
        )
        require_limit(what, held, most)
        return SegmentSummary(self._sink.offset, tail.checksum(content), tuple(self._summaries))

    def _dictionary_index(self, name: str, vector: Vector, dictionary: str | None) -> int | None:
        if not isinstance(vector, Ids):
            _require(dictionary is None, f"column '{name}' is no ids, yet names a dictionary")
            return None
        _require(dictionary in self._dictionaries, f"dictionary '{dictionary}' was not added")
        assert dictionary is not None
        stored = self._dictionaries[dictionary]
        _require(
            vector.type == stored.type and len(vector.dictionary) == len(stored),
            f"column '{name}' has another dictionary than '{dictionary}'",
        )
        highest = int(vector.ids.max(initial=0))
        _require(
            len(vector) == 0 or highest < len(stored), f"id {highest} of '{name}' has no value"
        )
        return list(self._dictionaries).index(dictionary)

    def _require_base_columns(self) -> None:
        stored = {c.name: c.type for c in self._tables[0].columns if c.role == "base"}
        wanted = {f.name: type_name(f.type) for f in self._schema}
        _require(stored == wanted, f"base table holds {stored}, the schema says {wanted}")


def _kind(vector: Vector) -> ColumnKind:
    if isinstance(vector, Ids):
        return "ids"
    return "numbers" if isinstance(vector, Numbers) else "opaque"


def _require_name(what: str, name: str, taken: object) -> None:
    problem = name_problem(name)
    _require(problem is None, f"{what} name '{name}' {problem}")
    _require(name not in taken, f"{what} '{name}' is there already")  # type: ignore[operator]


def _require(condition: bool, problem: str) -> None:
    """Refuse a call that would make a file no reader accepts."""
    if not condition:
        raise InvalidInputError("PROJSEG_INTERNAL", f"segment encoder: {problem}")
