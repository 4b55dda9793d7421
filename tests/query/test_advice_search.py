"""The greedy choice of candidates beside the best of all sets."""

import random
from itertools import combinations

import numpy as np
import pytest
from scale import tries

from projseg.advisor.search import SavedTimes, choose_within


def drawn(seed):
    """Return what candidates save, their sizes and a budget."""
    draw = random.Random(seed)
    count, shapes = draw.randrange(1, 13), draw.randrange(1, 16)
    saved = np.array(
        [
            [draw.choice([0, 0, draw.random() ** 3 * 1000]) for _ in range(shapes)]
            for _ in range(count)
        ],
        np.float64,
    ).reshape(count, shapes)
    sizes = [round(10 ** draw.uniform(1, 6)) for _ in range(count)]
    return saved, sizes, sum(sizes) * draw.uniform(0.02, 1.0)


def best_of_all(saved, sizes, budget):
    times = SavedTimes(saved)
    sets = (c for n in range(len(sizes) + 1) for c in combinations(range(len(sizes)), n))
    return max(times.of(one) for one in sets if sum(sizes[place] for place in one) <= budget)


def test_greedy_choices_are_near_the_best_of_all_sets():
    shares = []
    for seed in range(tries(500)):
        saved, sizes, budget = drawn(seed)
        chosen = choose_within(SavedTimes(saved), sizes, budget)
        assert sum(sizes[place] for place in chosen) <= budget
        best = best_of_all(saved, sizes, budget)
        shares.append(SavedTimes(saved).of(chosen) / best if best else 1.0)
    assert min(shares) >= 0.63
    assert np.median(shares) >= 0.98


def test_one_large_candidate_is_not_lost_to_a_small_one():
    saved = np.array([[1.0, 0.0], [0.0, 100.0]])
    assert choose_within(SavedTimes(saved), [1, 1000], 1000) == [1]


def test_members_that_add_next_to_nothing_are_left_out():
    saved = np.array([[100.0, 100.0], [100.5, 0.0]])
    assert choose_within(SavedTimes(saved), [10, 10], 100) == [0]


@pytest.mark.parametrize("budget", [0, -5])
def test_without_a_budget_nothing_is_chosen(budget):
    assert choose_within(SavedTimes(np.ones((2, 1))), [1, 1], budget) == []
