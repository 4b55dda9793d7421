import grouping as oracle
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projseg.aggregation import keys as keys_module
from projseg.aggregation.groups import group_rows
from projseg.aggregation.keys import make_key, wide_key
from projseg.errors import InvalidInputError
from projseg.evaluation.arrow_vectors import grouping_vector, vector_of_array
from projseg.kernels.grouping import (
    append_digit,
    append_wide_digit,
    distinct_keys,
    occupied_groups,
)
from projseg.kernels.sorting import stable_order_by_ids

SMALL = st.integers(0, 20)
VALUES = {
    pa.int64(): st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    pa.int32(): st.integers(-300, 300),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), -1e300]),
    pa.string(): st.text(max_size=3),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.decimal128(38, 2): st.decimals(
        min_value=-(10**35), max_value=10**35, places=2, allow_nan=False
    ),
}


@given(st.lists(st.tuples(SMALL, SMALL, SMALL)), st.sampled_from([6, 21]))
def test_digits_make_mixed_radix_numbers(rows, radix):
    digits = [[row[n] % radix for row in rows] for n in range(3)]
    narrow = np.zeros(len(rows), np.uint8 if radix == 6 else np.uint32)
    wide = np.zeros(len(rows), np.uint64)
    for digit, dtype in zip(digits, (np.uint8, np.uint16, np.uint32), strict=True):
        append_digit(narrow, np.array(digit, dtype), radix)
        append_wide_digit(wide, np.array(digit, dtype), radix)
    expected = oracle.mixed_radix(digits, [radix] * 3)
    assert narrow.tolist() == expected
    assert wide.tolist() == expected


def test_digits_of_another_length_are_refused():
    with pytest.raises(InvalidInputError, match="2 ids for 3 rows"):
        append_digit(np.zeros(3, np.uint32), np.zeros(2, np.uint8), 4)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))))
def test_distinct_keys_are_their_oracle(keys):
    ids, distinct = distinct_keys(np.array(keys, np.uint64))
    assert (ids.tolist(), distinct.tolist()) == oracle.distinct_keys(keys)


def test_distinct_keys_grow_past_their_first_table():
    keys = np.random.default_rng(7).integers(0, 2**63, 100_000).astype(np.uint64)
    ids, distinct = distinct_keys(np.concatenate([keys, keys[::-1]]))
    assert np.array_equal(distinct, np.unique(keys))
    assert np.array_equal(distinct[ids], np.concatenate([keys, keys[::-1]]))


@given(st.lists(st.integers(0, 40)))
def test_occupied_groups_are_those_with_rows(ids):
    occupied = occupied_groups(np.array(ids, np.uint16), 41)
    assert np.flatnonzero(occupied).tolist() == sorted(set(ids))


def test_a_group_id_out_of_range_is_refused():
    with pytest.raises(InvalidInputError, match="id 41 is not below 41"):
        occupied_groups(np.array([3, 41], np.uint32), 41)


@given(st.lists(st.tuples(SMALL, SMALL)))
def test_sorting_by_two_keys_is_stable(rows):
    first, second = (np.array([row[k] for row in rows], np.uint8) for k in (0, 1))
    order = stable_order_by_ids(first, 21, stable_order_by_ids(second, 21))
    assert order.tolist() == oracle.stable_order(rows)


@pytest.mark.parametrize("arrow_type", VALUES, ids=str)
@given(data=st.data())
def test_a_key_groups_equal_values_in_order(arrow_type, data):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[arrow_type])))
    key = make_key(grouping_vector(pa.array(values, arrow_type)))
    assert len(key.ids) == len(values)
    decoded = key.values_of(key.ids).to_arrow().to_pylist()
    for value, back in zip(values, decoded, strict=True):
        assert back == value or (value != value and back != back)
    for left, left_id in zip(values, key.ids.tolist(), strict=True):
        for right, right_id in zip(values, key.ids.tolist(), strict=True):
            before = oracle.spark_order(left) < oracle.spark_order(right)
            assert (left_id < right_id) == before


@pytest.fixture(params=["dense", "ranked", "hashed"])
def few_count_as_many(request, monkeypatch):
    """Few rows are numbered as many are: by ranks in their range, or by hashes."""
    if request.param != "dense":
        monkeypatch.setattr(keys_module, "_DENSE_RANGE_MAX", 0)
        monkeypatch.setattr(keys_module, "_HASHED_TEXTS_MIN", 0)
    if request.param == "hashed":
        monkeypatch.setattr(keys_module, "_RANKED_RANGE_MAX", 0)


