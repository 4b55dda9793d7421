"""Of many views, those that mention a query's columns are matched, and few of them."""

from viewed_tables import answer, in_duckdb, new_viewed_table, row, rows

from projseg import Table

SEVERAL = [row(hour, 5, "abc"[hour % 3], hour % 4, hour, 100) for hour in range(12)]


def reasons(table, sql, **context):
    found = table.explain(sql, context=context or None).views
    return {one["name"]: one["reason"] for one in found}


def test_a_larger_view_is_not_matched_where_smaller_ones_answer(tmp_path):
    table = new_viewed_table(str(tmp_path / "t"), SEVERAL)
    keys = ["k", "k, n", "k, price", "k, g", "k, g, n", "k, g, price"]
    for place, key in enumerate(keys):
        table.create_view(f"v{place}", f"SELECT {key}, sum(n) AS s FROM t GROUP BY {key}")
    table.create_view("other", "SELECT g, sum(n) AS s FROM t GROUP BY g")
    sql = "SELECT k, sum(n) AS s FROM t GROUP BY k"
    found = reasons(table, sql)
    assert found["v0"] is None
    assert found["other"].startswith("MISSING_GROUPING_COLUMN k")
    assert {found[f"v{n}"] for n in range(1, 6)} == {"OTHER_VIEW_CHOSEN"}
    assert answer(table, sql, forceViews=True) == in_duckdb(sql, rows(SEVERAL))
    for name in ("v0", "v3", "v5"):
        assert answer(table, sql, useView=name) == in_duckdb(sql, rows(SEVERAL))
        assert reasons(table, sql, useView=name)["other"] == f"EXCLUDED useView names '{name}'"


def test_a_larger_view_is_matched_where_smaller_ones_are_behind(tmp_path):
    """Smaller views that cover too little do not keep a larger one from answering."""
    table = new_viewed_table(str(tmp_path / "t"), SEVERAL)
    for place, key in enumerate(["k", "k, g", "k, price", "k, g, price"]):
        sql = f"SELECT {key}, sum(n) AS s FROM t GROUP BY {key}"
        table.create_view(f"v{place}", sql, refresh="deferred")
    more = [row(hour, 5, "a", hour % 4, hour, hour) for hour in range(100, 130)]
    table.append(rows(more))
    table.view("v3").refresh()
    sql = "SELECT k, sum(n) AS s FROM t GROUP BY k"
    found = reasons(Table(str(tmp_path / "t")), sql)
    assert found["v3"] is None
    assert answer(table.refresh(), sql, forceViews=True) == in_duckdb(sql, rows([*SEVERAL, *more]))
