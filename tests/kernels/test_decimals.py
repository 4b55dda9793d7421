"""Arithmetic, rounding, texts of decimals against their twins, over numbers near every edge."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import decimals as oracle
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.decimals.decimal_texts import DecimalReading, decimal_texts, read_decimals
from projseg.kernels.decimals.wide_arithmetic import (
    DecimalFailure,
    DecimalOperation,
    Rounding,
    operate,
    rescale,
)
from projseg.segment_format.arrow_arrays import WIDE, as_wide, halves, to_objects

NINES = 10**38 - 1
SIZES = (
    st.integers(0, NINES)
    | st.integers(0, 126).flatmap(lambda bits: st.integers(2**bits - 2, 2**bits + 2))
    | st.integers(0, 38).flatmap(lambda digits: st.integers(10**digits - 2, 10**digits + 2))
    | st.integers(0, 37).map(lambda digits: 5 * 10**digits)
    | st.integers(0, 30)
)
NUMBERS = st.tuples(SIZES, st.sampled_from([1, -1])).map(
    lambda parts: max(-NINES, min(NINES, parts[0] * parts[1]))
)
LIMITS = st.sampled_from([10**38, 10**18, 2**63, 10**5, 1])
DIGITS = st.integers(0, 40).map(str) | st.text("0123456789", min_size=1, max_size=45)
WRITTEN = st.tuples(
    st.sampled_from(["", " ", "\t\x7f", "\x00"]),
    st.sampled_from(["", "-", "+", "--"]),
    st.sampled_from(["", "0", "000"]),
    DIGITS | st.just(""),
    st.sampled_from(["", "."]),
    DIGITS | st.just("") | st.sampled_from(["5", "50", "500000", "49999999", "000000"]),
    st.sampled_from(["", "", "e", "E-", "e+", "e0"]),
    st.integers(0, 60).map(str)
    | st.sampled_from(["", "", "x", "2147483647", "2147483648", "9" * 25, "400"]),
    st.sampled_from(["", " ", "é"]),
).map("".join)


def stored(numbers):
    return halves(as_wide(np.array(numbers, object)))


def found(values, failures):
    numbers = to_objects(np.ascontiguousarray(values).view(WIDE).reshape(-1)).tolist()
    assert all(n == 0 for n, failed in zip(numbers, failures, strict=True) if failed)
    return [None if failed else n for n, failed in zip(numbers, failures, strict=True)]


@given(st.data())
@settings(max_examples=tries(500), deadline=None)
def test_operations_are_their_twin(data):
    operation = data.draw(st.sampled_from(DecimalOperation))
    rows = data.draw(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=30))
    power = data.draw(st.sampled_from([0, 0, 1, 6, 18, 19, 20, 37, 38]))
    more = data.draw(st.sampled_from([0, 1, 19, 38]))
    powers = {
        DecimalOperation.MULTIPLY: (0, 0, power + more),
        DecimalOperation.DIVIDE: data.draw(st.sampled_from([(power + more, 0, 0), (0, power, 0)])),
        DecimalOperation.WHOLE_DIVIDE: data.draw(st.sampled_from([(power, 0, 0), (0, power, 0)])),
    }.get(operation, data.draw(st.sampled_from([(power, 0, more), (0, power, more)])))
    limit = data.draw(LIMITS)
    left, right, valid = zip(*rows, strict=True)
    got = found(*operate(operation, stored(left), stored(right), powers, limit, np.array(valid)))
    expected = [
        oracle.operate(operation, a, b, powers, limit) if is_valid else 0 for a, b, is_valid in rows
    ]
    assert got == expected


@given(
    st.lists(NUMBERS, min_size=1, max_size=30),
    st.sampled_from(Rounding),
    st.tuples(st.integers(0, 90), st.sampled_from([0, 0, 1, 19, 20, 38, 77])),
    LIMITS,
)
@settings(max_examples=tries(500), deadline=None)
def test_rounded_decimals_are_their_twin(numbers, rounding, powers, limit):
    valid = np.ones(len(numbers), np.bool_)
    got = found(*rescale(stored(numbers), rounding, powers, limit, valid))
    assert got == [oracle.rescale(number, rounding, powers, limit) for number in numbers]


def test_a_divisor_of_zero_is_named_before_an_overflow():
    left, right = stored([10**37, 5]), stored([0, 0])
    valid = np.array([True, False])
    _, failures = operate(DecimalOperation.DIVIDE, left, right, (6, 0, 0), 10**10, valid)
    assert failures.tolist() == [DecimalFailure.ZERO, DecimalFailure.NONE]


@given(
    st.lists(WRITTEN, min_size=1, max_size=30),
    st.integers(1, 38),
    st.integers(-45, 45),
    st.sampled_from([Rounding.HALF_UP, Rounding.HALF_EVEN]),
)
@settings(max_examples=tries(800), deadline=None)
def test_texts_are_read_as_their_twin_reads_them(texts, precision, scale, rounding):
    content = [text.encode() for text in texts]
    offsets = np.cumsum([3, *map(len, content)]).astype(np.int32)
    joined = np.frombuffer(b"123" + b"".join(content) + b"456", np.uint8)
    valid = np.ones(len(texts), np.bool_)
    values, readings = read_decimals(offsets, joined, valid, precision, scale, rounding)
    got = [*zip([n or 0 for n in found(values, readings)], readings.tolist(), strict=True)]
    assert got == [oracle.read(text, precision, scale, rounding) for text in texts]


@given(st.lists(st.tuples(NUMBERS, st.booleans()), max_size=30), st.integers(0, 38))
@settings(max_examples=tries(300), deadline=None)
def test_texts_are_written_as_their_twin_writes_them(rows, scale):
    valid = np.array([is_valid for _, is_valid in rows], np.bool_)
    offsets, content = decimal_texts(stored([n for n, _ in rows]), scale, valid)
    texts = [content[a:b].tobytes().decode() for a, b in pairwise(offsets)]
    assert texts == [oracle.text(number, scale) if is_valid else "" for number, is_valid in rows]


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [0, 1, 2]])
def test_texts_that_do_not_fit_are_refused(offsets):
    with pytest.raises(InvalidInputError, match=r"outside their content|do not fit"):
        read_decimals(
            np.array(offsets, np.int32), np.zeros(3, np.uint8), np.ones(1, np.bool_), 38, 0
        )


def test_what_is_no_type_is_refused():
    texts = np.zeros(1, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.bool_)
    with pytest.raises(InvalidInputError, match=r"decimal\(39,0\)"):
        read_decimals(*texts, 39, 0)
    one = np.zeros((1, 2), np.int64)
    with pytest.raises(InvalidInputError, match="do not fit"):
        decimal_texts(one, 39, np.ones(1, np.bool_))
    with pytest.raises(InvalidInputError, match="do not fit"):
        rescale(one, Rounding.FLOOR, (-1, 0), 1, np.ones(1, np.bool_))
    with pytest.raises(InvalidInputError, match="do not fit"):
        operate(DecimalOperation.ADD, one, one[:0], (0, 0, 0), 1, np.ones(1, np.bool_))


def test_nine_digits_rounded_up_are_too_many():
    content = np.frombuffer(b"9.95", np.uint8)
    valid = np.ones(1, np.bool_)
    _, readings = read_decimals(np.array([0, 4], np.int32), content, valid, 2, 1)
    assert readings.tolist() == [DecimalReading.OVERFLOW]
