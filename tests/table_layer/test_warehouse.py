"""Tables as folders of a warehouse, without Spark."""

from __future__ import annotations

import pytest

import projseg
from projseg.errors import InvalidInputError
from projseg.spark_engine.warehouse import Warehouse, options_of, set_properties


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
    warehouse.publish(place, "here", "T", replace=False)
    assert warehouse.tables("here") == ["T"]
    assert value_of(warehouse, "t") == [1]
    again = staged(warehouse, 2)
    refused("PROJSEG_TABLE_EXISTS", lambda: warehouse.publish(again, "here", "t", replace=False))
    assert value_of(warehouse, "t") == [1]
    warehouse.publish(again, "HERE", "t", replace=True)
    assert value_of(warehouse, "T") == [2]
    warehouse.discard(staged(warehouse, 3))
    assert [path.name for path in warehouse.namespace("here").iterdir()] == ["T"]


def test_a_replacement_that_fails_leaves_the_table(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t", replace=True)
    missing = str(warehouse.staged("here"))
    with pytest.raises(OSError, match="No such file"):
        warehouse.publish(missing, "here", "t", replace=True)
    assert value_of(warehouse, "t") == [1]


def test_a_table_gets_another_name_and_only_its_case(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t", replace=False)
    warehouse.rename("here", "t", "here", "T")
    assert warehouse.tables("here") == ["T"]
    warehouse.rename("here", "t", "default", "u")
    assert (warehouse.tables("here"), warehouse.tables("default")) == ([], ["u"])
    warehouse.drop("default", "U")
    refused("PROJSEG_NOT_A_TABLE", lambda: warehouse.drop("default", "u"))


def test_a_namespace_that_holds_tables_stays_unless_told(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t", replace=False)
    refused("PROJSEG_NAMESPACE_NOT_EMPTY", lambda: warehouse.drop_namespace("here", cascade=False))
    warehouse.drop_namespace("HERE", cascade=True)
    assert warehouse.namespaces() == ["default"]
    refused("PROJSEG_UNKNOWN_NAMESPACE", lambda: warehouse.tables("here"))


def test_a_property_is_set_and_removed(warehouse):
    warehouse.publish(staged(warehouse, 1), "here", "t", replace=False)
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
