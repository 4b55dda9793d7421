"""Every encoding of the closed table: exact sizes, round trips, determinism, and who is chosen."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projseg.kernels.common_factor import common_factor
from projseg.kernels.page_statistics import page_statistics
from projseg.segment_format.arrow_arrays import text_array
from projseg.segment_format.byte_reader import ALIGNMENT, ByteReader
from projseg.segment_format.encodings.decimal_double import encode_decimals
from projseg.segment_format.encodings.front_coded import decode_front_coded, encode_front_coded
from projseg.segment_format.encodings.integers import INTEGER_ENCODINGS
from projseg.segment_format.encodings.numbers import decode_floats_best_into, encode_floats_best
from projseg.segment_format.encodings.text import decode_text, encode_text
from projseg.segment_format.validity import decode_validity, encode_validity

INT64 = st.integers(-(2**63), 2**63 - 1)
OUT_DTYPES = [np.uint8, np.uint16, np.uint32, np.int64]


def reader_of(content):
    return ByteReader(memoryview(content), path="test.pseg", section="page")


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


@pytest.mark.parametrize("number", INTEGER_ENCODINGS.encodings)
@settings(max_examples=150)
@given(values=pages(), dtype=st.sampled_from(OUT_DTYPES), base=INT64)
def test_every_encoding_keeps_what_it_accepts(number, values, dtype, base):
    encoding, facts = INTEGER_ENCODINGS.encodings[number], page_statistics(values)
    size = encoding.encoded_bytes(values, facts)
    if size is None:
        return
    content = encoding.encode(values, facts)
    assert len(content) == size, "the estimate is exact"
    assert content == encoding.encode(values.copy(), facts), "the same page, the same bytes"
    assert size % ALIGNMENT == 0
    out = np.empty(len(values), dtype)
    reader = reader_of(content)
    encoding.decode_into(reader, out, base)
    reader.finish()
    bits = 8 * out.dtype.itemsize
    expected = [(value - base) % 2**bits for value in values.tolist()]
    assert out.view(f"u{bits // 8}").tolist() == expected


@settings(max_examples=100)
@given(pages())
def test_the_chosen_encoding_is_never_larger_than_a_copy(values):
    _, content = INTEGER_ENCODINGS.encode(values)
    frame = INTEGER_ENCODINGS.encodings[2]
    assert len(content) <= frame.encoded_bytes(values, page_statistics(values))


ROWS = np.arange(4096)
NOISE = ROWS * 2_654_435_761 % 2**32


@pytest.mark.parametrize(
    ("number", "values"),
    [
        (1, np.full(4096, 3)),
        (2, NOISE % 256),
        (3, NOISE % 777),
        (4, np.where(ROWS % 64 == 0, NOISE, NOISE % 5)),
        (5, np.cumsum(NOISE % 40)),
        (6, NOISE % 500 * 3_600_000_000),
        (7, ROWS // 100 * 37 % 11),
    ],
)
def test_each_encoding_wins_where_it_should(number, values):
    assert INTEGER_ENCODINGS.encode(values.astype(np.int64))[0] == number


def test_sorted_hours_take_less_than_a_bit_a_row():
    hours = np.sort(NOISE % 24) * 3_600_000_000 + 1_442_016_000_000_000
    assert len(INTEGER_ENCODINGS.encode(hours)[1]) < len(hours) // 8


@given(st.lists(st.integers(0, 2**40), max_size=30), st.integers(1, 10**6))
def test_common_factor_is_the_greatest(values, factor):
    scaled = np.array([value * factor for value in values], np.uint64)
    assert common_factor(scaled, 1) == np.gcd.reduce(scaled, initial=np.uint64(0))


FLOATS = st.lists(
    st.floats() | st.integers(-(10**6), 10**6).map(lambda n: n / 100) | st.just(-0.0),
    min_size=1,
    max_size=60,
)


@settings(max_examples=200)
@given(FLOATS, st.sampled_from([np.float32, np.float64]))
def test_floats_come_back_bit_for_bit(values, dtype):
    with np.errstate(over="ignore"):
        array = np.array(values).astype(dtype)
    encoding, content = encode_floats_best(array)
    out = np.empty_like(array)
    reader = reader_of(content)
    decode_floats_best_into(reader, encoding, out)
    reader.finish()
    assert out.tobytes() == array.tobytes()


def test_prices_are_stored_as_integers_and_noise_is_not():
    cents = np.round(NOISE % 100_000 / 100, 2)
    assert encode_floats_best(cents)[0] == 9
    assert len(encode_floats_best(cents)[1]) < 3 * len(cents)
    assert encode_floats_best(np.sqrt(ROWS))[0] == 8
    assert encode_decimals(np.array([1.5, np.nan])) is None
    assert encode_decimals(np.array([0.0, -0.0])) is None
    assert encode_decimals(np.array([1e300])) is None


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=30))
def test_text_comes_back(texts):
    ascending = [None, *sorted(set(texts))]
    for values, encode, decode in (
        (texts, encode_text, decode_text),
        (ascending, encode_front_coded, decode_front_coded),
    ):
        array = pa.array(["" if value is None else value for value in values])
        reader = reader_of(encode(pa.array(values, pa.string())))
        found = text_array(*decode(reader, len(array)), array.type, None)
        reader.finish()
        assert found.equals(array)


def test_front_coding_saves_what_neighbours_share():
    sorted_texts = pa.array([f"https://example.org/page/{i:06d}" for i in range(1000)])
    assert len(encode_front_coded(sorted_texts)) < len(encode_text(sorted_texts)) / 5


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
