"""Roaring bitmaps by the library that defines them."""

import numpy as np
from pyroaring import BitMap


def postings(ids, cardinality):
    """Row ids of each id, as lists."""
    return [[row for row, found in enumerate(ids) if found == i] for i in range(cardinality)]


def bitmap(row_ids):
    """The portable serialised form of a set of row ids."""
    rows = BitMap(row_ids)
    rows.run_optimize()
    return rows.serialize()


def row_ids(content):
    """The row ids of a serialised bitmap, ascending."""
    return np.array(BitMap.deserialize(content).to_array(), np.uint32)
