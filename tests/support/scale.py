"""How many cases tests try: few in CI, many in the nightly run.

`PROJSEG_NIGHTLY` is the share of them that is drawn. `make nightly` draws a tenth,
`make nightly PROJSEG_NIGHTLY=1` all, and
`PROJSEG_NIGHTLY=1250 pytest tests/query/test_index_pruning.py -k random_life --timeout 0` tries
50,000 lives.
"""

import os
from collections import defaultdict

import pytest

_TIMES = float(os.environ.get("PROJSEG_NIGHTLY") or 0)
IS_NIGHTLY = _TIMES > 0
IS_WHOLE_NIGHT = _TIMES >= 1
"""Whether so many cases are drawn that each kind of them has to be among these."""
_CASES = {"spark": 2, "docs": 1000, "golden": 1000, "house_style": 1000}
"""The most cases of a test in a folder."""
_OTHER_CASES = 16


def tries(count, by_day=None):
    """Return how many random cases a test tries that has `count` of them in all."""
    by_day = by_day or max(5, count // 10)
    return max(by_day, int(count * _TIMES))


def leave_to_the_night(items):
    """Mark slow what CI leaves out of tests with many cases; `sampled(most)` says how many stay.

    What stays is spread evenly over the cases of a test, its first and its last among them.
    """
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            tests[item.nodeid.split("[")[0]].append(item)
    for name, found in tests.items():
        mark = found[0].get_closest_marker("sampled")
        most = mark.args[0] if mark else _CASES.get(name.split("/")[1], _OTHER_CASES)
        if len(found) <= most:
            continue
        kept = {round(n * (len(found) - 1) / max(1, most - 1)) for n in range(most)}
        for number, item in enumerate(found):
            if number not in kept:
                item.add_marker(pytest.mark.slow)


def one_of(step, cases):
    """Return cases, all but each `step`-th slow; a tuple has a value for each parameter."""
    marks = [[] if number % step == 0 else [pytest.mark.slow] for number in range(len(cases))]
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=mark)
        for one, mark in zip(cases, marks, strict=True)
    ]
