"""The bytes of pages to vectors. SPEC.md section 5.

Pages of a column are decoded one after the other straight into one array of the narrowest dtype
that holds the chosen pages. Nothing here reads files or keeps state, so any thread may decode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import LimitExceededError
from projseg.memory.forks import cached_property
from projseg.memory.memory_pool import empty_to_keep
from projseg.segment_format.arrow_arrays import WIDE, limits, numpy_dtype, text_array
from projseg.segment_format.byte_reader import ByteReader, corrupt
from projseg.segment_format.checksum_and_compression import decompress_page, part_checksum
from projseg.segment_format.encodings.encoding_table import (
    INTEGER_ENCODINGS,
    NESTED,
    NUMBER_ENCODINGS,
    TEXT_ENCODINGS,
)
from projseg.segment_format.encodings.nested_encoding import decode_validity
from projseg.segment_format.format_limits import require_limit
from projseg.segment_format.logical_types import is_nested, is_text, number_limits, type_name
from projseg.segment_format.page_directory import HAS_BOUNDS, PageRecord
from projseg.segment_format.vectors import Numbers

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_ARROW_OFFSET_MAX: Final = 2**31 - 1


class PageRun:
    """Neighbouring pages of one column, read from the file and not yet decoded.

    `content` has the file's bytes from the first page's start to the last one's end.
    """

    def __init__(
        self,
        records: NDArray[Any],
        content: bytes | memoryview,
        seed: int,
        *,
        path: str,
        part_name: str,
    ) -> None:
        self.records, self.path, self.part_name = records, path, part_name
        self.row_count = int(records["row_count"].sum())
        self._content, self._seed = memoryview(content), seed

    def part(self, first_page: int, page_end: int) -> PageRun:
        """Return a decoder of some of the pages."""
        records = self.records[first_page:page_end]
        start = int(records["file_offset"][0] - self.records["file_offset"][0])
        end = int(records["file_offset"][-1] - records["file_offset"][0])
        content = self._content[start : start + end + int(records["stored_bytes"][-1])]
        return PageRun(records, content, self._seed, path=self.path, part_name=self.part_name)

    def fail(self, problem: str) -> Exception:
        """Return the error of a column whose pages contradict each other or their directory."""
        return corrupt(self.path, self.part_name, problem)

    @cached_property
    def page_records(self) -> list[PageRecord]:
        """The pages, one by one."""
        return list(map(PageRecord._make, self.records.tolist()))

    def pages(self) -> Iterator[tuple[PageRecord, ByteReader, slice]]:
        """Yield (record, reader over the verified raw bytes, rows within the run) by page."""
        start_row, start = 0, self.page_records[0].file_offset if self.page_records else 0
        for record in self.page_records:
            offset = record.file_offset
            part_name = f"{self.part_name}, page at byte {offset}"
            stored = self._content[offset - start : offset - start + record.stored_bytes]
            if part_checksum(stored, self._seed, offset) != record.checksum:
                raise corrupt(self.path, part_name, "checksum differs from the directory's")
            raw = decompress_page(
                stored,
                record.compression,
                record.raw_bytes,
                path=self.path,
                part_name=part_name,
            )
            end_row = start_row + record.row_count
            reader = ByteReader(raw, path=self.path, part_name=part_name)
            yield record, reader, slice(start_row, end_row)
            start_row = end_row


def decode_ids(run: PageRun, cardinality: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the ids of the run, dtype[n], each proved below `cardinality`."""
    ids = empty_to_keep(run.row_count, dtype)
    for record, reader, rows in run.pages():
        reader.require(record.validity == 0, "ids carry no validity of their own")
        reader.require(
            record.flags == HAS_BOUNDS and 0 <= record.minimum <= record.maximum,
            "ids without bounds",
        )
        reader.require(record.maximum < cardinality, "an id passes the dictionary")
        INTEGER_ENCODINGS.decode_into(reader, record.encoding, ids[rows], 0)
        reader.finish()
    if len(ids) and int(ids.max()) >= cardinality:
        raise run.fail(f"id {ids.max()} passes a dictionary of {cardinality} values")
    return ids


