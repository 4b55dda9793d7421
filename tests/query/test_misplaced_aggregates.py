"""What is said of aggregates where rows are meant, and of columns where constants are."""

import pyarrow as pa
import pytest

import projseg
from projseg.errors import ProjsegError

SCHEMA = pa.schema({"g": pa.int64(), "a": pa.float64(), "s": pa.string()})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return projseg.Table.create(tmp_path_factory.mktemp("t") / "t", SCHEMA)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (
            "SELECT g FROM t WHERE sum(a) > 3 AND g > 1 GROUP BY g",
            r"filter 'sum\(a\) > 3 AND g > 1' has the aggregate 'sum\(a\)', .*; conditions of "
            r"groups are the having",
        ),
        ("SELECT g FROM t WHERE bool_or(a > 1)", r"has the aggregate 'bool_or\(a > 1\)'"),
        ("SELECT sum(abs(max(a))) FROM t", r"has the aggregate 'max\(a\)' inside"),
        (
            "SELECT count(*) FILTER (WHERE Avg(a) > 1) FROM t",
            r"has the aggregate 'Avg\(a\)' inside, which is of groups; ask for that first",
        ),
        ("SELECT count(*) FROM t GROUP BY split(s, ',')", r"cannot group by 'split\(s, ','\)'"),
        ("SELECT count(*) FROM t GROUP BY g + 1, array(a)", r"cannot group by 'array\(a\)'"),
        (
            "SELECT percentile(a, g) FROM t",
            "takes a percentage from 0 to 1, or an array of them; found g, which is no constant",
        ),
        ("SELECT approx_percentile(a, array(0.5, g)) FROM t", "which is no constant"),
        ("SELECT approx_count_distinct(a, g) FROM t", "a relative standard error .*; found g"),
        ("SELECT g FROM t WHERE nosuch(a) > 3", "function 'nosuch' is not supported"),
    ],
)
def test_what_was_asked_is_said(table, sql, problem):
    with pytest.raises(ProjsegError, match=problem):
        table.sql(sql)


def test_where_an_aggregate_belongs(table):
    with pytest.raises(ProjsegError, match=r"group_by 'sum.a.' .*; put it into aggregators"):
        table.query("sum(a)", "count(*)")
    with pytest.raises(ProjsegError, match=r"filter 'min.a. = 1' has the aggregate 'min.a.'"):
        table.delete("min(a) = 1")
