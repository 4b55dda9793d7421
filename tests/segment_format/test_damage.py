"""Damage is found: each bit, each length, each part in another's place."""

import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from scale import IS_NIGHTLY, tries
from segment_bytes import FILE_ID, build_segment, open_segment, read_everything, same_bits

from projseg.errors import (
    CorruptSegmentError,
    LimitExceededError,
    ProjsegError,
    UnsupportedFeatureError,
)
from projseg.segment_format import footer_checks
from projseg.segment_format.checksum_and_compression import file_seed, part_checksum
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.verify_file import part_places, verify_segment
from projseg.segment_format.footer import TAIL_LAYOUT
from projseg.segment_format.vectors import Ids, Numbers, Opaque

FILE_IDS = [FILE_ID, b"another file id."]
REFUSED = (CorruptSegmentError, LimitExceededError, UnsupportedFeatureError)


def small_columns():
    words = Dictionary(pa.array([None, "apple", "apricot", "pear"]))
    valid = np.array([True, False, True, True, True])
    return {
        "word": Ids(np.array([0, 1, 2, 3, 3], np.uint8), words),
        "n": Numbers(np.array([5, 0, 7, 2**40, -1]), pa.int64(), 0, valid),
        "x": Numbers(np.array([1.5, np.nan, -0.0, 2.25, 1e300]), pa.float64()),
        "list": Opaque(pa.array([[1], None, [], [2, 3], [None]], pa.list_(pa.int32()))),
    }


def sorted_segment(row_count=20_000):
    """A segment with a bitmap index, runs, compression and a projection."""
    words = Dictionary(pa.array([f"word {i:03d}" for i in range(40)]))
    sorted_ids = Ids(np.sort(np.arange(row_count) % 40).astype(np.uint8), words)
    text = Opaque(pa.array([f"text {i % 50}" for i in range(row_count)]))
    grouped = Ids(np.arange(40, dtype=np.uint8), words)
    counts = Numbers(np.full(40, row_count // 40), pa.int64())
    projections = {"by_word": {("grouping", "word"): grouped, ("state", "count"): counts}}
    return build_segment({"word": sorted_ids, "text": text}, projections=projections)


@pytest.fixture(scope="module")
def small():
    return build_segment(small_columns())


def test_whole_files_verify(small):
    assert verify_segment(open_segment(small)) > 4
    content = sorted_segment()
    assert open_segment(content).bitmap_index("__base", "base", "word") is not None
    verify_segment(open_segment(content))


def test_every_flipped_bit_is_found_and_none_changes_an_answer(small):
    expected = read_everything(small)
    for bit in range(0, 8 * len(small), 1 if IS_NIGHTLY else 3):  # two or three of each byte
        damaged = bytearray(small)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(REFUSED):
            verify_segment(open_segment(bytes(damaged)))
        try:
            found = read_everything(bytes(damaged))
        except REFUSED:
            continue
        assert all(same_bits(found[key], array) for key, array in expected.items()), bit


def test_padding_between_parts_is_proved():
    content = sorted_segment()
    parts = part_places(open_segment(content))
    padded = [part for part in parts if part.byte_count % 8]
    assert padded, "the file has compressed pages"
    for part in padded:
        damaged = bytearray(content)
        damaged[part.file_offset + part.byte_count] = 1
        with pytest.raises(CorruptSegmentError, match="padding"):
            verify_segment(open_segment(bytes(damaged)))


def test_truncation_at_every_byte_is_found(small):
    for size in range(len(small)):
        with pytest.raises(CorruptSegmentError):
            open_segment(small[:size])
        with pytest.raises(CorruptSegmentError):
            verify_segment(open_segment(small[len(small) - size :]))


def test_a_file_that_shrinks_under_the_reader_is_found(small):
    segment = open_segment(small)
    segment.read_range = lambda offset, size: small[offset : offset + size][: size - 1]
    with pytest.raises(CorruptSegmentError, match="truncated"):
        segment.column("__base", "base", "n")


def test_a_page_in_the_place_of_another_is_found():
    values = np.random.default_rng(1).integers(0, 2**32, 3 * 65_536)
    content = bytearray(build_segment({"x": Numbers(values, pa.int64())}))
    records = open_segment(bytes(content)).directory("__base", "base", "x").records
    first, second = (int(offset) for offset in records["file_offset"][:2])
    size = int(records["stored_bytes"][0])
    assert size == int(records["stored_bytes"][1])
    content[first : first + size], content[second : second + size] = (
        content[second : second + size],
        content[first : first + size],
    )
    with pytest.raises(CorruptSegmentError, match="checksum"):
        open_segment(bytes(content)).column("__base", "base", "x")


def test_a_checksum_tells_where_its_part_belongs():
    page = b"the same bytes"
    seeds = [file_seed(FILE_ID), file_seed(b"another file id.")]
    found = {part_checksum(page, seed, offset) for seed in seeds for offset in (32, 40, 2**31)}
    assert len(found) == 6


def test_parts_of_another_file_are_found():
    one, other = (build_segment(small_columns(), file_id=file_id) for file_id in FILE_IDS)
    with pytest.raises(CorruptSegmentError, match="head"):
        verify_segment(open_segment(other[:32] + one[32:]))
    record = open_segment(other).footer.tables[0].columns[1].pages
    own_record = open_segment(one).footer.tables[0].columns[1].pages
    with pytest.raises(CorruptSegmentError, match="checksum"):
        read_everything(refooted(one, own_record, record))


def refooted(content, old, new):
    """Return the file with bytes of its footer replaced and the tail's checksum repaired."""
    fields = TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])
    footer = content[fields[0] : -TAIL_LAYOUT.size]
    assert footer.count(old) == 1
    assert len(old) == len(new)
    return retailed(content[: fields[0]] + footer.replace(old, new) + content[-TAIL_LAYOUT.size :])


