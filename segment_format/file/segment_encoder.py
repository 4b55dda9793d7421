"""Write one segment file in one forward pass: parts first, directory last. SPEC.md section 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from projseg import __version__
from projseg.errors import InvalidInputError
from projseg.segment_format.column_writer import PartSink, packed_pages, write_pages
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import dictionary_hashes, dictionary_pages
from projseg.segment_format.file.encoded_parts import (
    EncodedColumn,
    OpenTable,
    SegmentSummary,
    TableSummary,
    copy_column,
    copy_pages,
    copy_part,
    copy_postings,
    encode_column,
    kind_of,
    require,
    require_name,
    required_features,
    write_postings,
)
from projseg.segment_format.file.postings import BuiltPostings
from projseg.segment_format.footer import (
    ABANDONED,
    BASE_TABLE,
    FILE_ID_BYTES,
    POSTINGS,
    ColumnEntry,
    DictionaryEntry,
    ExtraPartEntry,
    FieldEntry,
    Footer,
    NotBuiltEntry,
    PostingsEntry,
    Role,
    TableEntry,
    Tail,
    encode_footer,
    pack_head,
)
from projseg.segment_format.format_limits import (
    COLUMNS_MAX,
    FOOTER_BYTES_MAX,
    PROJECTIONS_MAX,
    SEGMENT_ROWS_MAX,
    expanded_bytes_max,
    require_limit,
)
from projseg.segment_format.indexes.bitmap_index import write_index
from projseg.segment_format.logical_types import parse_type_name, type_name
from projseg.segment_format.page_directory import directory_bytes
from projseg.segment_format.vectors import Ids, Vector

if TYPE_CHECKING:
    from projseg.segment_format.file.segment_file import SegmentFile

WRITER = f"projseg {__version__}"


class SegmentEncoder:
    """A segment file under construction.

    Call `add_dictionary` before the columns that use it; `begin_table`, `add_column`...,
    `end_table` for the base table and then for each projection; then `finish`. `write` takes the
    file's bytes in order. Methods raise InvalidInputError for a call out of this order, or with a
    name, row count or dictionary that does not fit, and LimitExceededError for what passes a limit
    of the format.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        file_id: bytes,
        schema: pa.Schema,
        has_foreign_rows: bool = False,
    ) -> None:
        if len(file_id) != FILE_ID_BYTES:
            raise InvalidInputError(
                "PROJSEG_INTERNAL", f"a file id of {len(file_id)} bytes, not {FILE_ID_BYTES}"
            )
        self._schema, self._file_id = schema, file_id
        self._has_foreign_rows = has_foreign_rows
        self._dictionaries: dict[str, Dictionary] = {}
        self._dictionary_entries: list[DictionaryEntry] = []
        self._open: OpenTable | None = None
        self._tables: list[TableEntry] = []
        self._summaries: list[TableSummary] = []
        self._not_built: list[NotBuiltEntry] = []
        self._abandoned: list[ExtraPartEntry] = []
        self._postings: list[PostingsEntry] = []
        self._sink = PartSink(write, file_id)
        self._sink.put(pack_head(file_id))

    def add_dictionary(
        self, name: str, dictionary: Dictionary, *, store_hashes: bool = True
    ) -> None:
        """Write a dictionary, proved sorted here, that columns of any table may then name.

        Without stored value hashes a reader computes them.
        """
        require(self._open is None, f"dictionary '{name}' inside a table")
        require_name("dictionary", name, self._dictionary_names)
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
        self._copy_dictionary(source, name, name)
        self._dictionaries[name] = source.dictionary(name)

    def _copy_dictionary(self, source: SegmentFile, old_name: str, name: str) -> None:
        require(self._open is None, f"dictionary '{name}' inside a table")
        require_name("dictionary", name, self._dictionary_names)
        entry = source.dictionary_entry(old_name)
        records = source.dictionary_directory(entry).records
        pages = copy_pages(self._sink, source, records, f"dictionary '{old_name}'")
        hashes = copy_part(self._sink, source, entry.hashes, f"hashes of '{old_name}'")
        self._dictionary_entries.append(
            msgspec.structs.replace(entry, name=name, pages=pages.directory, hashes=hashes)
        )

    def copy_table(
        self, source: SegmentFile, name: str, *, stored_as: tuple[str, str] | None = None
    ) -> None:
        """Copy a table of another segment, pages and bitmap indexes as they are.

        Its dictionaries must have been copied, or added with the same values, under their names.
        `stored_as` is the (name, definition) of a projection here; None keeps those it has there.
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
            require(wanted in self._dictionaries, f"dictionary '{wanted}' was not added")
            ours, theirs = self._dictionaries[wanted], source.dictionary(wanted)
            require(
                ours is theirs or ours.values.equals(theirs.values),
                f"dictionary '{wanted}' is not the one that table '{table}' uses",
            )
            position = self._dictionary_names.index(wanted)
        start = self._sink.offset
        copied, page_bytes = copy_column(self._sink, source, table, column, position)
        self._open.byte_count += self._sink.offset - start
        self._open.column_bytes[column.role, column.name] = page_bytes
        self._open.columns.append(copied)

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
        require(self._open is None, f"table '{name}' inside another")
        require((name == BASE_TABLE) == (not self._tables), f"table '{name}' out of its place")
        require_name("table", name, [table.name for table in self._tables])
        require_limit("number of rows of a table", row_count, SEGMENT_ROWS_MAX)
        require_limit("number of projections of a segment", len(self._tables), PROJECTIONS_MAX)
        self._sink.recent.clear()
        self._open = OpenTable(name, row_count, definition, definition_hash, tuple(sort_order))

    def add_column(
        self,
        name: str,
        vector: Vector,
        *,
        role: Role,
        dictionary: str | None = None,
        encoded: EncodedColumn | None = None,
    ) -> None:
        """Write a column of the open table, encoded already by `encode_column` or here.

        An `Ids` vector names its dictionary.
        """
        table = self._open
        assert table is not None, "begin_table comes first"
        require_name("column", name, [c.name for c in table.columns if c.role == role])
        require_limit("number of columns of a table", len(table.columns) + 1, COLUMNS_MAX)
        require(
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
                kind_of(vector),
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
        require(self._open is not None and bool(self._tables), "no projection to abandon")
        self._open = None
        self._abandoned += [ExtraPartEntry(ABANDONED, entry) for entry in self._sink.recent]

    def add_not_built(self, name: str, definition_hash: str, reason: str) -> None:
        """Record a projection that this segment lacks, and why."""
        self._not_built.append(NotBuiltEntry(name, definition_hash, reason))

    def add_postings(self, postings: BuiltPostings) -> int:
        """Write the postings of a base column; return their stored bytes."""
        require(self._open is None and bool(self._tables), "postings before the base table")
        held = postings.keys.value_bytes + self._held_bytes
        require_limit("bytes of dictionaries", held, expanded_bytes_max(self._sink.offset))
        name = self.free_name(f"postings/{postings.definition.definition_hash}")
        self.add_dictionary(name, postings.keys, store_hashes=False)
        position = self._dictionary_names.index(name)
        entry, byte_count = write_postings(self._sink, postings, position)
        self._postings.append(entry)
        return byte_count + directory_bytes(self._dictionary_entries[position].pages)

    def copy_postings(self, source: SegmentFile, entry: PostingsEntry) -> None:
        """Copy postings of another segment, whose base column was copied, as they are."""
        key = entry.table.columns[0].dictionary
        require(key is not None, "postings without a dictionary of keys")
        old_name = source.footer.dictionaries[key or 0].name
        name = self.free_name(old_name)
        self._copy_dictionary(source, old_name, name)
        position = self._dictionary_names.index(name)
        self._postings.append(copy_postings(self._sink, source, entry, position))

    def free_name(self, name: str) -> str:
        """Return a dictionary's name, with a number where it is taken."""
        tries = (name if n == 0 else f"{name[:200]}/{n}" for n in count())
        return next(one for one in tries if one not in self._dictionary_names)

    @property
    def _dictionary_names(self) -> list[str]:
        return [entry.name for entry in self._dictionary_entries]

    @property
    def _held_bytes(self) -> int:
        return sum(dictionary.value_bytes for dictionary in self._dictionaries.values())

    def column_bytes(self, table: str) -> int:
        """Return the stored bytes of the pages of all columns of a finished table."""
        return sum(self.summary(table).column_bytes.values())

    def summary(self, table: str) -> TableSummary:
        """Return the sizes of a finished table."""
        return next(summary for summary in self._summaries if summary.name == table)

    def finish(self) -> SegmentSummary:
        """Write footer and tail; nothing may follow."""
        require(self._open is None and bool(self._tables), "finish before end_table")
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
                tuple(self._postings),
            )
        )
        require_limit("footer's size in bytes", len(content), FOOTER_BYTES_MAX)
        tail = Tail(
            self._sink.offset,
            len(content),
            required_features=required_features(
                self._tables,
                has_fields=bool(fields),
                has_foreign_rows=self._has_foreign_rows,
            ),
            optional_features=POSTINGS if self._postings else 0,
        )
        self._sink.put(content)
        self._sink.put(tail.pack(content))
        held = self._held_bytes
        most = expanded_bytes_max(self._sink.offset)
        what = (
            "bytes of a segment's dictionaries (a smaller target_segment_rows makes them smaller)"
        )
        require_limit(what, held, most)
        return SegmentSummary(self._sink.offset, tail.checksum(content), tuple(self._summaries))

    def _dictionary_index(self, name: str, vector: Vector, dictionary: str | None) -> int | None:
        if not isinstance(vector, Ids):
            require(dictionary is None, f"column '{name}' is no ids, yet names a dictionary")
            return None
        require(dictionary in self._dictionaries, f"dictionary '{dictionary}' was not added")
        assert dictionary is not None
        stored = self._dictionaries[dictionary]
        require(
            vector.type == stored.type and len(vector.dictionary) == len(stored),
            f"column '{name}' has another dictionary than '{dictionary}'",
        )
        highest = int(vector.ids.max(initial=0))
        require(len(vector) == 0 or highest < len(stored), f"id {highest} of '{name}' has no value")
        return self._dictionary_names.index(dictionary)

    def _require_base_columns(self) -> None:
        stored = {c.name: c.type for c in self._tables[0].columns if c.role == "base"}
        wanted = {f.name: type_name(f.type) for f in self._schema}
        require(stored == wanted, f"base table holds {stored}, the schema says {wanted}")
