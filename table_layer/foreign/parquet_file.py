"""One Parquet file of a source: its footer, proved and bounded, and its columns as vectors.

What a footer says is a claim. It may leave out row groups by bounds of whole numbers and times; no
answer rests on it but the number of rows, which reading proves.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

from projseg.errors import ProjsegError
from projseg.evaluation.arrow_vectors import encode_sorted, vector_of_array
from projseg.kernels.parquet_footers import misfit
from projseg.memory.cache import KEPT
from projseg.segment_format.arrow_arrays import primitive_array, primitive_values, valid_values
from projseg.segment_format.cast_arrays import cast_array
from projseg.segment_format.dictionary import Dictionary, narrow_id_dtype
from projseg.segment_format.format_limits import FOOTER_BYTES_MAX, PAGE_ROWS_MAX, name_key
from projseg.segment_format.logical_types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_nested,
    is_text,
    normal_type,
    type_name,
)
from projseg.segment_format.page_directory import PageZones, may_widen
from projseg.segment_format.vectors import Ids, Opaque, Vector
from projseg.table_layer.foreign.source_files import (
    ListedFile,
    Reads,
    bad_source,
    reads_of,
    source_changed,
)
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions

SMALL_FILE_BYTES: Final = 1 << 20
"""Of a file that one read fetches where all of it is wanted."""
_TAIL_BYTES: Final = 8
_LEAST_BYTES: Final = 12
_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_ROW_GROUPS_MAX: Final = 1 << 17
_THRIFT_ITEMS_MAX: Final = 1 << 20
_GROUP_ROWS_MAX: Final = 1 << 26  # a column of so many rows takes half a gigabyte in memory
_HELD_PER_STORED: Final = 8  # bytes of a parsed footer for each of its bytes, about
_DISTINCT_SHARE_MAX: Final = 0.7  # texts with more different values are left as they are
_DISTINCT_MIN: Final = 4096
_PHYSICAL_TYPES: Final = (
    *("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"),
    *("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
)
"""By Parquet's numbers."""
_BOUND_BYTES: Final = {"INT32": 4, "INT64": 8}  # of types whose bounds are looked at
_MICROS: Final = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


