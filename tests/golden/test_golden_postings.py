"""A segment with postings of words and of runs, written once: read to what `build` says."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from segment_bytes import FILE_ID, open_segment
from segment_columns import ids_of
from words import grams, words

from projseg.errors import CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
from projseg.segment_format.file.postings import StoredPostings, build_postings
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.indexes.index_kinds import IndexDefinition

GOLDEN = Path(__file__).parent / "posted" / "titles.pseg"
TEXTS = [None, *(f"Title {n} of {n * n} für ΣΑΣ{n % 9} {'中文' * (n == 7)}" for n in range(40))]
KEYS = {"token": words, "ngram": grams}
"""By kind, the keys of a text by the slow twin."""


def build():
    """The file's bytes."""
    title = ids_of(pa.array(TEXTS * 3, pa.string()))
    written = []
    encoder = SegmentEncoder(
        written.append, file_id=FILE_ID, schema=pa.schema([("title", pa.string())])
    )
    encoder.add_dictionary("title", title.dictionary)
    encoder.begin_table("__base", len(title), definition="", sort_order=())
    encoder.add_column("title", title, role="base", dictionary="title")
    encoder.end_table()
    for kind in KEYS:
        definition = IndexDefinition(kind, "title", "string", 17, unicode="18.0.0", postings=True)
        encoder.add_postings(build_postings(definition, title))
    encoder.finish()
    return b"".join(written)


def rows(content):
    """The keys and the rows of all postings in a file."""
    segment = open_segment(content)
    found = [StoredPostings(segment, one) for one in segment.footer.postings]
    return [
        (
            one.definition,
            one.keys.values.to_pylist(),
            [np.stack(page).tolist() for page in one.pages()],
        )
        for one in found
    ]


def test_the_golden_file_says_the_same_as_one_of_today():
    assert rows(GOLDEN.read_bytes()) == rows(build())


def test_its_postings_say_which_values_hold_a_key():
    segment = open_segment(GOLDEN.read_bytes())
    values = segment.dictionary("title").values.to_pylist()
    assert values == [None, *sorted((text for text in TEXTS if text), key=str.encode)]
    assert [one.count for one in segment.footer.postings] == [41, 41]
    found = [StoredPostings(segment, one) for one in segment.footer.postings]
    for postings in found:
        holders = {}
        for place, text in enumerate(values):
            for key in KEYS[postings.definition.kind](text or ""):
                holders.setdefault(key, set()).add(place)
        assert set(postings.keys.values.to_pylist()) == holders.keys()
        for key, places in holders.items():
            mask = postings.holders([postings.id_of(key)])
            if 8 * len(places) > len(values):
                assert mask is None
            else:
                assert set(np.flatnonzero(mask).tolist()) == places
    verify_segment(segment)


@pytest.mark.slow
def test_every_flipped_bit_is_found():
    content = GOLDEN.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptSegmentError, LimitExceededError, UnsupportedFeatureError)):
            verify_segment(open_segment(bytes(damaged)))


if __name__ == "__main__":
    if not GOLDEN.exists():
        GOLDEN.write_bytes(build())
        print(f"wrote {GOLDEN}")
