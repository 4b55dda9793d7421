"""Many pages decoded in one call, against pages decoded alone; footers, against MessagePack."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.errors import CorruptSegmentError, InvalidInputError
from projseg.kernels.integer_codes import page_statistics
from projseg.kernels.page_integers import CONTENT_MARGIN, decode_integer_pages
from projseg.kernels.split_footers import split_footers
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.encoding_table import INTEGER_ENCODINGS


@st.composite
def pages(draw):
    """(encoding, content, rows) of a page, perhaps changed."""
    rows = draw(st.sampled_from([1, 2, 31, 33, 64, 200, 1500]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low = draw(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, -1]))
    span = draw(st.sampled_from([0, 1, 5, 255, 256, 2**16, 2**31, 2**40, 2**63, 2**64 - 1]))
    span = min(span, 2**63 - 1 - low)
    values = low + rng.integers(0, span, rows, np.uint64, endpoint=True).astype(object)
    match draw(st.sampled_from(["any", "sorted", "runs", "outliers", "scaled"])):
        case "sorted":
            values = np.sort(values)
        case "runs":
            values = np.repeat(values, 9)[:rows]
        case "outliers":
            values[rng.random(rows) < 0.98] = low
        case "scaled":
            values = low + (values - low) // 1000 * 1000
    values = values.astype(np.int64)
    facts = page_statistics(values)
    offers = {
        number: offer
        for number, record in INTEGER_ENCODINGS.records.items()
        if (offer := record.codec.offer(values, facts)) is not None
    }
    number = draw(st.sampled_from(sorted(offers)))
    content = bytearray(offers[number].make())
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, min(len(content) - 1, 40)) | st.integers(0, len(content) - 1))
        content[at] = draw(st.sampled_from([0, 1, 2, 7, 32, 64, 65, 127, 128, 255]))
    end = draw(st.sampled_from([0, 0, 0, 1, 8, -8]))
    content = content[: len(content) + end] if end < 0 else content + bytes(end)
    return number, bytes(content), rows


def alone(number, content, rows):
    """(values, where they end), decoded alone; None if they are refused."""
    out = np.empty(rows, np.int64)
    reader = ByteReader(memoryview(content), path="test.pseg", part_name="page")
    try:
        INTEGER_ENCODINGS.decode_into(reader, number, out, 0)
    except CorruptSegmentError:
        return None
    return out.tolist(), len(content) - reader.bytes_left


@settings(max_examples=tries(300))
@given(st.lists(pages(), min_size=1, max_size=6))
def test_pages_are_as_they_are_alone(several):
    numbers, contents, rows = zip(*several, strict=True)
    starts = np.cumsum([0, *map(len, contents)])
    row_starts = np.cumsum([0, *rows])
    content = np.frombuffer(b"".join(contents) + bytes(CONTENT_MARGIN), np.uint8)
    values, stops = decode_integer_pages(
        content, starts[:-1], starts[1:], np.array(numbers), row_starts
    )
    for page, one in enumerate(several):
        expected = alone(*one)
        if expected is None:
            assert stops[page] == -1
        else:
            assert values[row_starts[page] : row_starts[page + 1]].tolist() == expected[0]
            assert stops[page] - starts[page] == expected[1]


@pytest.mark.parametrize(
    ("start", "end", "rows"), [(-1, 8, 1), (0, 9, 1), (8, 0, 1), (0, 8, 0), (0, 8, -1)]
)
def test_pages_outside_the_content_are_refused(start, end, rows):
    ones = (np.array([number]) for number in (start, end, 1))
    with pytest.raises(InvalidInputError):
        decode_integer_pages(np.zeros(16, np.uint8), *ones, np.array([0, rows]))


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2**64 - 1)
    | st.sampled_from([0, 127, 128, 255, 256, 65_535, 65_536, 2**32])
    | st.text(max_size=40)
    | st.sampled_from(["x" * 31, "x" * 32, "x" * 255, "x" * 256])
    | st.binary(max_size=40)
    | st.sampled_from([b"y" * 255, b"y" * 256, b"y" * 65_536]),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def numbers_of(value):
    """Yield the numbers of a footer in order, and the byte strings."""
    if isinstance(value, dict):
        value = [one for pair in value.items() for one in pair]
    if isinstance(value, list):
        for one in value:
            yield from numbers_of(one)
    elif isinstance(value, bytes) or (isinstance(value, int) and not isinstance(value, bool)):
        yield value


def masked(value):
    """The same footer with other numbers and byte strings."""
    if isinstance(value, dict):
        return {name: masked(one) for name, one in value.items()}
    if isinstance(value, list):
        return [masked(one) for one in value]
    if isinstance(value, bytes):
        return b"other"
    return 5 if isinstance(value, int) and not isinstance(value, bool) else value


@settings(max_examples=tries(200))
@given(st.lists(_VALUES, min_size=1, max_size=4))
def test_footers_are_split_as_messagepack_decodes_them(values):
    footers = [msgspec.msgpack.encode(value) for value in values]
    footers += [msgspec.msgpack.encode(masked(value)) for value in values]
    content = b"".join(footers)
    found = split_footers(np.frombuffer(content, np.uint8), np.cumsum([0, *map(len, footers)]))
    for value, (shape, numbers), (other, _) in zip(
        values, found[: len(values)], found[len(values) :], strict=True
    ):
        assert shape == other
        assert shape
        left = iter(numbers.tolist())
        for expected in numbers_of(value):
            if isinstance(expected, bytes):
                start = next(left)
                assert content[start : start + next(left)] == expected
            else:
                assert next(left) % 2**64 == expected
        assert list(left) == []


@given(_VALUES, _VALUES)
def test_footers_of_one_shape_differ_in_numbers_and_byte_strings_alone(one, other):
    footers = [msgspec.msgpack.encode(value) for value in (one, other)]
    starts = np.cumsum([0, *map(len, footers)])
    (first, _), (second, _) = split_footers(np.frombuffer(b"".join(footers), np.uint8), starts)
    assert (first == second) == (repr(masked(one)) == repr(masked(other)))


@given(st.binary(max_size=40), st.data())
def test_what_is_no_footer_has_no_shape(content, data):
    at = data.draw(st.integers(0, len(content)))
    footer = np.frombuffer(content, np.uint8)
    for shape, numbers in split_footers(footer, np.array([0, at, len(content)])):
        assert len(numbers) == 0 or shape
    for last in (b"\xc1", b"\xca\0\0\0\0", b"\xff", b"\xc7\0\0", b"\xa2x", b"\xcd\0", b"\xc4\2x"):
        whole = np.frombuffer(content + last, np.uint8)
        if len(whole) == len(last):
            assert split_footers(whole, np.array([0, len(whole)]))[0][0] == b""
    with pytest.raises(InvalidInputError):
        split_footers(footer, np.array([0, len(content) + 1]))