class ParquetFooter(msgspec.Struct, frozen=True, eq=False):
    """A parsed footer of a Parquet file and the digest of its bytes.

    By `name_key`, `fields` has the columns as Arrow has them, and `leaves` the positions of each
    column's parts in a row group; `row_counts` has the rows of each row group.
    """

    digest: int
    metadata: pq.FileMetaData
    fields: dict[str, pa.Field]
    leaves: dict[str, tuple[int, ...]]
    row_counts: tuple[int, ...]

    def runs(self, rows_max: int) -> Iterator[tuple[int, int]]:
        """Yield runs of neighbouring row groups, of at most `rows_max` rows or of one group."""
        first = rows = 0
        for number, count in enumerate(self.row_counts):
            if rows and rows + count > rows_max:
                yield first, number
                first, rows = number, 0
            rows += count
        if rows or not first:
            yield first, len(self.row_counts)

    def rows_of(self, groups: tuple[int, int]) -> int:
        """Return how many rows some row groups have."""
        return sum(self.row_counts[slice(*groups)])

    def column_bytes(self, name: str | None, groups: tuple[int, int]) -> int:
        """Return the stored bytes of a column in some row groups; none of one that is not there."""
        parts = () if name is None else self.leaves.get(name_key(name), ())
        chunks = (self.metadata.row_group(g).column(p) for g in range(*groups) for p in parts)
        return sum(max(chunk.total_compressed_size, 0) for chunk in chunks)

    def bounds(self, name: str | None, groups: tuple[int, int]) -> list[tuple[int, int]] | None:
        """Return the bounds of each row group as whole numbers, days or microseconds.

        None if the column is of another type, or one of the row groups states none.
        """
        key = None if name is None else name_key(name)
        field = None if key is None else self.fields.get(key)
        parts = () if key is None else self.leaves.get(key, ())
        if field is None or len(parts) != 1:
            return None
        multiplier, divisor = 1, 1
        if pa.types.is_timestamp(field.type):
            multiplier, divisor = _MICROS[field.type.unit]
        elif not (pa.types.is_signed_integer(field.type) or pa.types.is_date32(field.type)):
            return None
        found = []
        for group in range(*groups):
            chunk = self.metadata.row_group(group).column(parts[0])
            stated = chunk.statistics
            if stated is None or not stated.has_min_max:
                return None
            low, high = stated.min_raw, stated.max_raw
            if type(low) is not int or type(high) is not int:
                return None
            found.append((low * multiplier // divisor, -(-high * multiplier // divisor)))
        return found


def read_footer(
    file: ListedFile, options: StorageOptions = NO_OPTIONS, *, anew: bool = False
) -> ParquetFooter:
    """Return the footer of a file, read once while the file is the same, or anew."""
    key = ("foreign footer", *file.identity)
    known: ParquetFooter | None = None if anew else KEPT.get(key)
    if known is None:
        with reads_of(file, options) as reads:
            content = _footer_bytes(file, reads)
        known = _parsed(file, content)
        KEPT.replace(key, known, _HELD_PER_STORED * len(content))
    return known


def proved_footer(
    file: ListedFile, digest: int, options: StorageOptions = NO_OPTIONS
) -> ParquetFooter:
    """Return the footer of a file; another digest raises PROJSEG_SOURCE_CHANGED."""
    with reads_of(file, options) as reads:
        _require_footer(file, reads, digest, options)
    return read_footer(file, options)


def _require_footer(file: ListedFile, reads: Reads, digest: int, options: StorageOptions) -> None:
    if xxhash.xxh3_64_intdigest(_footer_bytes(file, reads)) != digest:
        read_footer(file, options, anew=True)
        raise source_changed(file.path, "has another footer than when it was listed")


def _footer_bytes(file: ListedFile, reads: Reads) -> bytes:
    """Return the bytes of a footer and of the tail that follows it."""
    if file.byte_count < _LEAST_BYTES:
        raise bad_source(f"{file.path} has {file.byte_count} bytes, too few for a Parquet file")
    known = min(file.byte_count, FIRST_READ_BYTES)
    ending = reads(file.byte_count - known, known)
    magic = ending[-4:]
    if magic == _ENCRYPTED:
        raise bad_source(f"{file.path} is encrypted, and no key is known; write it without")
    size = int.from_bytes(ending[-_TAIL_BYTES:-4], "little") + _TAIL_BYTES
    if magic != _MAGIC or size > file.byte_count - len(_MAGIC):
        raise bad_source(f"{file.path} is no whole Parquet file; leave it out of the pattern")
    if size > FOOTER_BYTES_MAX:
        raise bad_source(
            f"{file.path} has a footer of {size} bytes; at most {FOOTER_BYTES_MAX} are read"
        )
    return ending[-size:] if size <= known else reads(file.byte_count - size, size)


FIRST_READ_BYTES: Final = 64 << 10
"""Bytes that one read fetches of a file's end: the footers of most files."""


def _parsed(file: ListedFile, content: bytes) -> ParquetFooter:
    digest = xxhash.xxh3_64_intdigest(content)
    try:
        metadata = pq.ParquetFile(
            pa.BufferReader(_MAGIC + content),
            thrift_string_size_limit=FOOTER_BYTES_MAX,
            thrift_container_size_limit=_THRIFT_ITEMS_MAX,
        ).metadata
        _require_parts(content[:-_TAIL_BYTES], metadata)
        schema = metadata.schema.to_arrow_schema()
        names = [metadata.schema.column(n).path for n in range(metadata.num_columns)]
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise bad_source(
            f"the footer of {file.path} cannot be read: {_first_line(error)}"
        ) from error
    if metadata.num_row_groups > _ROW_GROUPS_MAX:
        raise bad_source(
            f"{file.path} has {metadata.num_row_groups} row groups; at most {_ROW_GROUPS_MAX} are "
            "read: write fewer"
        )
    counts = tuple(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))
    if any(not 0 <= count <= _GROUP_ROWS_MAX for count in counts):
        raise bad_source(
            f"{file.path} has a row group of {max(counts)} rows; at most {_GROUP_ROWS_MAX} are "
            "read: write smaller ones"
        )
    if sum(counts) != metadata.num_rows or file.row_count not in (None, metadata.num_rows):
        raise source_changed(
            file.path, f"states {metadata.num_rows} rows and has {sum(counts)}, or was listed so"
        )
    return ParquetFooter(digest, metadata, *_columns(file, schema, names), counts)


def _require_parts(content: bytes, metadata: pq.FileMetaData) -> None:
    """Raise ValueError where pyarrow would end the process at a part of a row group."""
    columns = np.zeros((4, metadata.num_columns), np.int64)
    for place in range(metadata.num_columns):
        leaf = metadata.schema.column(place)
        columns[:, place] = (
            _PHYSICAL_TYPES.index(leaf.physical_type),
            leaf.max_repetition_level,
            leaf.max_definition_level,
            _BOUND_BYTES.get(leaf.physical_type, 0),
        )
    found = misfit(np.frombuffer(content, np.uint8), columns)
    if found is not None:
        raise ValueError(
            f"at byte {found} it does not fit its schema, or a column is encrypted; write it anew"
        )


def _columns(
    file: ListedFile, schema: pa.Schema, paths: list[str]
) -> tuple[dict[str, pa.Field], dict[str, tuple[int, ...]]]:
    """Return columns, and the positions of their parts, by `name_key`."""
    fields: dict[str, pa.Field] = {}
    leaves: dict[str, tuple[int, ...]] = {}
    start = 0
    for field in schema:
        key = name_key(field.name)
        if key in fields:
            raise bad_source(
                f"{file.path} has two columns '{field.name}', as names have no case; rename one"
            )
        end = start + _leaf_count(field.type)
        fields[key], leaves[key] = field, tuple(range(start, end))
        start = end
    if start != len(paths):
        raise bad_source(f"{file.path} has columns that its schema does not tell; write it anew")
    return fields, leaves


def _leaf_count(arrow_type: pa.DataType) -> int:
    types = pa.types
    if types.is_dictionary(arrow_type) or not types.is_nested(arrow_type):
        return 1
    return sum(_leaf_count(arrow_type.field(n).type) for n in range(arrow_type.num_fields))


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the values of a file's column are values of a table's, in a type as wide."""
    try:
        plain = normal_type(found)
    except ProjsegError:
        return False
    is_alike = plain == wanted or plain == pa.null() or may_widen(plain, wanted)
    return is_alike or (is_nested(plain) and plain.id == wanted.id)


class ParquetRows:
    """The rows of some row groups [first, end) of a file, by columns.

    Columns have the table's names for them in the source, or stored names where the file has
    `names`.
    """

    def __init__(
        self,
        file: ListedFile,
        footer: ParquetFooter,
        groups: tuple[int, int],
        options: StorageOptions = NO_OPTIONS,
    ) -> None:
        self._file, self._footer, self._options = file, footer, options
        self._content: bytes | None = None
        self.groups = groups
        counts = footer.row_counts[slice(*groups)]
        self.row_starts: NDArray[np.int64] = np.array([*accumulate(counts, initial=0)], np.int64)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return int(self.row_starts[-1])

    def has_column(self, name: str) -> bool:
        """Whether the file, or its place, has a value for each row."""
        column = self._file.column_of(name)
        is_in_file = column is not None and name_key(column) in self._footer.fields
        return is_in_file or name in dict(self._file.partition)

    def byte_count(self, name: str) -> int:
        """Return the stored bytes of a column."""
        return self._footer.column_bytes(self._file.column_of(name), self.groups)

    def vector(
        self, name: str, wanted: pa.DataType, first: int = 0, end: int | None = None
    ) -> Vector:
        """Return a column of some of the row groups, counted from the first, in a type.

        The file's footer is read again, and another one is refused.
        """
        end = len(self.row_starts) - 1 if end is None else end
        row_count = int(self.row_starts[end] - self.row_starts[first])
        partition = dict(self._file.partition)
        if name in partition:
            text, where = partition[name], f"{self._file.path}: {name}"
            # A log's texts of bytes have a letter for each; those of a path are UTF-8.
            encoding = "utf-8" if self._file.tag else "latin-1"
            return constant(text, wanted, row_count, where, encoding)
        column = self._file.column_of(name)
        assert column is not None, "the caller has asked whether it is there"
        field = self._footer.fields[name_key(column)]
        if not fits(field.type, wanted):
            raise source_changed(
                self._file.path,
                f"has column '{name}' as {field.type}, and the table's is {type_name(wanted)}; "
                "call sync()",
            )
        groups = range(self.groups[0] + first, self.groups[0] + end)
        values = self._read(field, groups, is_text=is_text(wanted))
        if len(values) != row_count:
            raise source_changed(
                self._file.path, f"has {len(values)} values of '{name}' for {row_count} rows"
            )
        try:
            return _vector(values, wanted)
        except (pa.ArrowException, IndexError) as error:
            raise bad_source(
                f"{self._file.path}: column '{name}' holds a value that is no "
                f"{type_name(wanted)}: {_first_line(error)}; leave it out by columns="
            ) from error

    def _read(self, field: pa.Field, groups: range, *, is_text: bool) -> pa.ChunkedArray:
        if not groups:
            return pa.chunked_array([], field.type)
        file = self._file
        with self._opened() as reads:
            _require_footer(file, reads, self._footer.digest, self._options)
            content = self._content
            source = None if content is None else pa.BufferReader(content)
            try:
                opened = pq.ParquetFile(
                    source or pa.PythonFile(_RawFile(reads, file.byte_count), "r"),
                    metadata=self._footer.metadata,
                    read_dictionary=[field.name] if is_text else None,
                    coerce_int96_timestamp_unit="us",
                    pre_buffer=content is None,
                    page_checksum_verification=True,
                )
                found = opened.read_row_groups(
                    list(groups), [field.name], use_threads=False, use_pandas_metadata=False
                )
            except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
                if isinstance(error, ProjsegError):
                    raise
                raise source_changed(
                    file.path, f"cannot be read in column '{field.name}': {_first_line(error)}"
                ) from error
        return found.column(found.column_names.index(field.name))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Read a small file once, and its columns from memory as long as this is open."""
        if self._file.byte_count <= SMALL_FILE_BYTES:
            with reads_of(self._file, self._options) as reads:
                content = reads(0, self._file.byte_count)
            self._content = content
        try:
            yield
        finally:
            self._content = None

    @contextmanager
    def _opened(self) -> Iterator[Reads]:
        content = self._content
        if content is not None:
            yield lambda offset, size: content[offset : offset + size]
            return
        with reads_of(self._file, self._options) as reads:
            yield reads

    def prove_bounds(self, name: str, vector: Vector) -> None:
        """Raise InvalidInputError if a value of a whole column passes the bounds in its footer."""
        column = self._file.column_of(name)
        stated = self._footer.bounds(column, self.groups)
        if not stated or name in dict(self._file.partition):
            return
        values = vector.to_arrow()
        if not (pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)):
            return
        for place, (low, high) in enumerate(stated):
            start, end = self.row_starts[place : place + 2]
            found = pc.min_max(values.slice(int(start), int(end - start)))
            least, most = (_number(found[one]) for one in ("min", "max"))
            if least is not None and most is not None and not low <= least <= most <= high:
                raise bad_source(
                    f"{self._file.path} has values of '{column}' from {least} to {most} in row "
                    f"group {self.groups[0] + place}, whose footer says from {low} to {high}: it "
                    "is damaged, write it anew"
                )

    def zones(self, name: str, wanted: pa.DataType) -> PageZones | None:
        """Return bounds of each 65,536 rows, by which rows may be left out; None if none are known.

        Nothing else is said: any row may be null.
        """
        is_whole = pa.types.is_integer(wanted) or pa.types.is_date32(wanted)
        if not is_whole and wanted not in (TIMESTAMP, TIMESTAMP_NTZ):
            return None
        found = self._footer.bounds(self._file.column_of(name), self.groups)
        if not found or name in dict(self._file.partition):
            return None
        groups = np.array(found, np.int64)
        starts = np.append(np.arange(0, self.row_count, PAGE_ROWS_MAX), self.row_count)
        firsts = np.searchsorted(self.row_starts, starts[:-1], side="right") - 1
        ends = np.searchsorted(self.row_starts, starts[1:], side="left")
        lows = [groups[a:b, 0].min() for a, b in zip(firsts, ends, strict=True)]
        highs = [groups[a:b, 1].max() for a, b in zip(firsts, ends, strict=True)]
        known = np.ones(len(lows), np.bool_)
        return PageZones(
            starts.astype(np.int64),
            np.array(lows, np.int64),
            np.array(highs, np.int64),
            known,
            known.astype(np.int64),
            ~known,
        )


