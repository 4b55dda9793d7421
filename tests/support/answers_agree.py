"""Compare answers keyed by group: exactly, but for the last digits of floating-point numbers."""

import math


def same(left, right):
    if left is None or right is None:
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)
    return left == right


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        for left, right in zip(found[key], values, strict=True):
            assert same(left, right), (key, found[key], values)
