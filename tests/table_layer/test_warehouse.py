"""Tables as folders of a warehouse, without Spark."""

from __future__ import annotations

import pytest

import projseg
from projseg.errors import CommitConflictError, EvaluationError, InvalidInputError
from projseg.maintenance.row_changes import delete_and_update
from projseg.spark_engine.replacement_requests import REPLACEMENTS
from projseg.spark_engine.statement_requests import apply_column_changes, options_of
from projseg.spark_engine.warehouse import Warehouse, set_properties


@pytest.fixture
def warehouse(tmp_path):
    made = Warehouse(tmp_path / "warehouse")
    made.create_namespace("here")
    return made


def staged(warehouse, value):
    place = warehouse.staged("here")
    projseg.Table.create(place, {"x": "int"}, data={"x": [value]})
    return str(place)


def value_of(warehouse, name):
    return projseg.Table(warehouse.table("here", name)).query()["x"].to_pylist()


def refused(code, act):
    with pytest.raises(InvalidInputError) as told:
        act()
    assert told.value.code == code


def test_a_staged_table_is_not_listed_before_it_is_published(warehouse):
    place = staged(warehouse, 1)
    assert warehouse.tables("here") == []
    warehouse.publish(place, "here", "T")
    assert warehouse.tables("here") == ["T"]
    assert value_of(warehouse, "t") == [1]
    again = staged(warehouse, 2)
    refused("PROJSEG_TABLE_EXISTS", lambda: warehouse.publish(again, "here", "t"))
    assert value_of(warehouse, "t") == [1]
    assert warehouse.tables("here") == ["T"]
    warehouse.publish(again, "HERE", "u")
    assert value_of(warehouse, "U") == [2]
    assert {path.name for path in warehouse.namespace("here").iterdir()} == {"T", "u"}


def replacing(warehouse, name, columns):
    """Plan the replacement of a table; return the request that finishes or discards it."""
    table = projseg.Table(warehouse.table("here", name))
    request = {
        "location": table.location,
        "columns": columns,
        "options": {},
        "properties": {},
        "keeps_all": True,
        "replaces": True,
        "base_version": table.version,
    }
    planned, _ = REPLACEMENTS["plan_replacement"](request)
    return {**request, "plan": planned["plan"], "had_folder": planned["had_folder"]}