class _RawFile(io.RawIOBase):
    """Reads of a file by Arrow."""

    def __init__(self, reads: Reads, size: int) -> None:
        self._reads, self._size, self._position = reads, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(self._size - self._position, 0)
        content = self._reads(self._position, left if size < 0 else min(size, left))
        self._position += len(content)
        return content


def _vector(column: pa.ChunkedArray, wanted: pa.DataType) -> Vector:
    if is_text(wanted) and pa.types.is_dictionary(column.type):
        return _ids_of(column, wanted)
    arrays = [cast_array(chunk, wanted) for chunk in column.chunks]
    array = pa.concat_arrays(arrays) if arrays else pa.nulls(0, wanted)
    if pa.types.is_boolean(wanted) or wanted == pa.null():
        return encode_sorted(array)
    return vector_of_array(array)


def _ids_of(column: pa.ChunkedArray, wanted: pa.DataType) -> Vector:
    """Return texts that are read as dictionaries as ids of a sorted one, unless few repeat."""
    for chunk in column.chunks:
        _check_indices(chunk)
    unified = column.unify_dictionaries().combine_chunks()
    if isinstance(unified, pa.ChunkedArray):
        unified = (
            pa.concat_arrays(unified.chunks) if unified.num_chunks else pa.array([], column.type)
        )
    values, indices = cast_array(unified.dictionary, wanted), unified.indices
    if len(values) > max(_DISTINCT_SHARE_MAX * len(indices), _DISTINCT_MIN):
        return Opaque(values.take(indices))
    has_null = bool(indices.null_count)
    places = primitive_values(indices.fill_null(0) if has_null else indices).astype(np.int64)
    validity = valid_values(indices) if has_null else None
    is_used = np.zeros(len(values), np.bool_)
    is_used[places if validity is None else places[validity]] = True
    order = primitive_values(pc.array_sort_indices(values)).astype(np.int64)
    order = order[is_used[order]]
    count = len(order) + has_null
    rank = np.zeros(max(len(values), 1), narrow_id_dtype(count))
    rank[order] = np.arange(int(has_null), count)
    in_order = values.take(primitive_array(order))
    if has_null:
        in_order = pa.concat_arrays([pa.nulls(1, wanted), in_order])
    ids = rank[places]
    if validity is not None:
        ids[~validity] = 0
    return Ids(ids, Dictionary(in_order))


