"""Deletion vectors: rows come back, and no file makes a reader believe or hold anything else."""

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pyroaring
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from projseg.errors import CorruptSegmentError, MissingPackageError
from projseg.segment_format.file.deletion_vector import (
    VECTOR_HEAD_LAYOUT,
    VECTOR_MAGIC,
    decode_vector,
    encode_vector,
    vector_checksum,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "deleted_rows.pdel"
GOLDEN_ROWS = [0, 7, *range(70_000, 75_000), *range(200_000, 206_000, 3), 400_000]
OWNER = 0x1234_5678_9ABC_DEF0
ROWS = 500_000


def read(content, rows=ROWS, count=None, owner=OWNER, checksum=None):
    return decode_vector(
        content,
        segment_checksum=owner,
        row_count=rows,
        deleted_row_count=VECTOR_HEAD_LAYOUT.unpack(content[:24])[2] if count is None else count,
        checksum=vector_checksum(content) if checksum is None else checksum,
        path="x.pdel",
    )


def sealed(count, bitmap, magic=VECTOR_MAGIC, version=1, owner=OWNER):
    """A file of any bitmap, its checksum repaired."""
    content = VECTOR_HEAD_LAYOUT.pack(magic, version, count, owner) + bitmap
    return content + struct.pack("<Q", xxhash.xxh3_64_intdigest(content))


def refused(content, match, **said):
    with pytest.raises(CorruptSegmentError, match=match):
        read(content, **said)


@given(st.sets(st.integers(0, ROWS - 1), min_size=1) | st.sets(st.integers(0, 300), min_size=1))
def test_rows_come_back(rows):
    content = encode_vector(np.array(sorted(rows), np.uint32), OWNER)
    assert read(content).tolist() == sorted(rows)
    assert vector_checksum(content) == xxhash.xxh3_64_intdigest(content[:-8])


def test_the_golden_file_is_read_and_written_as_ever():
    content = GOLDEN.read_bytes()
    assert read(content).tolist() == GOLDEN_ROWS
    assert encode_vector(np.array(GOLDEN_ROWS, np.uint32), OWNER) == content


def test_a_vector_of_another_segment_or_that_the_table_does_not_list():
    content = encode_vector(np.array([1, 2], np.uint32), OWNER)
    refused(content, "another segment", owner=OWNER + 1)
    refused(content, "the table 3", count=3)
    refused(content, "checksum", checksum=vector_checksum(content) ^ 1)


def test_every_truncation_and_flipped_bit_is_refused():
    content = encode_vector(np.array([3, *range(100, 130)], np.uint32), OWNER)
    for size in range(len(content)):
        with pytest.raises(CorruptSegmentError):
            read(content[:size], count=31, checksum=vector_checksum(content))
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSegmentError):
            read(bytes(damaged), count=31, checksum=vector_checksum(content))


def test_lies_with_a_repaired_checksum():
    plain = BitMap([1, 5, 70_000])
    values = np.arange(1_000, dtype="<u2").tobytes()
    as_array = struct.pack("<IIHHI", 12_346, 1, 0, 999, 16) + values
    assert list(BitMap.deserialize(as_array)) == list(range(1_000))
    refused(sealed(3, plain.serialize(), magic=b"\x89PSEGDEX"), "no deletion vector")
    refused(sealed(3, plain.serialize(), version=2), "format version 2")
    refused(sealed(4, plain.serialize()), "holds 3 rows")
    refused(sealed(2, plain.serialize()), "holds 3 rows")
    refused(sealed(3, plain.serialize()), "beyond the last", rows=70_000)
    refused(sealed(1_000, as_array), "malformed")  # a run would be smaller
    refused(sealed(3, plain.serialize() + b"\0"), "malformed")
    refused(sealed(3, b""), "malformed")


def test_a_few_bytes_that_claim_all_rows_allocate_nothing():
    everything = BitMap(range(1 << 22))
    everything.run_optimize()
    bomb = sealed(5, everything.serialize())
    refused(bomb, "holds 4194304 rows", rows=1 << 22)  # kernels are compiled by now
    tracemalloc.start()
    try:
        refused(bomb, "holds 4194304 rows", rows=1 << 22)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@given(st.binary(max_size=200))
def test_any_bytes(bitmap):
    content = sealed(3, bitmap)
    try:
        rows = read(content)
    except CorruptSegmentError:
        return
    found = BitMap.deserialize(bitmap)
    assert rows.tolist() == list(found)


def test_a_form_that_no_reader_takes_is_not_written(monkeypatch):
    class OfAnOlderRelease(BitMap):
        def serialize(self):  # as pyroaring 1.0 writes rows 0 to 2: as a run, though no shorter
            return bytes.fromhex("3b30 0000 01 0000 0200 0100 0000 0200")

    assert len(read(encode_vector(np.arange(3, dtype=np.uint32), OWNER))) == 3
    monkeypatch.setattr(pyroaring, "BitMap", OfAnOlderRelease)
    with pytest.raises(MissingPackageError, match=r"install pyroaring 1\.1 or later"):
        encode_vector(np.arange(3, dtype=np.uint32), OWNER)
