"""Large dictionaries of texts: values of a few pages, and all, are those that were written."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from forged_segments import forge
from hypothesis import given, settings
from hypothesis import strategies as st
from segment_bytes import build_segment, open_segment

from projseg.errors import CorruptSegmentError
from projseg.segment_format.column_writer import _encode_ids_page, _encode_opaque_page
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.vectors import Ids, text_bytes

KINDS = ("words", "null", "bytes")
COUNT = 250_000


@cache
def words():
    return sorted(
        (f"{n * 77_777:x} {'é' * (n % 7)} {n % 89}" for n in range(COUNT)), key=str.encode
    )


@cache
def values_of(kind):
    if kind == "bytes":
        return pa.array([word.encode() for word in words()])
    return pa.array([None, "", *words()[2:]] if kind == "null" else words())


@cache
def file_of(kind):
    return build_segment({"x": Ids(np.zeros(1, np.uint32), Dictionary(values_of(kind)))})


@cache
def places_of(kind):
    return {value: place for place, value in enumerate(values_of(kind).to_pylist())}


def dictionary_of(kind):
    return open_segment(file_of(kind)).dictionary("x")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, COUNT - 1), max_size=30), st.booleans())
def test_a_few_values_are_those_of_all(kind, wanted, is_near):
    ids = np.array([one % 20_000 for one in wanted] if is_near else wanted, np.uint32)
    dictionary, expected = dictionary_of(kind), values_of(kind).take(pa.array(ids))

    assert text_bytes(Ids(ids, dictionary), 0) == sum(len(v or b"") for v in as_bytes(expected))
    for _ in range(2):
        assert dictionary.values_of(ids).equals(expected)
    assert dictionary.values.equals(values_of(kind))
    assert dictionary.values_of(ids).equals(expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(st.one_of(st.integers(0, COUNT - 1), st.text(max_size=6)))
def test_a_text_is_found_where_it_stands(kind, chosen):
    text = words()[chosen] if isinstance(chosen, int) else chosen
    value = text.encode() if kind == "bytes" else text
    found, later = dictionary_of(kind).id_of(value), dictionary_of(kind)
    assert later.values.equals(values_of(kind))
    assert later.id_of(value) == found
    assert found == places_of(kind).get(value)


@pytest.mark.parametrize("kind", KINDS)
def test_all_texts_at_the_edges_of_pages_are_found(kind):
    segment = open_segment(file_of(kind))
    (entry,) = segment.footer.dictionaries
    starts = segment.dictionary_directory(entry).row_starts
    assert len(starts) > 4
    edges = {int(start) + step for start in starts for step in (-1, 0, 1)}
    for place in edges & set(range(COUNT)):
        value = values_of(kind)[place].as_py()
        if value is not None:
            assert segment.dictionary("x").id_of(value) == place


def test_facts_about_values_need_none_of_them():
    dictionary = dictionary_of("null")
    held = dictionary.nbytes
    assert (len(dictionary), dictionary.has_null, dictionary.type) == (
        COUNT,
        True,
        pa.string(),
    )
    assert dictionary.id_dtype == np.uint32
    assert dictionary.nbytes == held < len(file_of("null"))
    dictionary.values_of(np.array([5], np.uint32))
    some = dictionary.nbytes
    assert 0 < some - held < values_of("null").nbytes / 2
    assert dictionary.values.nbytes <= dictionary.nbytes


def test_what_is_decoded_is_counted_with_the_file():
    segment = open_segment(file_of("words"))
    dictionary, before = segment.dictionary("x"), segment.held_bytes
    dictionary.values_of(np.array([5], np.uint32))
    some = segment.held_bytes
    assert before < some
    assert dictionary.values.nbytes <= segment.held_bytes - before


def damaged_segment():
    """A segment with one bit of its dictionary's last page changed."""
    segment = open_segment(file_of("words"))
    (entry,) = segment.footer.dictionaries
    records = segment.dictionary_directory(entry).records
    content = bytearray(file_of("words"))
    content[int(records["file_offset"][-1] + records["stored_bytes"][-1]) - 9] ^= 1
    return open_segment(bytes(content))


def test_damage_is_found_where_it_is_needed():
    damaged = damaged_segment().dictionary("x")
    assert damaged.values_of(np.array([0], np.uint32)).to_pylist() == [words()[0]]
    last = COUNT - 1
    for use in (
        lambda: damaged.values_of(np.array([last], np.uint32)),
        lambda: damaged.id_of(words()[last]),
        lambda: damaged.values,
    ):
        with pytest.raises(CorruptSegmentError, match="checksum"):
            use()


def as_bytes(values):
    return [v.encode() if isinstance(v, str) else v for v in values.to_pylist()]


def test_verification_decodes_values_that_no_query_has_needed():
    with pytest.raises(CorruptSegmentError, match="checksum"):
        verify_segment(damaged_segment())


@pytest.mark.parametrize(
    ("pages", "problem"),
    [
        ([["a", "b"], [None, "c"], ["d"], ["e"]], "null other than the first"),
        ([["a", "b"], ["c"], ["e", "d"], ["f"]], "not ascending"),
        ([["a", "b"], ["c"], ["d"], ["d"]], "not ascending"),
        ([["b"], ["c"], ["d"], ["a"]], "not ascending"),
    ],
)
def test_pages_that_are_no_dictionary_are_refused(pages, problem):
    stored = [stored_page(_encode_opaque_page(pa.array(texts))) for texts in pages]
    ids = stored_page(_encode_ids_page(np.zeros(1, np.uint8), has_null=False))
    count = sum(map(len, pages))
    dictionary = ("string", count, stored)
    content = forge([ids], 1, column_type="string", kind="ids", dictionary=dictionary)
    for use in (
        lambda dictionary: dictionary.values,
        lambda dictionary: dictionary.values_of(np.arange(count, dtype=np.uint8)),
    ):
        with pytest.raises(CorruptSegmentError, match=problem):
            use(open_segment(content).dictionary("x"))
    with pytest.raises(CorruptSegmentError, match=problem):
        verify_segment(open_segment(content))


def stored_page(page):
    fields = ("row_count", "encoding", "validity", "null_count", "flags", "minimum", "maximum")
    return page.raw, {name: getattr(page, name) for name in fields}