def _check_indices(chunk: pa.DictionaryArray) -> None:
    """Raise IndexError if a damaged page names no value of its dictionary.

    Arrow neither checks the indices that it reads nor those that it maps to another dictionary.
    """
    found = pc.min_max(chunk.indices).as_py()
    if found["max"] is not None and not 0 <= found["min"] <= found["max"] < len(chunk.dictionary):
        raise IndexError(
            f"indices {found['min']} to {found['max']} in {len(chunk.dictionary)} values"
        )


def _number(bound: pa.Scalar) -> int | None:
    """Return a whole number, days or microseconds."""
    value: int | None = getattr(bound, "value", None)
    return (bound.as_py() if value is None else value) if bound.is_valid else None


def constant(
    text: str | None, wanted: pa.DataType, row_count: int, where: str, encoding: str = "utf-8"
) -> Vector:
    """Return a partition's value for each of its rows; `encoding` makes bytes of its text.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if the text is no value of the type.
    """
    try:
        value = pa.array([text], pa.string())
        if text is not None and pa.types.is_binary(wanted):
            value = pa.array([text.encode(encoding)], pa.binary())
        if wanted == TIMESTAMP:
            value = value.cast(TIMESTAMP_NTZ if _has_no_zone(text) else TIMESTAMP)
            value = value.cast(TIMESTAMP_NTZ).cast(TIMESTAMP)
        value = value.cast(wanted)
    except (pa.ArrowException, UnicodeError) as error:
        raise bad_source(
            f"{where} is {text!r}, which is no {type_name(wanted)}; name its type by columns="
        ) from error
    if is_text(wanted) or pa.types.is_boolean(wanted):
        return Ids(np.zeros(row_count, np.uint8), Dictionary(value))
    return vector_of_array(value.take(primitive_array(np.zeros(row_count, np.int64))))


def _has_no_zone(text: str | None) -> bool:
    return text is None or not (text.endswith("Z") or "+" in text[10:] or "-" in text[10:])


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
