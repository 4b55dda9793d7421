"""Bloom files: filters as defined, rates as promised from both sides, no forgery believed."""

import tracemalloc

import bloom as oracle
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from value_hash import value_hash

from projseg.errors import CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
from projseg.kernels.bloom_blocks import bloom_blocks, key_blocks, key_masks, may_hold
from projseg.kernels.sketches.value_hash import hash_int64
from projseg.segment_format.footer import TAIL_LAYOUT, Tail
from projseg.segment_format.format_limits import BLOOM_BLOCKS_MAX
from projseg.segment_format.indexes.bloom_file import (
    BLOOM_TAIL_MAGIC,
    BloomFile,
    BloomFooter,
    BloomWriter,
    SegmentFilter,
    SegmentSlot,
    write_filters,
)
from projseg.segment_format.indexes.index_kinds import (
    KINDS,
    IndexDefinition,
    bits_of,
    block_count_of,
    false_share,
    read_definition,
    same_hashes,
)
from projseg.segment_format.vectors import Opaque

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=40)
ID = bytes(range(16))
DEFINITION = IndexDefinition("bloom", "visit", "string", 17)


def uint64(values):
    return np.array(values, np.uint64)


@given(HASHES, st.integers(1, 50))
def test_a_filter_is_its_oracle(hashes, blocks):
    assert bloom_blocks(uint64(hashes), blocks).tolist() == oracle.bloom_filter(hashes, blocks)


@given(HASHES.filter(bool), st.sampled_from([1, 3, 8, 4096, BLOOM_BLOCKS_MAX]))
def test_the_place_of_a_key_is_its_oracle(hashes, blocks):
    expected = [oracle.place(one, blocks) for one in hashes]
    assert key_blocks(uint64(hashes), blocks).tolist() == [block for block, _ in expected]
    assert key_masks(uint64(hashes)).tolist() == [words for _, words in expected]


def random_hashes(count, seed):
    return hash_int64(np.random.default_rng(seed).integers(0, 2**62, count))


