"""The order of a view's groups is what CLUSTER BY says, and changes no answer."""

import json

import pytest
from viewed_tables import answer, new_viewed_table, row

from projseg.errors import InvalidInputError

SELECT = "SELECT k, date_trunc('DAY', time) AS day, sum(n) AS n FROM t GROUP BY ALL"


def test_groups_are_in_the_order_of_cluster_by(tmp_path):
    rows = [row(h, 0, "ab"[h % 2], h % 3, h, None) for h in range(48)]
    table = new_viewed_table(tmp_path / "t", rows)
    view = table.create_view("v", SELECT, cluster_by=["Day"], chunk="all")
    assert view.detail()["group_by"] == ["day", "k"]
    assert json.loads(view.detail()["options"]["cluster_by"]) == ["Day"]
    for asked in ("SELECT k, sum(n) AS n FROM t GROUP BY k", SELECT):
        assert answer(table, asked, forceViews=True) == answer(table, asked, noViews=True)
    table.append([{**one, "price": None} for one in rows[:3]])
    assert view.verify(deep=True) == []
    for wrong in (["n"], ["k", "K"]):
        with pytest.raises(InvalidInputError, match="none of the grouping columns"):
            table.create_view("w", SELECT, cluster_by=wrong)
    with pytest.raises(InvalidInputError, match="cannot be changed"):
        view.set_properties({"cluster_by": '["k"]'})
