"""`excludeProjections` names projections that there are, or the query is refused."""

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError

ROWS = pa.table({"k": ["a", "b", "a"], "n": [1, 2, 3]})
BY_K = projseg.Projection("by_k", ["k"], ["sum(n) AS n"])


def excluded(table, names):
    return table.explain("k", "sum(n) AS n", context={"excludeProjections": names}).sources


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(tmp_path / "t", ROWS.schema, projections=[BY_K])
    made.append(ROWS)
    return made


def test_a_name_that_is_no_projection_is_refused_with_the_nearest(table):
    assert excluded(table, ()) == {"by_k": 1}
    assert excluded(table, "by_k") == {"base": 1}
    for run in (table.explain, table.query):
        with pytest.raises(InvalidInputError, match=r"UNKNOWN_PROJECTION.*'byk'; did you mean"):
            run("k", "sum(n) AS n", context={"excludeProjections": ["by_k", "byk"]})
    with pytest.raises(InvalidInputError, match=r"'other'; the table's projections are by_k"):
        table.query(columns="k", context={"excludeProjections": "other"})


def test_a_projection_that_only_older_segments_hold_may_be_excluded(table):
    table.drop_projection("by_k")
    assert excluded(table, ()) == {"by_k": 1}
    assert excluded(table, "by_k") == {"base": 1}


def test_a_projection_may_be_excluded_before_a_segment_holds_it(tmp_path):
    empty = projseg.Table.create(tmp_path / "empty", ROWS.schema, projections=[BY_K])
    assert excluded(empty, "by_k") == {}
    with pytest.raises(InvalidInputError, match="UNKNOWN_PROJECTION"):
        excluded(empty, "by_n")


def test_a_projection_declared_anew_is_known_by_its_new_name(table):
    table.drop_projection("by_k")
    table.add_projection(projseg.Projection("renamed", ["k"], ["sum(n) AS n"]))
    table.append(ROWS)
    assert excluded(table, ()) == {"renamed": 2}
    assert excluded(table, "renamed") == {"base": 2}
    with pytest.raises(InvalidInputError, match=r"'by_k'; the table's projections are renamed"):
        excluded(table, "by_k")
