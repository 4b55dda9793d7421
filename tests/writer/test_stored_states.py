"""States as they are stored: in which form, and where their bytes are counted."""

import pyarrow as pa
import pytest

import projseg


@pytest.mark.parametrize(
    "call", ["hll_sketch_agg(u)", "theta_sketch_agg(u)", "kll_sketch_agg_bigint(x)"]
)
def test_the_bytes_of_sketches_are_those_of_their_projection(tmp_path, call):
    """A dictionary of sketches would hold each once, beside the columns that are counted."""
    rows = pa.table({"g": [n % 50 for n in range(5000)], "u": [f"u{n}" for n in range(5000)]})
    rows = rows.append_column("x", pa.array(range(5000), pa.int64()))
    projections = [projseg.Projection("p", ["g"], [f"{call} AS s"])]
    table = projseg.Table.create(tmp_path, rows.schema, projections=projections, data=rows)
    sketches = table.query(group_by="g", aggregators=f"{call} AS s")["s"].to_pylist()
    (stored,) = table.projection_stats()["bytes"].to_pylist()
    assert stored > sum(map(len, sketches)) / 12


def test_extreme_texts_that_repeat_are_stored_once(tmp_path):
    rows = pa.table({"g": range(2000), "t": [f"{n % 3} {'long' * 500}" for n in range(2000)]})
    projections = [projseg.Projection("p", ["g"], ["max(t) AS t"])]
    table = projseg.Table.create(tmp_path, rows.schema, projections=projections, data=rows)
    (stored,) = table.projection_stats()["bytes"].to_pylist()
    assert stored < 20_000