@pytest.fixture(scope="module")
def large():
    content = sorted_segment()
    return content, read_everything(content)


@pytest.mark.parametrize("seed", range(tries(5_000, 100)))
def test_random_damage_is_found(large, seed):
    content, expected = large
    rng = np.random.default_rng(seed)
    damaged = bytearray(content)
    start = int(rng.integers(0, len(content)))
    burst = int(rng.integers(1, 64)) if seed % 2 else 4096
    end = min(len(content), start + burst)
    noise = rng.integers(0, 256, end - start, np.uint8).tobytes()
    damaged[start:end] = noise if seed % 3 else bytes(end - start)
    if bytes(damaged) == content:
        return
    with pytest.raises(REFUSED):
        verify_segment(open_segment(bytes(damaged)))
    try:
        found = read_everything(bytes(damaged))
        assert all(same_bits(found[key], array) for key, array in expected.items())
    except REFUSED:
        pass


def retailed(content, **changes):
    """Return the file with fields of its tail changed and its checksum repaired."""
    names = ["footer_offset", "footer_bytes", "format_version", "required", "optional"]
    fields = dict(zip(names, TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])[:5], strict=True))
    footer = content[fields["footer_offset"] : -TAIL_LAYOUT.size]
    covered = struct.pack("<QIIII", *(fields | changes).values())
    checksum = xxhash.xxh3_64_intdigest(footer + covered)
    return content[: -TAIL_LAYOUT.size] + covered + struct.pack("<Q", checksum) + content[-8:]


def test_files_from_the_future_are_refused(small):
    assert retailed(small) == small
    for change in ({"format_version": 2}, {"format_version": 999}, {"required": 1 << 31}):
        with pytest.raises(UnsupportedFeatureError, match="newer"):
            open_segment(retailed(small, **change))


def test_optional_features_are_ignored(small):
    content = retailed(small, optional=1 << 31)
    assert verify_segment(open_segment(content))


@pytest.mark.parametrize("offset", [0, 8, 2**63, 2**64 - 1])
def test_a_footer_out_of_place_is_refused(small, offset):
    with pytest.raises(ProjsegError):
        open_segment(retailed(small, footer_offset=offset))


@pytest.mark.parametrize("tail_read", [TAIL_LAYOUT.size, 64 * 1024])
def test_bytes_between_footer_and_tail_are_refused(small, tail_read, monkeypatch):
    monkeypatch.setattr(footer_checks, "ENDING_BYTES", tail_read)
    assert verify_segment(open_segment(small))
    with pytest.raises(CorruptSegmentError, match="does not end at the tail"):
        open_segment(small[: -TAIL_LAYOUT.size] + bytes(8) + small[-TAIL_LAYOUT.size :])


@pytest.mark.parametrize("content", [b"", b"PAR1", bytes(40), bytes(1000), b"\xff" * 1000])
def test_other_files_are_refused(content):
    with pytest.raises(CorruptSegmentError):
        open_segment(content)