def test_a_table_is_replaced_in_one_commit_of_its_own_log(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t")
    request = replacing(warehouse, "T", [["y", "string"]])
    assert value_of(warehouse, "t") == [1]
    REPLACEMENTS["finish_replacement"](request)
    table = projseg.Table(warehouse.table("here", "t"))
    assert (table.version, table.schema.names, table.query().num_rows) == (1, ["y"], 0)
    assert projseg.Table(table.location, version=0).query()["x"].to_pylist() == [1]


def test_a_replacement_that_fails_leaves_the_table(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t")
    missing = str(warehouse.staged("here"))
    with pytest.raises(OSError, match="No such file"):
        warehouse.publish(missing, "here", "u")
    assert warehouse.tables("here") == ["t"]
    request = replacing(warehouse, "t", [["y", "string"]])
    projseg.Table(request["location"]).append({"x": [2]})
    with pytest.raises(CommitConflictError):
        REPLACEMENTS["finish_replacement"](request)
    REPLACEMENTS["discard_replacement"](request)
    assert value_of(warehouse, "t") == [1, 2]


def test_a_table_gets_another_name_and_only_its_case(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t")
    warehouse.rename("here", "t", "here", "T")
    assert warehouse.tables("here") == ["T"]
    warehouse.rename("here", "t", "default", "u")
    assert (warehouse.tables("here"), warehouse.tables("default")) == ([], ["u"])
    warehouse.drop("default", "U")
    refused("PROJSEG_NOT_A_TABLE", lambda: warehouse.drop("default", "u"))


def test_a_namespace_that_holds_tables_stays_unless_told(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t")
    refused("PROJSEG_NAMESPACE_NOT_EMPTY", lambda: warehouse.drop_namespace("here", cascade=False))
    warehouse.drop_namespace("HERE", cascade=True)
    assert warehouse.namespaces() == ["default"]
    refused("PROJSEG_UNKNOWN_NAMESPACE", lambda: warehouse.tables("here"))


def test_a_property_is_set_and_removed(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t")
    table = projseg.Table(warehouse.table("here", "t"))
    set_properties(table, {"a": "1", "b": "2"})
    set_properties(table.refresh(), {"a": None, "absent": None})
    assert table.refresh().properties.properties == {"b": "2"}


def test_options_make_the_same_projections(tmp_path):
    columns = {"t": "timestamp", "a `b`": "string", "n": "int"}
    projection = {"name": "p", "sql": "SELECT `a ``b```, sum(n) AS `x y` WHERE n > 1 GROUP BY ALL"}
    made = projseg.Table.create(
        tmp_path / "one", columns, time_column="t", projections=[projection]
    )
    again = projseg.Table.create(
        tmp_path / "two", columns, time_column="t", projections=_list(options_of(made.properties))
    )
    hashes = [p.definition_hash for p in made.properties.projections]
    assert [p.definition_hash for p in again.properties.projections] == hashes


def _list(options):
    import json

    return json.loads(options["projections"])


VALUED = [
    {"rename": "x", "to": "y"},
    {"add": "n", "type": "bigint", "value": "5"},
    {"add": "d", "type": "string", "value": "concat(k, '!')"},
    {"add": "plain", "type": "int"},
]


@pytest.fixture
def altered(tmp_path):
    """A table of two segments and a projection, of whose rows one is deleted."""
    table = projseg.Table.create(
        tmp_path / "t",
        {"k": "string", "x": "int"},
        data={"k": list("aab"), "x": [1, 2, 3]},
        projections=[projseg.Projection("by_k", ["k"], ["sum(x)"])],
    )
    table.append({"k": ["c"], "x": [4]})
    table.delete("x = 2")
    return table


def test_added_columns_get_their_values_in_the_same_commit(altered):
    before = altered.version
    apply_column_changes(altered, VALUED)
    assert altered.version == before + 1
    assert altered.history()["operation"][0].as_py() == "ADD COLUMNS"
    found = altered.query(columns="*", order_by="y").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (k, y, 5, f"{k}!", None) for k, y in [("a", 1), ("b", 3), ("c", 4)]
    ]
    told = altered.explain("k", "sum(y) AS s", context={"forceProjections": True})
    assert {one["source"] for one in told.named_segments()} == {"by_k"}
    assert altered.verify(deep=True) == []
    old = projseg.Table(altered.location, version=before)
    assert old.query(columns="*", order_by="x")["x"].to_pylist() == [1, 3, 4]


def test_values_that_fail_leave_the_columns_as_they_were(altered):
    before, names = altered.version, altered.schema.names
    with pytest.raises(EvaluationError):
        apply_column_changes(altered, [{"add": "n", "type": "int", "value": "1 / (x - x)"}])
    altered.refresh()
    assert (altered.version, altered.schema.names) == (before, names)


def test_no_row_that_is_added_meanwhile_is_left_without_the_value(altered, monkeypatch):
    writes = []

    def appending(*given, **named):
        if len(writes) < 1:
            writes.append(projseg.Table(altered.location).append({"k": ["z"], "x": [9]}))
        return write_segments(*given, **named)

    write_segments = delete_and_update.write_segments
    monkeypatch.setattr(delete_and_update, "write_segments", appending)
    apply_column_changes(altered, VALUED)
    assert altered.query(columns=["y", "n"], order_by="y")["n"].to_pylist() == [5] * 4


def test_writers_that_never_rest_are_a_conflict(altered, monkeypatch):
    def appending(*given, **named):
        projseg.Table(altered.location).append({"k": ["z"], "x": [9]})
        return write_segments(*given, **named)

    write_segments = delete_and_update.write_segments
    monkeypatch.setattr(delete_and_update, "write_segments", appending)
    with pytest.raises(CommitConflictError):
        apply_column_changes(altered, VALUED)
    altered.refresh()
    assert altered.schema.names == ["k", "x"]


def test_views_follow_a_column_with_values(altered):
    altered.create_view("v", "SELECT k, sum(x) FROM t GROUP BY k")
    apply_column_changes(altered, [{"add": "n", "type": "int", "value": "1"}])
    assert altered.views()["state"].to_pylist() == ["fresh"]
    assert altered.query("k", "sum(x) AS s", context={"forceViews": True})["s"].to_pylist() == [
        *(1, 3, 4)
    ]


def test_an_empty_table_gets_its_columns(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"x": "int"})
    apply_column_changes(table, [{"add": "n", "type": "int", "value": "1"}])
    assert table.schema.names == ["x", "n"]
    assert table.version == 1
