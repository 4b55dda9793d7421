"""Any float may be stored and asked for: NumPy's warnings of IEEE arithmetic reach nobody.

The suite makes a warning an error, so a warning that leaves a query or a write fails here.
"""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest

import projseg

SIGNALLING_64 = struct.pack("<Q", 0x7FF0_0000_0000_0001)
SIGNALLING_32 = struct.pack("<I", 0x7F80_0001)
AGGREGATES = (
    "sum(f) AS s, avg(f) AS a, min(f) AS low, max(f) AS high, var_pop(f) AS v, "
    "count(DISTINCT f) AS c, sum(DISTINCT f) AS d, approx_count_distinct(f) AS h, "
    "theta_sketch_agg(f) AS t"
)
COLUMNS = {
    "signalling doubles": pa.Array.from_buffers(
        pa.float64(), 3, [None, pa.py_buffer(SIGNALLING_64 + struct.pack("<2d", 1.0, -0.0))]
    ),
    "signalling floats": pa.Array.from_buffers(
        pa.float32(), 3, [None, pa.py_buffer(SIGNALLING_32 + struct.pack("<2f", 1.0, -0.0))]
    ),
    "infinite doubles": pa.array([math.inf, -math.inf, 1.0]),
    "infinite floats": pa.array([math.inf, -math.inf, 1.0], pa.float32()),
    "large doubles": pa.array([1.7e308, 1.7e308, -1e308]),
    "many signalling doubles": pa.array(
        np.frombuffer(SIGNALLING_64 + struct.pack("<d", 2.0)).repeat(2_000)
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("key", ["", "f"])
def test_no_warning_leaves_a_write_or_a_query(name, key, tmp_path):
    column = COLUMNS[name]
    keys = [f"{key} AS k"] if key else []
    projection = projseg.Projection("p", keys, AGGREGATES.split(", "))
    schema = pa.schema([("f", column.type)])
    table = projseg.Table.create(tmp_path / "t", schema, projections=[projection])
    table.append(pa.table({"f": column}))
    assert table.projection_stats()["failed"].to_pylist() == [0]
    asked = {"group_by": keys, "aggregators": AGGREGATES, "order_by": "k" if key else None}
    stored = table.query(**asked, context={"forceProjections": True})
    rows = table.query(**asked, context={"noProjections": True})
    assert repr(stored.to_pylist()) == repr(rows.to_pylist())  # as NaN is not equal to itself
    assert table.verify(deep=True) == []
