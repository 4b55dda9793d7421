"""Slow, obvious twins of `kernels.grouping`, `kernels.sorting` and `aggregation.keys`."""


def mixed_radix(digits, cardinalities):
    """One number for each row, from its digits, most significant first."""
    numbers = []
    for row in zip(*digits, strict=True):
        number = 0
        for digit, cardinality in zip(row, cardinalities, strict=True):
            number = number * cardinality + digit
        numbers.append(number)
    return numbers


def distinct_keys(keys):
    """(position of each key among the sorted distinct keys, those keys)."""
    distinct = sorted(set(keys))
    return [distinct.index(key) for key in keys], distinct


def group_texts(texts):
    """(number of each text by first appearance, the row of each text's first appearance)."""
    distinct = list(dict.fromkeys(texts))
    return [distinct.index(text) for text in texts], [texts.index(text) for text in distinct]


def stable_order(keys):
    """Row ids sorted by key; equal keys keep their order."""
    return sorted(range(len(keys)), key=lambda row: keys[row])


def spark_order(value):
    """Sort key of Spark's ascending order: null, numbers, NaN."""
    if value is None:
        return (0, 0)
    if value != value:
        return (2, 0)
    return (1, value)
