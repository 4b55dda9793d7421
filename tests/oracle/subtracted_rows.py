"""The slow twin of `aggregation.subtracted_rows`: rows that are left, folded one by one."""

from collections import defaultdict


def left_of(rows, deleted):
    """What is left of groups when some rows go.

    Parameters
    ----------
    rows : list of (key, value)
        All rows; a value is a whole number or None.
    deleted : set of int
        Positions of those that go.

    Returns
    -------
    dict
        By key: (rows, values, sum or None, exclusive or of the values or None).
    """
    groups = defaultdict(list)
    for position, (key, value) in enumerate(rows):
        if position not in deleted:
            groups[key].append(value)
    return {key: _folded(values) for key, values in groups.items()}


def _folded(values):
    known = [int(value) for value in values if value is not None]  # decimals would be rounded
    if not known:
        return len(values), 0, None, None
    bits = 0
    for value in known:
        bits ^= value
    return len(values), len(known), sum(known), bits
