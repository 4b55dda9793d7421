"""Why docs/spark.md asks that a statement read a table of the catalog once.

Spark keeps the reader on the table, which all places of one statement share, so each place is given
the rows of the options that stand at one of them. The source is asked only once and cannot tell.
When the first test starts to pass, the page may drop the sentence.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark


@pytest.fixture
def paths(plain, tmp_path):
    for name, n in (("one", 1), ("two", 2)):
        frame = plain.range(n, n + 1).write.format("projseg").mode("append")
        frame.save(str(tmp_path / name))
    plain.sql("CREATE TABLE twice (id BIGINT) USING projseg")
    yield [str(tmp_path / name) for name in ("one", "two")]
    plain.sql("DROP TABLE twice")


def _of_both(plain, one, two):
    rows = plain.sql(f"SELECT id FROM {one} UNION ALL SELECT id FROM {two}").collect()
    return sorted(row.id for row in rows)


@pytest.mark.slow
@pytest.mark.xfail(reason="Spark gives both places the options of one", strict=True)
def test_a_table_of_the_catalog_named_twice_is_read_at_each_path(plain, paths):
    assert _of_both(plain, *(f"twice WITH (path = '{path}')" for path in paths)) == [1, 2]


@pytest.mark.slow
def test_views_over_the_format_are_read_at_each_path(plain, paths):
    for name, path in zip(("first", "second"), paths, strict=True):
        plain.sql(f"CREATE OR REPLACE TEMP VIEW {name} USING projseg OPTIONS (path '{path}')")
    assert _of_both(plain, "first", "second") == [1, 2]
    for name in ("first", "second"):
        plain.catalog.dropTempView(name)
