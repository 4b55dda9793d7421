"""The description of a segment adds up to its file."""

import numpy as np
import pyarrow as pa
import pytest
from segment_bytes import build_segment, open_segment

from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.description import describe
from projseg.segment_format.vectors import Ids, Numbers, Opaque


@pytest.fixture(scope="module")
def description():
    words = Dictionary(pa.array([None, *(f"word {i:02d}" for i in range(20))]))
    ids = Ids(np.sort(np.arange(20_000) % 21).astype(np.uint8), words)
    grouped = Ids(np.arange(21, dtype=np.uint8), words)
    text = Opaque(pa.array([f"some text {i % 9}" for i in range(20_000)]))
    count = Numbers(np.full(21, 7), pa.int64())
    projections = {"p": {("grouping", "word"): grouped, ("state", "count"): count}}
    content = build_segment({"word": ids, "text": text}, projections=projections)
    assert describe(open_segment(content)).byte_count == len(content)
    return describe(open_segment(content))


def test_sections_add_up_to_the_file(description):
    assert sum(description.bytes_by_purpose.values()) == description.byte_count
    assert 0 <= description.bytes_by_purpose["padding"] < 8 * 20
    assert description.bytes_by_purpose["bitmap indexes"] > 0


def test_columns_say_how_they_are_stored(description):
    word, text = description.tables[0].columns
    assert (word.kind, word.dictionary, word.pages.page_count) == ("ids", "word", 1)
    assert word.null_count == 20_000 // 21 + 1
    assert word.pages.encodings == {"run length": 1}
    assert text.pages.encodings == {"text + zstd": 1}
    assert text.pages.stored_bytes < text.pages.raw_bytes


def test_sharing_saves_one_dictionary_for_each_further_table(description):
    (shared,) = description.dictionaries
    assert shared.used_by == (("__base", "word"), ("p", "word"))
    assert description.bytes_saved_by_sharing == shared.byte_count > 0


def test_projections_are_told_from_the_base_table(description):
    assert [table.name for table in description.projections] == ["p"]
    assert description.projections[0].byte_count > 0