@pytest.mark.usefixtures("few_count_as_many")
@pytest.mark.parametrize("may_be_sparse", [True, False])
@pytest.mark.parametrize("arrow_type", VALUES, ids=str)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_key_in_no_order_groups_equal_values(arrow_type, may_be_sparse, data):
    some = data.draw(st.lists(st.one_of(st.none(), VALUES[arrow_type]), min_size=1, max_size=5))
    values = data.draw(st.lists(st.sampled_from(some)))
    vector = vector_of_array(pa.array([None, *values], arrow_type)).slice(1, len(values) + 1)
    key = make_key(vector, in_order=False, may_be_sparse=may_be_sparse)
    plain = [oracle.spark_order(value) for value in values]
    assert len(set(key.ids.tolist())) == len(set(plain))
    assert len(set(zip(key.ids.tolist(), plain, strict=True))) == len(set(plain))
    assert not len(values) or key.ids.max() < key.cardinality
    back = key.values_of(key.ids).to_arrow()
    assert back.type == arrow_type
    assert list(map(oracle.spark_order, back.to_pylist())) == plain


@pytest.mark.parametrize("cardinality", [3, 70_000, 2**31])
def test_groups_ascend_with_their_keys_however_they_are_numbered(cardinality):
    generator = np.random.default_rng(cardinality)
    columns = [generator.integers(0, cardinality, 500) for _ in range(3)]
    keys = [make_key(grouping_vector(pa.array(column))) for column in columns]
    grouped = group_rows(keys, 500)
    occupied = grouped.occupied()
    found = [vector.to_arrow().to_pylist() for vector in grouped.key_vectors(occupied)]
    tuples = sorted(set(zip(*(c.tolist() for c in columns), strict=True)))
    assert list(zip(*found, strict=True)) == tuples


@pytest.fixture
def most_differ(monkeypatch):
    """Numbers of few rows are taken for many that mostly differ."""
    monkeypatch.setattr(keys_module, "_WIDE_ROWS_MIN", 1)
    monkeypatch.setattr(keys_module, "_SAMPLED_ROWS", 1)


@pytest.mark.usefixtures("most_differ")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tuples_of_numbers_that_mostly_differ_are_grouped(data):
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=2, max_size=5))
    some = [
        data.draw(st.lists(st.one_of(st.none(), VALUES[one]), min_size=1, max_size=5))
        for one in types
    ]
    rows = data.draw(st.lists(st.tuples(*map(st.sampled_from, some))))
    columns = [[None, *(row[place] for row in rows)] for place in range(len(types))]
    vectors = [
        vector_of_array(pa.array(column, one)).slice(1, len(rows) + 1)
        for column, one in zip(columns, types, strict=True)
    ]
    keys = [wide_key(vector) or make_key(vector, in_order=False) for vector in vectors]
    grouped = group_rows(keys, len(rows), in_order=False)
    occupied = grouped.occupied()
    found = [vector.to_arrow() for vector in grouped.key_vectors(occupied)]
    assert [array.type for array in found] == types
    plain = [tuple(map(oracle.spark_order, row)) for row in rows]
    groups = list(zip(*(map(oracle.spark_order, one.to_pylist()) for one in found), strict=True))
    assert sorted(groups) == sorted(set(plain))
    if occupied is None:
        assert [groups[place] for place in grouped.groups.ids.tolist()] == plain


def groups_of(values, arrow_type):
    keys = [make_key(grouping_vector(pa.array(values, arrow_type)))]
    grouped = group_rows(keys, len(values))
    (found,) = grouped.key_vectors(grouped.occupied())
    return found.to_arrow().to_pylist(), grouped


@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.float64()], ids=str)
@pytest.mark.parametrize("order", ["ascending", "falling", "mixed"])
def test_every_group_of_distinct_keys_has_a_row(arrow_type, order):
    values = [n // 3 * 100_000 for n in range(300)]
    if order != "ascending":
        values.reverse()
    if order == "mixed":
        values[::2] = values[::-2]
    found, grouped = groups_of(values, arrow_type)
    assert found == sorted(set(values))
    assert grouped.occupied() is None
    assert [found[place] for place in grouped.groups.ids.tolist()] == values
    some = grouped.with_rest(np.array([value < 500_000 for value in values]))
    (kept,) = some.key_vectors(some.occupied())
    assert kept.to_arrow().to_pylist() == sorted({value for value in values if value < 500_000})


@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.float64(), pa.string()], ids=str)
def test_no_rows_have_no_groups(arrow_type):
    assert groups_of([], arrow_type)[0] == []


def test_keys_whose_product_passes_64_bits_are_grouped_by_prefix():
    generator = np.random.default_rng(5)
    columns = [generator.integers(0, 2**62, 3000) for _ in range(8)]
    columns = [np.concatenate([column, column]) for column in columns]
    keys = [make_key(grouping_vector(pa.array(column))) for column in columns]
    grouped = group_rows(keys, 6000)
    assert grouped.prefix is not None
    found = [vector.to_arrow().to_pylist() for vector in grouped.key_vectors(grouped.occupied())]
    assert list(zip(*found, strict=True)) == sorted(
        set(zip(*(c.tolist() for c in columns), strict=True))
    )


def test_a_null_key_beside_an_infinite_one_holds_zero():
    key = make_key(grouping_vector(pa.array([float("inf"), None])))
    values = key.values_of(key.ids)
    assert values.to_arrow().to_pylist() == [float("inf"), None]
    assert values.values.tolist() == [float("inf"), 0.0]
