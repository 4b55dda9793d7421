"""A Bloom file of words, written once: it is read to what `build` says, and written the same."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from projseg.errors import CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
from projseg.kernels.bloom_blocks import bloom_blocks, key_blocks, key_masks, may_hold
from projseg.segment_format.dictionary_pages import array_hashes
from projseg.segment_format.footer import parse_tail
from projseg.segment_format.indexes.bloom_file import (
    BLOOM_TAIL_MAGIC,
    BUILT,
    BloomFile,
    BloomWriter,
    SegmentFilter,
    write_filters,
)
from projseg.segment_format.indexes.index_kinds import IndexDefinition, block_count_of
from projseg.segment_format.indexes.text_keys import word_hashes

GOLDEN = Path(__file__).with_name("words.pblm")
TEXTS = {
    "data/0-0-0-0.pseg": ["War and Peace", "Foo-bar_2 für ΣΑΣ"],
    "data/0-1-0-0.pseg": [f"word{n}" for n in range(40)],
    "data/0-2-0-0.pseg": ["中文 İstanbul", "peace"],
}
WORD_COUNTS = [8, 40, 4]
SKIPPED = SegmentFilter("data/0-3-0-0.pseg", 0, "skipped: too large", None)


def build():
    """The file's bytes."""
    definition = IndexDefinition("token", "page", "string", 17, unicode="18.0.0")
    filters = []
    for file, texts in TEXTS.items():
        keys = word_hashes(pa.array(texts))
        blocks = bloom_blocks(keys, block_count_of(len(keys), definition.bits))
        filters.append(SegmentFilter(file, len(keys), BUILT, blocks))
    written = []
    writer = BloomWriter(
        written.append,
        file_id=bytes(range(16)),
        definition_hash=definition.definition_hash,
        definition=definition.text,
    )
    write_filters(writer, [*filters, SKIPPED])
    return b"".join(written)


def opened(content):
    """Read and prove a whole file."""
    tail, _ = parse_tail(content[-40:], len(content), "golden", BLOOM_TAIL_MAGIC)
    file = BloomFile.open(content[tail.footer_offset :], len(content), "golden")
    file.verify(partial(read, content))
    return file


def read(content, offset, size):
    return content[offset : offset + size]


def test_the_golden_file_is_written_the_same_today():
    assert GOLDEN.read_bytes() == build()


def test_its_words_are_found_and_others_are_not():
    content = GOLDEN.read_bytes()
    file = opened(content)
    slots = {one.file: one for one in file.footer.segments}
    assert [slots[name].key_count for name in TEXTS] == WORD_COUNTS
    assert slots[SKIPPED.file].status == SKIPPED.status
    found = {}
    for word in (
        "war",
        "peace",
        "\u03c3\u03b1\u03c3",
        "istanbul",
        "文",
        "word39",
        "War",
        "absent",
        "foo-bar",
    ):
        key = word_hash(word)
        for name in TEXTS:
            band = file.footer.bands[slots[name].band]
            blocks = file.stripe(band, 0, band.blocks, partial(read, content))
            row = blocks[key_blocks(key, band.blocks)[0]]
            if may_hold(row, key_masks(key)[0])[slots[name].slot]:
                found.setdefault(word, []).append(name)
    first, second, third = TEXTS
    expected = {
        "war": [first],
        "peace": [first, third],
        "\u03c3\u03b1\u03c3": [first],
        "word39": [second],
    }
    assert found == {**expected, "istanbul": [third], "文": [third]}


def word_hash(word):
    """The hash of a key as it is, which is no text that is split."""
    return array_hashes(pa.array([word]))


def test_every_flipped_bit_is_found():
    content = GOLDEN.read_bytes()
    for place in range(8 * len(content)):
        hurt = bytearray(content)
        hurt[place // 8] ^= 1 << place % 8
        with pytest.raises((CorruptSegmentError, LimitExceededError, UnsupportedFeatureError)):
            opened(bytes(hurt))
