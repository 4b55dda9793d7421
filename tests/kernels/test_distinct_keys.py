import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import grouping as oracle

from projseg.errors import InvalidInputError
from projseg.kernels import grouping
from projseg.kernels.distinct_keys import number_in_parts, number_pairs, number_runs
from projseg.kernels.grouping import distinct_keys, ranks_of
from projseg.kernels.texts import text_groups
from projseg.kernels.texts.text_groups import group_texts

TEXTS = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.integers(0, 40).map(lambda size: b"x" * size),
        st.integers(0, 40).map(lambda size: b"x" * size + b"y"),
    )
)


def parts_of(texts):
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    return offsets, np.frombuffer(b"".join(texts), np.uint8)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))))
def test_keys_dealt_to_parts_are_their_oracle(keys):
    ids = np.empty(len(keys), np.uint32)
    distinct = number_in_parts(np.array(keys, np.uint64), ids)
    assert distinct[ids].tolist() == keys
    assert sorted(distinct.tolist()) == oracle.distinct_keys(keys)[1]


WORDS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))


@given(st.lists(st.tuples(WORDS, WORDS)))
def test_pairs_are_their_oracle(pairs):
    words = np.array(pairs, np.uint64).reshape(-1, 2)
    ids, first, second = number_pairs(words[:, 0].copy(), words[:, 1].copy())
    distinct = list(zip(first.tolist(), second.tolist(), strict=True))
    assert [distinct[place] for place in ids.tolist()] == pairs
    assert sorted(distinct) == oracle.distinct_keys(pairs)[1]


def test_many_pairs_of_many_rows():
    random = np.random.default_rng(7)
    first = random.integers(0, 2**63, 200_000, np.uint64) << np.uint64(1)
    second = random.integers(0, 3, 200_000, np.uint64) << np.uint64(60)
    rows = random.integers(0, 200_000, 500_000)
    ids, firsts, seconds = number_pairs(first[rows], second[rows])
    assert np.array_equal(firsts[ids], first[rows])
    assert np.array_equal(seconds[ids], second[rows])
    assert len(firsts) == len(np.unique(rows))


def test_words_of_other_rows_are_refused():
    with pytest.raises(InvalidInputError, match="2 second words for 3 first ones"):
        number_pairs(np.zeros(3, np.uint64), np.zeros(2, np.uint64))


@pytest.mark.parametrize("in_order", [True, False])
def test_many_keys_of_many_rows(in_order, monkeypatch):
    monkeypatch.setattr(grouping, "_DEALT_KEYS_MIN", 0)
    monkeypatch.setattr(grouping, "_DEALT_ROWS_MIN", 0)
    once = np.random.default_rng(7).integers(0, 2**64 - 1, 3_000, np.uint64)
    keys = np.concatenate([once, once[::-1], once, once])
    ids, distinct = distinct_keys(keys, in_order=in_order)
    assert np.array_equal(distinct[ids], keys)
    assert np.array_equal(distinct if in_order else np.sort(distinct), np.unique(once))


def test_ids_for_other_rows_are_refused():
    with pytest.raises(InvalidInputError, match="2 ids for 3 rows"):
        number_in_parts(np.zeros(3, np.uint64), np.zeros(2, np.uint32))


@given(st.lists(st.booleans()))
def test_a_rank_counts_what_comes_before(occupied):
    found = ranks_of(np.array(occupied, np.bool_))
    assert found.tolist() == [sum(occupied[:place]) for place in range(len(occupied))]


@given(TEXTS)
def test_groups_of_texts_are_their_oracle(texts):
    ids, first_rows = group_texts(*parts_of(texts))
    assert (ids.tolist(), first_rows.tolist()) == oracle.group_texts(texts)


@given(TEXTS)
def test_texts_with_one_hash_are_told_apart(texts):
    with pytest.MonkeyPatch.context() as patch:
        one = lambda hashes, in_order: (np.zeros(len(hashes), np.uint32), hashes[:1])  # noqa: E731
        patch.setattr(text_groups, "distinct_keys", one)
        found = group_texts(*parts_of(texts))
    assert (found is None) == (len(set(texts)) > 1)


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1, 3], []])
def test_texts_outside_their_content_are_refused(offsets):
    with pytest.raises(InvalidInputError, match="outside their content"):
        group_texts(np.array(offsets, np.int32), np.zeros(3, np.uint8))


@pytest.mark.parametrize(("dtype", "least"), [(np.uint32, 0), (np.int64, -(2**63))])
@given(steps=st.lists(st.sampled_from([0, 0, 1, 70_000])))
def test_keys_in_order_are_numbered_as_their_oracle(dtype, least, steps):
    keys = [least + sum(steps[: place + 1]) for place in range(len(steps))]
    ids, distinct = number_runs(np.array(keys, dtype))
    assert (ids.tolist(), distinct.tolist()) == oracle.distinct_keys(keys)
    assert distinct.dtype == dtype


@given(st.lists(st.integers(-2, 2)))
def test_keys_that_fall_are_not_numbered_as_runs(keys):
    found = number_runs(np.array(keys, np.int64))
    assert (found is None) == (keys != sorted(keys))
