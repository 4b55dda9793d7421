"""Read the end of a segment file, and prove that its footer's entries agree before use.

The checksum only says that the bytes are those written; a file made by a stranger is refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.segment_format.byte_reader import corrupt
from projseg.segment_format.footer import (
    BASE_TABLE,
    FILE_ID_BYTES,
    FOREIGN_ROWS,
    GROUPS_ONLY,
    HEAD_LAYOUT,
    ROW_NUMBER,
    ROW_PROJECTIONS,
    TAIL_LAYOUT,
    ZONE_RULES,
    ColumnEntry,
    ColumnKind,
    DictionaryEntry,
    Footer,
    PartEntry,
    TableEntry,
    Tail,
    check_features,
    decode_footer,
    has_zone_rules,
    parse_tail,
)
from projseg.segment_format.format_limits import (
    COLUMNS_MAX,
    DICTIONARY_VALUES_MAX,
    PARTS_MAX,
    PROJECTIONS_MAX,
    SEGMENT_BYTES_MAX,
    SEGMENT_ROWS_MAX,
    name_problem,
    require_limit,
)
from projseg.segment_format.logical_types import is_fixed_width, is_nested, is_text, parse_type_name
from projseg.segment_format.page_directory import PAGE_DTYPE


class _FooterChecker:
    """Checks of one footer; every method raises CorruptSegmentError or LimitExceededError."""

    def __init__(self, footer: Footer, tail: Tail, path: str) -> None:
        self._footer, self._tail, self._path = footer, tail, path

    def check(self) -> None:
        """Check everything a footer says that can be checked without reading parts."""
        footer = self._footer
        self._require(len(footer.file_id) == FILE_ID_BYTES, "file id has another size")
        self._check_counts()
        self._names("field", [field.name for field in footer.fields])
        self._names("dictionary", [entry.name for entry in footer.dictionaries])
        self._names("table", [table.name for table in footer.tables])
        for dictionary in footer.dictionaries:
            self._check_dictionary(dictionary)
        for table in footer.tables:
            self._check_table(table)
        self._check_rows_of_projections()
        if self._is_foreign:
            self._require(not self._footer.fields, "it has columns, and rows in another file")
            self._require(not self._footer.postings, "it has postings, and rows in another file")
        self._check_groups_only()
        for extra in footer.extra_sections:
            self._check_part(extra.section)
        self._check_schema()

    @property
    def _is_foreign(self) -> bool:
        """Whether the base rows are in a foreign file."""
        return bool(self._tail.required_features & FOREIGN_ROWS)

    def _check_counts(self) -> None:
        footer = self._footer
        self._require(len(footer.tables) > 0, "no table")
        self._require(footer.tables[0].name == BASE_TABLE, "table 0 is not the base table")
        require_limit("number of projections", len(footer.tables) - 1, PROJECTIONS_MAX)
        directories = [column.pages for table in footer.tables for column in table.columns]
        directories += [column.pages for one in footer.postings for column in one.table.columns]
        directories += [dictionary.pages for dictionary in footer.dictionaries]
        pages = sum(len(directory) for directory in directories) // PAGE_DTYPE.itemsize
        require_limit("number of parts", pages, PARTS_MAX)

    def _check_dictionary(self, entry: DictionaryEntry) -> None:
        require_limit("number of dictionary values", entry.cardinality, DICTIONARY_VALUES_MAX)
        self._require(entry.cardinality >= 0, "negative cardinality")
        arrow_type = self._type(entry.type)
        is_ordered = entry.cardinality <= 1 or is_fixed_width(arrow_type) or is_text(arrow_type)
        self._require(is_ordered, f"a dictionary of {entry.type}")
        if entry.hashes is not None:
            self._check_part(entry.hashes)
            self._require(entry.hashes.byte_count == 8 * entry.cardinality, "hashes are cut short")

    def _check_table(self, table: TableEntry) -> None:
        require_limit("number of columns", len(table.columns), COLUMNS_MAX)
        require_limit("number of rows", table.row_count, SEGMENT_ROWS_MAX)
        self._require(table.row_count >= 0, "negative row count")
        is_base = table.name == BASE_TABLE
        self._require(
            table.row_count == 0 or len(table.columns) > 0 or (is_base and self._is_foreign),
            f"table '{table.name}' has {table.row_count} rows and no column",
        )
        self._require(
            all((column.role == "base") == is_base for column in table.columns),
            f"table '{table.name}' has a column of another kind of table",
        )
        ordered = {column.name for column in table.columns if column.role != "state"}
        self._require(
            ordered.issuperset(table.sort_order),
            f"table '{table.name}' is sorted by a column it has not",
        )
        for role in ("base", "grouping", "state"):
            self._names(f"{role} column", [c.name for c in table.columns if c.role == role])
        for column in table.columns:
            self._check_column(column)

    def _check_rows_of_projections(self) -> None:
        """Check that projections of rows are announced, and know which base rows they hold."""
        base, *projections = self._footer.tables
        found = [table for table in projections if table.holds_rows]
        is_announced = bool(self._tail.required_features & ROW_PROJECTIONS)
        self._require(bool(found) == is_announced, "its features are not those of its projections")
        has_rules = any(has_zone_rules(table.definition) for table in projections)
        is_announced = bool(self._tail.required_features & ZONE_RULES)
        self._require(has_rules == is_announced, "its features are not those of its projections")
        for table in found:
            states = [(c.name, c.type, c.kind) for c in table.columns if c.role == "state"]
            self._require(
                states == [(ROW_NUMBER, "bigint", "numbers")],
                f"projection '{table.name}' of rows has no row numbers, or states",
            )
            self._require(bool(table.sort_order), f"projection '{table.name}' of rows has no order")
            self._require(
                table.row_count <= base.row_count,
                f"projection '{table.name}' has {table.row_count} of {base.row_count} rows",
            )

    def _check_groups_only(self) -> None:
        """Check that a part of a view is announced, and holds one table of groups."""
        base, *projections = self._footer.tables
        is_announced = bool(self._tail.required_features & GROUPS_ONLY)
        is_found = not self._footer.fields and bool(projections) and not self._is_foreign
        self._require(is_found == is_announced, "its features are not those of its tables")
        if is_announced:
            is_one = base.row_count == 0 and len(projections) == 1
            self._require(
                is_one and not projections[0].holds_rows and not self._footer.not_built,
                "a part of a view holds other tables than one of groups",
            )

    def _check_column(self, column: ColumnEntry) -> None:
        self._type(column.type)
        if column.kind == "ids":
            known = range(len(self._footer.dictionaries))
            self._require(column.dictionary in known, f"'{column.name}' has no dictionary")
            assert column.dictionary is not None
            stored = self._footer.dictionaries[column.dictionary]
            self._require(stored.type == column.type, f"'{column.name}' is not of its type")
            return
        self._require(column.dictionary is None, f"'{column.name}' names a dictionary")
        self._require(not column.index_blocks, f"'{column.name}' has an index, but no ids")
        fits = _is_kind_of(column.kind, column.type)
        self._require(fits, f"'{column.name}': {column.type} is not stored as {column.kind}")

    def _check_schema(self) -> None:
        stored = {c.name: c.type for c in self._footer.tables[0].columns if c.role == "base"}
        declared = {field.name: field.type for field in self._footer.fields}
        self._require(stored == declared, "base columns differ from the schema")

    def _check_part(self, entry: PartEntry) -> None:
        fits = (
            entry.file_offset >= HEAD_LAYOUT.size
            and entry.byte_count >= 0
            and entry.file_offset + entry.byte_count <= self._tail.footer_offset
        )
        self._require(fits, f"a part at byte {entry.file_offset} lies outside the file's parts")

    def _type(self, name: str) -> pa.DataType:
        try:
            return parse_type_name(name)
        except InvalidInputError as error:
            raise corrupt(self._path, "footer", str(error)) from error

    def _names(self, what: str, names: list[str]) -> None:
        if problem := _problem_of_names(tuple(names)):
            raise corrupt(self._path, "footer", problem.format(what))

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise corrupt(self._path, "footer", problem)


# Segments of a table are alike in names and types, and a query may open thousands of them.


@lru_cache(maxsize=4096)
def _problem_of_names(names: tuple[str, ...]) -> str | None:
    """Return why things of one kind, whose name stands for `{}`, may not have these names."""
    if len(set(names)) < len(names):
        return "two of a {} name"
    problems = map(name_problem, names)
    return next((f"a {{}} name {problem}" for problem in problems if problem is not None), None)


@lru_cache(maxsize=4096)
def _is_kind_of(kind: ColumnKind, type_name: str) -> bool:
    """Whether columns of a type are stored as `numbers` or `opaque`."""
    arrow_type = parse_type_name(type_name)
    if kind == "numbers":
        return is_fixed_width(arrow_type)
    return is_nested(arrow_type) or is_text(arrow_type) or bool(arrow_type == pa.null())


ReadRange = Callable[[int, int], bytes]  # (offset, size) -> exactly `size` bytes

ENDING_BYTES: Final = 64 * 1024  # one read fetches tail and footer of most files


def read_footer(
    read_range: ReadRange, size: int, path: str, ending: bytes = b""
) -> tuple[Footer, Tail]:
    """Read and prove the directory of a file."""
    require_limit(f"size in bytes of {path}", size, SEGMENT_BYTES_MAX)
    if size < HEAD_LAYOUT.size + TAIL_LAYOUT.size:
        raise corrupt(path, "file", f"{size} bytes are too few for a segment")
    known = min(size, len(ending) or ENDING_BYTES)
    start = size - known
    read = memoryview(ending or read_exactly(read_range, start, known, path))
    tail, checksum = parse_tail(read[-TAIL_LAYOUT.size :], size, path)
    if tail.footer_offset >= start:
        content = read[tail.footer_offset - start : -TAIL_LAYOUT.size]
    else:
        content = memoryview(read_exactly(read_range, tail.footer_offset, tail.footer_bytes, path))
    if tail.checksum(content) != checksum:
        raise corrupt(path, "footer", "checksum differs from the tail's")
    return prove_footer(content, tail, path), tail


def prove_footer(content: memoryview, tail: Tail, path: str) -> Footer:
    """Decode a footer whose checksum is right, and prove that its entries agree."""
    check_features(tail, path)
    footer = decode_footer(content, path)
    _FooterChecker(footer, tail, path).check()
    return footer


def read_exactly(read_range: ReadRange, offset: int, size: int, path: str) -> bytes:
    """Return bytes of a file; CorruptSegmentError if it has fewer."""
    content = read_range(offset, size)
    if len(content) != size:
        problem = f"{size} bytes wanted at byte {offset}, {len(content)} there: truncated?"
        raise corrupt(path, "file", problem)
    return content