def decode_numbers(run: PageRun, arrow_type: pa.DataType, *, is_narrow: bool = True) -> Numbers:
    """Return the numbers of the run: floats as they are, integers as narrow as the run allows.

    Where one of them passes 64 bits, they are WIDE. With `is_narrow` False integers are int64 at
    least, and zone maps are not used.
    """
    if pa.types.is_floating(arrow_type):
        values: NDArray[Any] = empty_to_keep(run.row_count, numpy_dtype(arrow_type))
        base = 0
    else:
        base, dtype = _narrowest(run, is_narrow=is_narrow)
        values = empty_to_keep(run.row_count, dtype)
    validity: NDArray[np.bool_] | None = None
    for record, reader, rows in run.pages():
        row_count, null_count = rows.stop - rows.start, record.null_count
        valid = decode_validity(reader, record.validity, row_count, null_count)
        NUMBER_ENCODINGS.decode_into(reader, record.encoding, values[rows], base)
        reader.finish()
        if valid is not None:
            validity = np.ones(run.row_count, np.bool_) if validity is None else validity
            validity[rows] = valid
            values[rows][~valid] = 0
    _require_type_limits(run, values, base, arrow_type)
    return Numbers(values, arrow_type, base, validity)


def _require_type_limits(
    run: PageRun, values: NDArray[Any], base: int, arrow_type: pa.DataType
) -> None:
    """Prove that every integer fits its type; the dtype alone often proves it."""
    if values.dtype.kind == "f" or len(values) == 0:
        return
    least, greatest = number_limits(arrow_type)
    if values.dtype.kind == "u" and least <= base <= greatest - int(np.iinfo(values.dtype).max):
        return
    if values.dtype == np.int64 and (least, greatest) == (_INT64_MIN, _INT64_MAX):
        return
    low, high = limits(values)
    low, high = base + low, base + high
    if low < least or high > greatest:
        raise run.fail(f"values from {low} to {high} are not all {type_name(arrow_type)}")


def _narrowest(run: PageRun, *, is_narrow: bool) -> tuple[int, np.dtype[Any]]:
    """Return (base, dtype) for the integers of the run."""
    if NUMBER_ENCODINGS.has_wide(record.encoding for record in run.page_records):
        return 0, WIDE
    if not is_narrow:
        return 0, np.dtype(np.int64)
    bounded = [record for record in run.page_records if record.flags & HAS_BOUNDS]
    if not bounded:
        return 0, np.dtype(np.uint8)
    minimum = min(record.minimum for record in bounded)
    maximum = max(record.maximum for record in bounded)
    if minimum > maximum:
        raise run.fail(f"bounds are upside down: {minimum} > {maximum}")
    for dtype in (np.uint8, np.uint16, np.uint32):
        if maximum - minimum <= np.iinfo(dtype).max:
            return minimum, np.dtype(dtype)
    return 0, np.dtype(np.int64)


def decode_opaque(
    run: PageRun, arrow_type: pa.DataType, bytes_max: int = _ARROW_OFFSET_MAX
) -> pa.Array:
    """Return the run as one validated Arrow array."""
    raw_bytes = int(run.records["raw_bytes"].sum(dtype=np.int64))
    if is_text(arrow_type) and raw_bytes > _ARROW_OFFSET_MAX:
        raise LimitExceededError(
            "PROJSEG_LIMIT_EXCEEDED",
            f"{run.path}: {run.part_name}: pages hold over 2 GiB of text; decode fewer at a time",
        )
    pieces, held_bytes = [], 0
    for page in run.pages():
        pieces.append(_decode_opaque_page(*page, arrow_type))
        held_bytes += pieces[-1].nbytes
        require_limit(f"bytes of {run.part_name} of {run.path}", held_bytes, bytes_max)
    if not pieces:
        return pa.nulls(0, arrow_type)
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _decode_opaque_page(
    record: PageRecord, reader: ByteReader, rows: slice, arrow_type: pa.DataType
) -> pa.Array:
    row_count, null_count = rows.stop - rows.start, record.null_count
    encoding = record.encoding
    validity = decode_validity(reader, record.validity, row_count, null_count)
    try:
        if null_count == row_count:
            array = pa.nulls(row_count, arrow_type)
        elif is_nested(arrow_type) and encoding == NESTED.number:
            array = NESTED.codec.decode(reader, arrow_type, row_count, validity)
        elif is_text(arrow_type):
            offsets, content = TEXT_ENCODINGS.decode(reader, encoding, row_count)
            array = text_array(offsets, content, arrow_type, validity)
        else:
            raise corrupt(reader.path, reader.part_name, f"encoding {encoding} for {arrow_type}")
        reader.finish()
        array.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise corrupt(reader.path, reader.part_name, f"not {arrow_type}: {error}") from error
    return array
