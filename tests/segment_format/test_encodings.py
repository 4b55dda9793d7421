"""Every encoding of the closed table: exact sizes, round trips, determinism, and who is chosen."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.kernels.integer_codes import common_factor, page_statistics
from projseg.segment_format.arrow_arrays import text_array
from projseg.segment_format.byte_reader import ALIGNMENT, ByteReader
from projseg.segment_format.encodings.encoding_table import (
    INTEGER_ENCODINGS,
    NUMBER_ENCODINGS,
    TEXT_ENCODINGS,
)
from projseg.segment_format.encodings.nested_encoding import decode_validity, encode_validity

INT64 = st.integers(-(2**63), 2**63 - 1)
OUT_DTYPES = [np.uint8, np.uint16, np.uint32, np.int64]


def reader_of(content):
    return ByteReader(memoryview(content), path="test.pseg", part_name="page")


@st.composite
def pages(draw):
    """Pages of every shape an encoding is made for."""
    rows = draw(st.sampled_from([1, 2, 31, 33, 200, 1500]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low = draw(INT64 | st.sampled_from([0, 1, -1]))
    span = draw(st.sampled_from([0, 1, 5, 255, 256, 2**16, 2**31, 2**40, 2**63, 2**64 - 1]))
    span = min(span, 2**63 - 1 - low)
    values = low + (rng.integers(0, span, rows, np.uint64, endpoint=True)).astype(object)
    match draw(st.sampled_from(["any", "sorted", "runs", "outliers", "scaled"])):
        case "sorted":
            values = np.sort(values)
        case "runs":
            values = np.repeat(values, 9)[:rows]
        case "outliers":
            values[rng.random(rows) < 0.98] = low
        case "scaled":
            values = low + (values - low) // 1000 * 1000
    return values.astype(np.int64)


@pytest.mark.parametrize("number", INTEGER_ENCODINGS.records)
@settings(max_examples=tries(150))
@given(values=pages(), dtype=st.sampled_from(OUT_DTYPES), base=INT64)
def test_every_encoding_keeps_what_it_accepts(number, values, dtype, base):
    codec, facts = INTEGER_ENCODINGS.records[number].codec, page_statistics(values)
    offer = codec.offer(values, facts)
    if offer is None:
        return
    content = offer.make()
    assert len(content) == offer.byte_count, "the estimate is exact"
    assert content == offer.make() == codec.offer(values.copy(), facts).make()
    assert len(content) % ALIGNMENT == 0
    out = np.empty(len(values), dtype)
    reader = reader_of(content)
    codec.decode_into(reader, out, base)
    reader.finish()
    bits = 8 * out.dtype.itemsize
    expected = [(value - base) % 2**bits for value in values.tolist()]
    assert out.view(f"u{bits // 8}").tolist() == expected


@settings(max_examples=tries(100))
@given(pages())
def test_the_chosen_encoding_is_never_larger_than_a_copy(values):
    frame = INTEGER_ENCODINGS.records[2].codec
    copied = frame.offer(values, page_statistics(values))
    assert INTEGER_ENCODINGS.choose(values).offer.byte_count <= copied.byte_count


ROWS = np.arange(4096)
NOISE = ROWS * 2_654_435_761 % 2**32


def test_sorted_hours_take_less_than_a_bit_a_row():
    hours = np.sort(NOISE % 24) * 3_600_000_000 + 1_442_016_000_000_000
    assert INTEGER_ENCODINGS.choose(hours).offer.byte_count < len(hours) // 8


@given(st.lists(st.integers(0, 2**40), max_size=30), st.integers(1, 10**6))
def test_common_factor_is_the_greatest(values, factor):
    scaled = np.array([value * factor for value in values], np.uint64)
    assert common_factor(scaled, 1) == np.gcd.reduce(scaled, initial=np.uint64(0))


FLOATS = st.lists(
    st.floats() | st.integers(-(10**6), 10**6).map(lambda n: n / 100) | st.just(-0.0),
    min_size=1,
    max_size=60,
)


@settings(max_examples=tries(200))
@given(FLOATS, st.sampled_from([np.float32, np.float64]))
def test_floats_come_back_bit_for_bit(values, dtype):
    with np.errstate(over="ignore"):
        array = np.array(values).astype(dtype)
    chosen, _ = NUMBER_ENCODINGS.choose(array)
    encoding, content = chosen.encode()
    assert len(content) == chosen.offer.byte_count
    out = np.empty_like(array)
    reader = reader_of(content)
    NUMBER_ENCODINGS.decode_into(reader, encoding, out, 0)
    reader.finish()
    assert out.tobytes() == array.tobytes()


DECIMALS = NUMBER_ENCODINGS.floats[9].codec


def test_prices_are_stored_as_integers_and_noise_is_not():
    cents = np.round(NOISE % 100_000 / 100, 2)
    chosen, _ = NUMBER_ENCODINGS.choose(cents)
    assert chosen.number == 9
    assert chosen.offer.byte_count < 3 * len(cents)
    assert NUMBER_ENCODINGS.choose(np.sqrt(ROWS))[0].number == 8


@pytest.mark.parametrize(
    "values", [np.array([1.5, np.nan]), np.array([0.0, -0.0]), np.array([1e300]), np.float32([1.5])]
)
def test_no_decimals_are_made_of_what_they_do_not_give_back(values):
    assert DECIMALS.offer(values) is None


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=30))
def test_text_comes_back(texts):
    ascending = [None, *sorted(set(texts))]
    for number, values in ((10, texts), (11, ascending)):
        codec = TEXT_ENCODINGS.records[number].codec
        array = pa.array(["" if value is None else value for value in values])
        offer = codec.offer(pa.array(values, pa.string()), is_sorted=True)
        reader = reader_of(offer.make())
        assert reader.bytes_left == offer.byte_count
        found = text_array(*codec.decode(reader, len(array)), array.type, None)
        reader.finish()
        assert found.equals(array)


def test_front_coding_saves_what_neighbours_share():
    sorted_texts = pa.array([f"https://example.org/page/{i:06d}" for i in range(1000)])
    saved, copied = (
        TEXT_ENCODINGS.choose(sorted_texts, is_sorted=is_sorted) for is_sorted in (True, False)
    )
    assert (saved.number, copied.number) == (11, 10)
    assert saved.offer.byte_count < copied.offer.byte_count / 5


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 90)), min_size=1, max_size=12))
def test_validity_comes_back(runs):
    validity = np.concatenate([np.full(length, valid) for valid, length in runs])
    kind, content = encode_validity(validity)
    null_count = int((~validity).sum())
    reader = reader_of(content)
    found = decode_validity(reader, kind, len(validity), null_count)
    reader.finish()
    expected = validity if null_count else None
    assert found is None if expected is None else np.array_equal(found, expected)
    assert len(content) <= len(validity) / 8 + 8
