"""A view keeps the meaning that it was made with, and says where its text has another today."""

import pytest
from msgspec.structs import replace

import projseg
from projseg.errors import InvalidInputError
from projseg.table.stored_view import StoredView
from projseg.table.table_version import state_of
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.views.view_commits import edited, store_write

ROWS = {"i": [1, 2, 3, 4], "j": [7, 5, 2, 1], "s": ["1", "2", "3", "4"]}
PAIRS = [
    ("(4 | i) & j", "4 | i & j"),
    ("(i ^ j) & 2", "i ^ j & 2"),
    ("(i | 1) ^ j", "i | 1 ^ j"),
    ("length(s || (i + j))", "length(s || i + j)"),
]
"""How an older release bound a text, and the text."""


@pytest.mark.parametrize(("meant", "written"), PAIRS)
def test_a_view_of_an_older_release_keeps_its_meaning(tmp_path, meant, written):
    types = {"i": "int", "j": "int", "s": "string"}
    table = projseg.Table.create(tmp_path / "t", types, data=ROWS)
    table.create_view("v", f"SELECT {meant} AS g, count(*) AS n FROM t GROUP BY {meant}")
    view = StoredView.named(state_of(table), "v")
    older = f"SELECT {written} AS g, count(*) AS n FROM t GROUP BY {written}"
    with store_write(view.store()) as write:
        change = edited(view.view_id, lambda one: replace(one, sql=older))
        write.commit(change, "made by an older release", NO_NOTE)
    table = projseg.Table(tmp_path / "t")
    with pytest.raises(InvalidInputError, match="bound the operators") as caught:
        table.view("v").query()
    assert caught.value.code == "PROJSEG_BAD_VIEW"
    assert "bound the operators" in table.views()["last_error"][0].as_py()
    asked = f"SELECT {meant} AS g, count(*) AS n FROM t GROUP BY {meant} ORDER BY g"
    plain = {"noViews": True}
    assert table.sql(asked).equals(table.sql(asked, context=plain))
    now = asked.replace(meant, written)
    assert table.sql(now).equals(table.sql(now, context=plain))


@pytest.mark.parametrize("text", ["4 | i & j", "i ^ j & 2", "(4 | i) & j", "i + j"])
def test_a_view_of_today_says_nothing(tmp_path, text):
    table = projseg.Table.create(
        tmp_path / "t", {"i": "int", "j": "int"}, data={"i": [1], "j": [7]}
    )
    table.create_view("v", f"SELECT {text} AS g, count(*) AS n FROM t GROUP BY {text}")
    assert table.views()["last_error"][0].as_py() is None
    assert table.view("v").query().num_rows == 1
