"""Names that case folding makes one and lower case tells apart: two columns, as in Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError, ProjsegError

PAIRS = [("straße", "strasse"), ("\u00b5", "\u03bc"), ("\u017fet", "set"), ("ﬁne", "fine")]
ONE_NAME = [("Straße", "STRAßE"), ("Größe", "GRÖßE"), ("ΔX", "δx")]


@pytest.fixture(params=PAIRS, ids=[pair[1] for pair in PAIRS])
def pair(request):
    return request.param


def made(tmp_path, pair, **given):
    one, other = pair
    rows = pa.table({one: [1, 2, 3], other: [10, 20, 30]})
    return projseg.Table.create(tmp_path / "t", data=rows, **given)


def test_both_are_written_read_and_changed(tmp_path, pair):
    one, other = pair
    groups = {"name": "p", "group_by": [f"`{one}`"], "aggregators": [f"sum(`{other}`) AS total"]}
    table = made(tmp_path, pair, projections=[groups], cluster_by=[other, one])
    table.append([{one: 4, other: 40}])
    table.merge(pa.table({one: [1], other: [11]}), on=[one])
    table.update({other: f"`{other}` + `{one}`"}, filter=f"`{one}` = 2")
    table.delete(f"`{other}` = 30")
    expected = [(1, 11), (2, 22), (4, 40)]
    found = table.query(order_by=f"`{one}`").to_pylist()
    assert [(row[one], row[other]) for row in found] == expected
    sums = table.query(group_by=f"`{one}`", aggregators=f"sum(`{other}`) AS total")
    assert sorted((row[one], row["total"]) for row in sums.to_pylist()) == expected
    assert table.verify() == []


def test_both_are_named_in_statements(tmp_path, pair):
    one, other = pair
    table = made(tmp_path, pair)
    found = table.sql(f"SELECT `{one}` AS a, `{other}` AS b FROM t ORDER BY `{one}`").to_pylist()
    assert found[0] == {"a": 1, "b": 10}
    sql = f"SELECT `{one}`, sum(`{other}`) AS total GROUP BY `{one}`"
    table.add_projection({"name": "p", "sql": sql})
    left = table.sql(f"SELECT * EXCEPT (`{one}`) FROM t").schema.names
    assert left == [other]
    both = table.sql(f"SELECT sum(`{one}`) AS `{one}`, sum(`{other}`) AS `{other}` FROM t")
    assert both.to_pylist() == [{one: 6, other: 60}]


def test_either_is_no_name_of_the_other(tmp_path, pair):
    for number, (there, asked) in enumerate([pair, pair[::-1]]):
        table = projseg.Table.create(tmp_path / str(number), {there: "bigint"})
        with pytest.raises(ProjsegError, match="PROJSEG_UNKNOWN_COLUMN"):
            table.query(columns=f"`{asked}`")
        with pytest.raises(InvalidInputError, match="PROJSEG_SCHEMA_MISMATCH"):
            table.append({asked: [1]})
        table.add_column(asked, "bigint")
        table.rename_column(there, "third")
        table.drop_column(asked)
        assert table.schema.names == ["third"]


def test_both_are_fields_of_a_struct(tmp_path, pair):
    one, other = pair
    rows = pa.table({"s": [{one: 1, other: 2}]})
    table = projseg.Table.create(tmp_path / "t", data=rows)
    table.append(rows)
    found = table.query(columns=f"s.`{one}` AS a, s.`{other}` AS b").to_pylist()
    assert found == [{"a": 1, "b": 2}] * 2


def test_both_are_declared_in_a_definition(tmp_path, pair):
    one, other = pair
    made(tmp_path, pair)
    pytest.importorskip("sqlalchemy")
    catalog = projseg.Catalog(tmp_path / "c.db")
    columns = [{"name": other, "sqlType": "bigint"}, {"name": one, "sqlType": "bigint"}]
    catalog.register("t", tmp_path / "t", {"columns": columns})
    catalog.table("t").append(pa.table({one: [4], other: [40]}))
    found = catalog.table("t").query(filter=f"`{one}` > 2", order_by=f"`{one}`").to_pylist()
    assert found == [{other: 30, one: 3}, {other: 40, one: 4}]


@pytest.mark.parametrize("pair", ONE_NAME)
def test_names_of_one_lower_case_are_one(tmp_path, pair):
    one, other = pair
    with pytest.raises(InvalidInputError, match="PROJSEG_DUPLICATE_NAME"):
        projseg.Table.create(tmp_path / "t", {one: "int", other: "int"})
    table = projseg.Table.create(tmp_path / "t", {one: "int"})
    table.append({other: [1]})
    assert table.query(columns=f"`{other}` AS n").to_pylist() == [{"n": 1}]
