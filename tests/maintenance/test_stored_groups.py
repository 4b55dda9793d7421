"""A projection made from a finer one of its segment, or merged from several, is the one of rows."""

import tempfile

import pyarrow as pa
import pytest
from asking import declare
from hypothesis import given, settings
from hypothesis import strategies as st
from life_tables import new_table, rows
from query_cases import PROJECTION, ROW, SCHEMA
from scale import tries

import projseg
from projseg.maintenance.uncached_segment import UncachedColumns, build_from_segment
from projseg.reader.plan.version_facts import VersionFacts
from projseg.segment_format.footer import BASE_TABLE
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.metadata.table_schema import stored_schema

TABLES = tries(1_000, 6)
FINE = "SELECT date_trunc('HOUR', time) AS hour, channel, robot, {} GROUP BY ALL"


@settings(max_examples=TABLES)
@given(
    st.lists(ROW, min_size=1, max_size=40),
    st.lists(PROJECTION, min_size=2, max_size=4),
    st.integers(1, 3),
)
def test_what_is_derived_and_merged_is_what_rows_give(data, projections, parts):
    """Each projection is added and built after the one before, so that it may come from it."""
    table_rows = pa.Table.from_pylist(data, SCHEMA)
    size = -(-len(data) // parts)
    with tempfile.TemporaryDirectory() as location:
        table = projseg.Table.create(location, SCHEMA, time_column="time")
        for number, projection in enumerate(projections):
            if number < parts:
                table.append(table_rows.slice(number * size, size))
            declare(table, f"p{number}", projection)
            table.materialize_projection()
        assert table.verify(deep=True) == []
        table.compact()
        assert table.verify(deep=True) == []


class Watched(UncachedColumns):
    """Base columns, and which of them were read."""

    def read(self, role, name):
        READ.append(name)
        return UncachedColumns.read(self, role, name)


READ = []


@pytest.mark.parametrize(
    ("stored", "wanted", "reads"),
    [
        ("sum(added) AS a, count(*) AS n", "channel, sum(added) AS a", False),
        ("sum(added) AS a, count(*) AS n", "date_trunc('DAY', time) AS d, avg(added)", True),
        ("sum(added) AS a, count(added) AS n", "robot, avg(added) AS mean", False),
        ("max(page) AS p", "channel, max(page) AS p, max(robot) AS r", False),
        ("hll_sketch_agg(page) AS h", "robot, hll_sketch_agg(page) AS h", False),
        ("min_by(page, time) AS f", "channel, min_by(page, time) AS f", False),
        # What depends on the order of addition comes from rows.
        ("sum(price) AS p", "channel, sum(price) AS p", True),
        ("stddev(added) AS s", "channel, stddev(added) AS s", True),
        ("sum(added) AS a", "page, sum(added) AS a", True),
    ],
)
def test_base_rows_are_read_only_where_a_finer_projection_does_not_do(
    tmp_path, stored, wanted, reads
):
    table = new_table(tmp_path / "t", projections=[{"name": "fine", "sql": FINE.format(stored)}])
    table.append(rows(0, count=20_000))
    table.add_projection({"name": "coarse", "sql": f"SELECT {wanted} GROUP BY ALL"})
    (entry,) = table.snapshot.segments
    spec = VersionFacts(table.snapshot).declared_specs()[1]
    schema = stored_schema(table.properties)
    segment = open_checked(table.snapshot.storage, entry, schema)
    READ.clear()
    built = build_from_segment(
        Watched(segment, BASE_TABLE, schema), spec, VersionFacts(table.snapshot).of(entry)
    )
    assert built.row_count > 0
    assert bool(READ) == reads
    table.materialize_projection()
    assert table.verify(deep=True) == []