@pytest.mark.parametrize("bits", [6, 11, 17])
def test_as_many_absent_keys_are_taken_for_present_as_promised(bits):
    """From both sides: a product that was not cut sets bits beyond the lane, or always the same."""
    keys, absent = random_hashes(6_000, 1), random_hashes(60_000, 2)
    blocks = bloom_blocks(keys, -(-len(keys) * bits // 256))

    def found(hashes):
        rows, masks = blocks[key_blocks(hashes, len(blocks))], key_masks(hashes)
        return int(((rows & masks) == masks).all(axis=1).sum())

    assert found(keys) == len(keys)
    expected = false_share(bits) * len(absent)
    assert abs(found(absent) - expected) < 5 * np.sqrt(expected) + 0.1 * expected
    assert np.unpackbits(blocks[0].view(np.uint8)).sum() > 30


def test_rates_and_bits_are_those_of_the_specification():
    assert [bits_of(rate) for rate in (0.1, 0.01, 0.001, 0.0001, 0.00001)] == [6, 11, 17, 27, 41]


@given(st.integers(0, 10**7), st.integers(6, 41))
def test_a_filter_has_the_least_size_that_gives_each_key_its_bits(keys, bits):
    blocks = block_count_of(keys, bits)
    sizes = sorted({*(1 << n for n in range(25)), *(3 << n for n in range(24))})
    assert blocks == next(size for size in sizes if size * 256 >= keys * bits)


def test_definitions_are_canonical_and_named_by_their_hash():
    assert DEFINITION.definition_hash == "7e33406508b6dceb8919c513db9bfebb"  # SPEC.md
    assert read_definition(DEFINITION.text) == DEFINITION
    for text in (DEFINITION.text + " ", DEFINITION.text.replace("17", "0"), "{}"):
        with pytest.raises(ValueError, match=r"canonical|missing"):
            read_definition(text)


def test_filters_serve_a_wider_type_only_where_hashes_are_equal():
    assert same_hashes(pa.int8(), pa.int64())
    assert same_hashes(pa.int32(), pa.decimal128(38, 0))
    assert same_hashes(pa.decimal128(5, 2), pa.decimal128(30, 2))
    assert same_hashes(pa.float32(), pa.float64())
    assert not same_hashes(pa.int32(), pa.float64())
    assert not same_hashes(pa.decimal128(5, 2), pa.decimal128(5, 1))


def test_keys_are_the_hashes_of_values_each_once():
    vector = Opaque(pa.array(["b", None, "a", "b"]))
    expected = sorted(value_hash(text) for text in (b"a", b"b"))
    assert KINDS["bloom"].keys(vector).tolist() == expected


def name(number):
    return f"data/{number:032x}-0-0-0.pseg"


def made(sizes, failed=(), definition=DEFINITION):
    """A file of segments with so many keys each; return (content, summary, keys of each)."""
    content, keys, filters = bytearray(), {}, []
    for number, size in enumerate(sizes):
        keys[name(number)] = random_hashes(size, number)
        blocks = bloom_blocks(keys[name(number)], block_count_of(size, definition.bits))
        filters.append(SegmentFilter(name(number), size, "built", blocks))
    filters += [SegmentFilter(name(10**6 + n), 0, status, None) for n, status in enumerate(failed)]
    writer = BloomWriter(
        content.extend,
        file_id=ID,
        definition_hash=definition.definition_hash,
        definition=definition.text,
    )
    return bytes(content), write_filters(writer, filters), keys, content


def opened(content, footer_offset):
    return BloomFile.open(bytes(content[footer_offset:]), len(content), "x.pblm")


def read(content):
    return lambda offset, size: bytes(content[offset : offset + size])


def holders(file, content, value):
    """The segments that may hold a key, by one page of each band."""
    found = []
    for number, band in enumerate(file.footer.bands):
        row = int(key_blocks(uint64([value]), band.blocks)[0])
        offset, size = band.page(row // band.page_rows)
        rows = file.rows(band, row // band.page_rows, bytes(content[offset : offset + size]))
        hit = may_hold(rows[row % band.page_rows], key_masks(uint64([value]))[0])
        found += [
            one.file for one in file.footer.segments if one.band == number and hit[one.slot or 0]
        ]
    return found


@pytest.mark.parametrize("sizes", [[0], [1], [5, 900, 5, 0, 70_000], [3] * 1200, [200] * 40])
def test_a_key_is_found_in_one_page_of_each_band(sizes):
    _, summary, keys, content = made(sizes, ["skipped: too many keys"])
    assert summary.byte_count == len(content)
    file = opened(content, summary.footer_offset)
    file.verify(read(content))
    for segment, hashes in list(keys.items())[:50]:
        for value in hashes[:3].tolist():
            assert segment in holders(file, content, value)
    false = [holders(file, content, value) for value in random_hashes(20, 10**9).tolist()]
    assert sum(map(len, false)) <= 2 + 0.01 * 20 * len(sizes)
    assert file.footer.segments[-1].status == "skipped: too many keys"


def test_stripes_are_the_rows_of_a_band():
    _, summary, _, content = made([20_000] * 3)
    file = opened(content, summary.footer_offset)
    (band,) = file.footer.bands
    whole = file.stripe(band, 0, band.blocks, read(content))
    assert (file.stripe(band, 5, 700, read(content)) == whole[5:700]).all()
    assert whole.shape == (band.blocks, 3, 8)


def refused(content, footer_offset, errors=CorruptSegmentError):
    with pytest.raises(errors):
        opened(content, footer_offset).verify(read(content))


def test_every_flipped_bit_and_every_truncation_is_found():
    _, summary, _, content = made([3, 3, 40], ["failed: x"])
    errors = (CorruptSegmentError, UnsupportedFeatureError, LimitExceededError)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        refused(damaged, summary.footer_offset, errors)
    for size in range(len(content)):
        refused(content[:size], summary.footer_offset, errors)


def forged(**changed):
    """A file whose footer is another one, its checksums repaired."""
    _, summary, _, content = made([3, 3, 40], ["failed: x"])
    offset = summary.footer_offset
    footer = opened(content, offset).footer
    text = msgspec.msgpack.encode(msgspec.structs.replace(footer, **changed))
    tail = Tail(offset, len(text))
    return content[:offset] + text + tail.pack(text, BLOOM_TAIL_MAGIC), offset, footer


def test_a_sound_forgery_is_taken():
    content, offset, _ = forged()
    opened(content, offset)


def changed_band(place, **fields):
    footer = forged()[2]
    bands = list(footer.bands)
    bands[place] = msgspec.structs.replace(bands[place], **fields)
    return {"bands": bands}


def changed_segment(place, **fields):
    segments = list(forged()[2].segments)
    segments[place] = msgspec.structs.replace(segments[place], **fields)
    return {"segments": segments}


@pytest.mark.parametrize(
    "change",
    [
        lambda: {"file_id": b""},
        lambda: {"bands": ()},
        lambda: {"segments": ()},
        lambda: {"bands": forged()[2].bands[::-1]},
        lambda: changed_band(0, blocks=0),
        lambda: changed_band(0, blocks=2**62),
        lambda: changed_band(1, blocks=2**40),
        lambda: changed_band(0, segment_count=0),
        lambda: changed_band(0, segment_count=1),
        lambda: changed_band(0, segment_count=2**62),
        lambda: changed_band(0, file_offset=0),
        lambda: changed_segment(0, slot=1),
        lambda: changed_segment(0, slot=2),
        lambda: changed_segment(0, band=-1),
        lambda: changed_segment(0, band=2),
        lambda: changed_segment(0, band=None),
        lambda: changed_segment(0, file=name(1)),
        lambda: changed_segment(0, status="skipped: x"),
        lambda: changed_segment(0, key_count=-1),
        lambda: changed_segment(3, band=0, slot=0),
        lambda: changed_segment(3, status="built"),
        lambda: {"segments": forged()[2].segments[:-2]},
        lambda: {"segments": [SegmentSlot(name(n), None, None, 0, "x") for n in range(4097)]},
    ],
)
def test_a_forged_directory_is_refused(change):
    content, offset, _ = forged(**change())
    refused(content, offset)


def test_a_directory_of_many_small_things_takes_little_memory():
    bands = [[n + 1, 4096, 32] for n in range(60_000)]
    text = msgspec.msgpack.encode(
        msgspec.to_builtins(
            BloomFooter(ID, "", "", (), (SegmentSlot(name(0), None, None, 0, "x"),)),
        )
        | {"bands": bands, "file_id": ID}
    )
    tail = Tail(32, len(text))
    content = bytes(32) + text + tail.pack(text, BLOOM_TAIL_MAGIC)
    tracemalloc.start()
    refused(content, 32)
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()
    huge = Tail(32, 2**31).pack(b"", BLOOM_TAIL_MAGIC)
    with pytest.raises((CorruptSegmentError, LimitExceededError)):
        BloomFile.open(huge[: TAIL_LAYOUT.size], 32 + 2**31 + TAIL_LAYOUT.size, "x.pblm")
