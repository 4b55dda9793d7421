"""Stars: joined columns, proofs of keys, what is refused, and published wrong results of joins."""

import datetime as dt
import pickle
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import projseg
from projseg import Join, Query
from projseg.memory.cache import KEPT

EDITS = pa.table(
    {
        "country": ["FR", "DE", None, "XX", "FR", "US"],
        "added": pa.array([1, 2, 4, 8, 16, 32], pa.int64()),
        "shop": pa.array([1, 2, None, 9, 1, 2], pa.int32()),
    }
)
PLACES = pa.table(
    {
        "code": ["FR", "DE", "US", None, None],
        "region": ["eu", "eu", "am", "zz", "zy"],
        "zone": pa.array([1, 2, 3, 1, 1], pa.int64()),
    }
)
ZONES = pa.table({"id": pa.array([1, 2], pa.int32()), "label": ["one", "two"]})
BY_COUNTRY = {"name": "by_country", "sql": "SELECT country, sum(added), count(*) GROUP BY ALL"}


def made(folder, name, rows, **options):
    return projseg.Table.create(folder / name, rows.schema, data=rows, **options)


@pytest.fixture
def tables(tmp_path):
    return {
        "edits": made(tmp_path, "edits", EDITS, projections=[BY_COUNTRY]),
        "places": made(tmp_path, "places", PLACES),
        "zones": made(tmp_path, "zones", ZONES),
    }


def ask(tables, text, **options):
    return sorted(
        (tuple(row.values()) for row in projseg.sql(text, tables, **options).to_pylist()), key=repr
    )


def refusal(tables, text, **options):
    with pytest.raises(projseg.ProjsegError) as found:
        projseg.sql(text, tables, **options)
    return found.value.code, found.value.message


def sources(tables, text):
    return set(projseg.sql(text, tables, explain=True).sources)


def test_a_projection_by_the_key_serves_every_column_behind_it(tables):
    text = (
        "SELECT region, label, sum(added) AS s FROM edits JOIN places d ON country = d.code "
        "LEFT JOIN zones ON zone = id WHERE region <> 'am' GROUP BY region, label"
    )
    assert ask(tables, text) == [("eu", "one", 17), ("eu", "two", 2)]
    assert sources(tables, text) == {"by_country"}


def test_the_dimensions_key_is_the_facts_where_a_row_is_found(tables):
    text = "SELECT d.code, sum(added) FROM edits JOIN places d ON country = d.code GROUP BY d.code"
    assert sources(tables, text) == {"by_country"}
    assert ask(tables, text) == [("DE", 2), ("FR", 17), ("US", 32)]
    outer = text.replace("JOIN", "LEFT JOIN")
    assert ask(tables, outer) == [("DE", 2), ("FR", 17), ("US", 32), (None, 12)]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("on", ["", " AND region = 'none'", " AND region = 'eu'"])
@pytest.mark.parametrize(
    "condition",
    [
        "region = 'none'", "label = 'none'", "label = 'one'", "region IS NULL", "code IS NULL",
        "coalesce(label, 'none') = 'none'", "label = 'none' OR region = 'eu'",
        "added > 1 AND label = 'none'", "added > 1000 AND label = 'one'",
        "region = 'none' AND 1 / (added - added) > 0",
    ],
)  # fmt: skip
def test_conditions_that_are_true_of_no_joined_row(tables, kind, on, condition):
    text = (
        f"SELECT country, count(*) AS c FROM edits {kind} places ON country = code{on} "
        f"{kind} zones ON zone = id WHERE {condition} GROUP BY country"
    )
    with duckdb.connect() as peer:
        for name, rows in (("edits", EDITS), ("places", PLACES), ("zones", ZONES)):
            peer.register(name, rows)
        wanted = peer.sql(text).fetchall()
    assert sorted(ask(tables, text), key=repr) == sorted(wanted, key=repr)


def test_a_found_row_proves_that_the_key_is_not_null(tmp_path, tables):
    known = {
        "name": "known",
        "sql": "SELECT country, sum(added) WHERE country IS NOT NULL GROUP BY ALL",
    }
    tables["edits"] = made(tmp_path, "known", EDITS, projections=[known])
    text = "SELECT region, sum(added) FROM edits JOIN places ON country = code GROUP BY region"
    assert sources(tables, text) == {"known"}
    assert sources(tables, text.replace("JOIN", "LEFT JOIN")) == {"base"}


def test_names_mean_what_they_mean_in_sql(tables):
    texts = [
        "SELECT upper(d.region) AS region, count(*) FROM edits, places AS d WHERE country = code "
        "GROUP BY 1 HAVING region = 'EU'",
        "SELECT upper(region) AS r, count(*) FROM edits JOIN places ON edits.country = places.code "
        "WHERE places.region = 'eu' GROUP BY r",
    ]
    for text in texts:
        assert ask(tables, text) == [("EU", 3)]
    found = projseg.sql("SELECT * FROM zones JOIN places ON id = zone", tables)
    assert found.column_names == ["id", "label", "code", "region", "zone"]
    found = projseg.sql("SELECT p.region FROM edits JOIN places p ON country = code", tables)
    assert found.column_names == ["region"]


def test_a_star_lists_columns_of_one_name_of_several_tables(tmp_path):
    facts = pa.table({"k": ["a", "b", None, "z"], "id": [1, 2, 3, 4], "dims": [5, 6, 7, 8]})
    rows = pa.table({"K": ["a", "b", "c"], "id": [10, 20, 30], "note": ["x", None, "y"]})
    tables = {"facts": made(tmp_path, "facts", facts), "dims": made(tmp_path, "dims", rows)}
    with duckdb.connect() as peer:
        peer.register("facts", facts)
        peer.register("dims", rows)
        for chosen in ("*", "f.*, note", "dims.*, f.id", "f.*, dims.*", "f.id, *"):
            for kind in ("JOIN", "LEFT JOIN"):
                text = f"SELECT {chosen} FROM facts f {kind} dims ON f.k = dims.k ORDER BY f.id"
                found, wanted = projseg.sql(text, tables), peer.sql(text).to_arrow_table()
                assert [one.lower() for one in found.column_names] == [
                    one.lower() for one in wanted.column_names
                ]
                assert [one.to_pylist() for one in found.columns] == [
                    one.to_pylist() for one in wanted.columns
                ]
        text = "SELECT * EXCEPT (note) FROM facts f JOIN dims ON f.k = dims.k"
        assert projseg.sql(text, tables).column_names == ["k", "id", "dims", "K", "id"]


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        ("EXISTS (SELECT 1 FROM places WHERE code = country)", "as LEFT SEMI JOIN"),
        ("NOT EXISTS (SELECT 1 FROM places WHERE code = country)", "as LEFT ANTI JOIN"),
        ("country NOT IN (SELECT code FROM places)", "keeps rows with a null key"),
    ],
)
def test_a_refused_subquery_names_the_join_that_is_the_same(tables, condition, remedy):
    assert remedy in refusal(tables, f"SELECT count(*) FROM edits WHERE {condition}")[1]


def test_every_name_that_is_not_given_is_the_table_itself(tables):
    places = {"places": tables["places"]}
    text = "SELECT count(*) AS n FROM whatever JOIN places ON country = code"
    assert tables["edits"].sql(text, tables=places).to_pylist() == [{"n": 4}]
    code, message = refusal(places, text)
    assert code == "PROJSEG_BAD_SQL"
    assert "'whatever'" in message
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_UNSUPPORTED_SQL"):
        tables["edits"].sql(text)


def test_the_largest_table_that_reaches_all_others_is_the_fact(tables):
    text = "SELECT count(*) FROM places JOIN zones ON zone = id"
    assert ask(tables, text) == [(4,)]
    explained = projseg.sql(text, tables, explain=True)
    assert [join.name for join in explained.query.joins] == ["zones"]


def test_a_key_of_several_rows_is_refused_with_one_value(tables, tmp_path):
    tables["places"].append(PLACES.slice(0, 1))
    text = "SELECT count(*) FROM edits JOIN places d ON country = d.code"
    code, message = refusal(tables, text)
    assert code == "PROJSEG_JOIN_KEY_NOT_UNIQUE"
    assert "'FR'" in message
    assert refusal(tables, text.replace("JOIN", "LEFT JOIN"))[0] == code
    # Rows that the condition of ON leaves out do not count, and semi joins count none.
    assert ask(tables, text + " AND d.code <> 'FR'") == [(2,)]
    assert ask(tables, text.replace("JOIN", "LEFT SEMI JOIN")) == [(4,)]
    # The version before is as it was.
    tables["places"] = projseg.Table(tmp_path / "places", version=0)
    assert ask(tables, text) == [(4,)]


@pytest.mark.sampled(30)
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("edits JOIN places ON country <=> code", "PROJSEG_NOT_A_STAR"),
        ("edits JOIN places ON added < zone", "PROJSEG_NOT_A_STAR"),
        ("edits JOIN places ON country = upper(code)", "PROJSEG_NOT_A_STAR"),
        ("edits JOIN places ON country = code OR added = zone", "PROJSEG_NOT_A_STAR"),
        ("edits JOIN zones ON country = id", "PROJSEG_NOT_A_STAR"),
        ("edits JOIN zones ON CAST(added AS double) = id", "PROJSEG_NOT_A_STAR"),
        ("edits CROSS JOIN places", "PROJSEG_NOT_A_STAR"),
        ("edits LEFT JOIN places ON country = code AND added > 1", "PROJSEG_NOT_A_STAR"),
        ("edits FULL JOIN places ON country = code", "PROJSEG_UNSUPPORTED_SQL"),
        ("edits NATURAL JOIN places", "PROJSEG_UNSUPPORTED_SQL"),
        ("edits JOIN (SELECT code FROM places) p ON country = code", "PROJSEG_UNSUPPORTED_SQL"),
        ("edits WHERE country NOT IN (SELECT code FROM places)", "PROJSEG_UNSUPPORTED_SQL"),
        (
            "edits WHERE added = 1 OR country IN (SELECT code FROM places)",
            "PROJSEG_UNSUPPORTED_SQL",
        ),
        ("edits WHERE EXISTS (SELECT 1 FROM places)", "PROJSEG_UNSUPPORTED_SQL"),
        ("edits JOIN nowhere ON country = code", "PROJSEG_BAD_SQL"),
        ("edits JOIN places ON country = nothing", "PROJSEG_UNKNOWN_COLUMN"),
        ("edits JOIN places ON country = places.nothing", "PROJSEG_UNKNOWN_COLUMN"),
        ("edits JOIN places USING (country)", "PROJSEG_UNKNOWN_COLUMN"),
        ("edits JOIN places ON", "PROJSEG_BAD_SQL"),
        ("edits, ", "PROJSEG_BAD_SQL"),
        ("edits, WHERE added = 1", "PROJSEG_BAD_SQL"),
        ("edits,, places WHERE country = code", "PROJSEG_BAD_SQL"),
        ("edits JOIN places ON country = code,", "PROJSEG_BAD_SQL"),
        ("edits WHERE country IN (SELECT code FROM places,)", "PROJSEG_BAD_SQL"),
        ("places a JOIN places b ON a.zone = b.zone", "PROJSEG_JOIN_KEY_NOT_UNIQUE"),
        ("places a JOIN places b ON zone = b.zone", "PROJSEG_BAD_SQL"),
    ],
)
def test_what_is_no_star_is_refused_by_name(tables, text, code):
    assert refusal(tables, f"SELECT count(*) FROM {text}")[0] == code


def test_too_large_a_dimension_is_refused(tables, monkeypatch):
    text = "SELECT count(*) FROM edits JOIN places ON country = code"
    monkeypatch.setenv("PROJSEG_JOIN_ROWS", "4")
    KEPT.clear()
    code, message = refusal(tables, text)
    assert code == "PROJSEG_JOIN_TOO_LARGE"
    assert "PROJSEG_JOIN_ROWS" in message
    monkeypatch.setenv("PROJSEG_JOIN_ROWS", "5")
    assert ask(tables, text) == [(4,)]


def test_joins_of_a_query(tables):
    query = Query(
        "d.region, z.label",
        "sum(added) AS s",
        joins=[
            Join(tables["places"], "country = d.code", name="d", where="region = 'eu'"),
            Join(tables["zones"], "d.zone = z.id", name="z", how="left"),
        ],
        order_by="s DESC",
    )
    expected = [
        {"region": "eu", "label": "one", "s": 17},
        {"region": "eu", "label": "two", "s": 2},
    ]
    edits = tables["edits"]
    assert edits.query(query).to_pylist() == expected
    for same in (Query.from_json(query.to_json()), pickle.loads(pickle.dumps(query))):
        assert same == query
        assert edits.query(same).to_pylist() == expected
    assert "LEFT JOIN" in str(edits.explain(query))
    found = edits.query("added", joins=[Join(tables["places"], "country = p.code", "p", "anti")])
    assert sorted(found["added"].to_pylist()) == [4, 8]
    rows = edits.query(joins=[Join(tables["places"], "country = places.code")], limit=1)
    assert rows.column_names == EDITS.column_names


@pytest.mark.parametrize(
    ("join", "words"),
    [
        ({"table": 3, "on": "x = d.y"}, "table is 3"),
        ({"table": "t", "on": None}, "on takes a text"),
        ({"table": "t", "on": "x", "how": "full"}, "inner, left, semi, anti"),
        ({"table": "t", "on": "x", "name": "a.b"}, "without dots"),
        ({"table": "t", "on": "x", "version": "1"}, "version is '1'"),
    ],
)
def test_bad_joins(join, words):
    with pytest.raises(projseg.ProjsegError, match=words):
        Join(**join)


def test_bad_joins_of_a_query(tables):
    edits, places = tables["edits"], tables["places"]
    with pytest.raises(projseg.ProjsegError, match="as is a column"):
        edits.query("shop", joins=[Join(places, "country = shop.code", "shop")])
    with pytest.raises(projseg.ProjsegError, match="as is another join"):
        edits.query("added", joins=[Join(places, "country = d.code", "d")] * 2)
    with pytest.raises(projseg.ProjsegError, match="or several, found"):
        Query(joins=[places])
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_NOT_A_STAR"):
        edits.query("added", joins=[Join(places, "country = 'FR'", "d")])
    chain = [Join(places, "country = a.code", "a")]
    for before, name in zip("abcd", "bcde", strict=True):
        chain.append(Join(places, f"{before}.region = {name}.code", name, "left"))
    with pytest.raises(projseg.ProjsegError, match="hangs on 4 others"):
        edits.query("added", joins=chain)
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_BAD_QUERY"):
        Query.from_json('{"projseg_query": 1, "joins": [{"table": "t"}]}')


def test_parameters(tables):
    text = (
        "SELECT count(*) FROM edits JOIN places d ON country = d.code AND d.zone < :most "
        "WHERE region = :region"
    )
    assert ask(tables, text, args={"most": 2, "region": "eu"}) == [(2,)]
    assert ask(tables, text, args={"most": 3, "region": "eu"}) == [(3,)]
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_BAD_ARGUMENT"):
        ask(tables, text, args={"most": 2})
    found = tables["edits"].query(
        (), "count(*) AS n", filter="added > ?", args=[1, "eu"],
        joins=[Join(tables["places"], "country = d.code", "d", where="region = ?")],
    )  # fmt: skip
    assert found.to_pylist() == [{"n": 2}]


def test_keys_of_different_types(tmp_path):
    fact = pa.table(
        {
            "i": pa.array([1, 2, 3, None], pa.int32()),
            "d": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("9.99")]),
            "day": pa.array([dt.date(2026, 3, 28), dt.date(2026, 3, 29), None, None]),
            "raw": pa.array([b"a", b"", None, b"b"]),
            "flag": pa.array([True, False, None, True]),
        }
    )
    other = pa.table(
        {
            "i": pa.array([2**40, 1, 2], pa.int64()),
            "d": pa.array([Decimal("1.5000"), Decimal("2.0001"), Decimal("9.9900")]),
            "t": pa.array(
                [dt.datetime(2026, 3, 28, 23), dt.datetime(2026, 3, 28), None],
                pa.timestamp("us", tz="UTC"),
            ),
            "raw": pa.array([b"", b"a", None]),
            "flag": pa.array([False, None, None]),
            "x": pa.array([1, 2, 4], pa.int64()),
        }
    )  # fmt: skip
    tables = {"f": made(tmp_path, "f", fact), "o": made(tmp_path, "o", other)}
    for on, expected in {
        "f.i = o.i": 6,
        "f.d = o.d": 5,
        "f.raw = o.raw": 3,
        "f.flag = o.flag": 1,
        "f.i = o.i AND f.raw = o.raw": 2,
    }.items():
        assert ask(tables, f"SELECT sum(x) FROM f JOIN o ON {on}") == [(expected,)], on
    text = "SELECT sum(x) FROM f JOIN o ON f.day = o.t"
    assert ask(tables, text) == [(2,)]
    # In Paris the 29th begins at 23 o'clock UTC.
    assert ask(tables, text, context={"timezone": "Europe/Paris"}) == [(1,)]


def test_the_fact_as_its_own_dimension(tmp_path):
    staff = pa.table(
        {"id": pa.array([1, 2, 3, 4]), "boss": pa.array([None, 1, 1, 7]), "name": list("abcd")}
    )
    tables = {"staff": made(tmp_path, "staff", staff)}
    text = "SELECT s.name, b.name AS boss FROM staff s {} JOIN staff b ON s.boss = b.id"
    assert ask(tables, text.format("")) == [("b", "a"), ("c", "a")]
    found = ask(tables, text.format("LEFT"))
    assert found == [("a", None), ("b", "a"), ("c", "a"), ("d", None)]


def test_dimensions_that_change(tables, tmp_path):
    text = "SELECT region, sum(added) FROM edits JOIN places ON country = code GROUP BY region"
    places = tables["places"]
    before = ask(tables, text)
    pinned = {**tables, "places": projseg.Table(tmp_path / "places", version=places.version)}
    places.update({"region": "'europe'"}, "code = 'FR'")
    assert ask(tables, text) == [("am", 32), ("eu", 2), ("europe", 17)]
    places.delete("code = 'DE'")
    assert ask(tables, text) == [("am", 32), ("europe", 17)]
    places.rename_column("region", "area")
    assert ask(tables, text.replace("region", "area")) == [("am", 32), ("europe", 17)]
    assert ask(pinned, text) == before
    as_of = text.replace("places", "places VERSION AS OF 0")
    assert ask(tables, as_of) == before
    places.restore(0)
    assert ask(tables, text) == before


def test_rows_of_a_recreated_table_are_its_own(tables, tmp_path):
    import shutil

    text = "SELECT region, count(*) FROM edits JOIN places ON country = code GROUP BY region"
    assert ask(tables, text) == [("am", 1), ("eu", 3)]
    shutil.rmtree(tmp_path / "places")
    changed = PLACES.set_column(1, "region", [["x", "y", "x", "x", "x"]])
    tables["places"] = made(tmp_path, "places", changed)
    assert ask(tables, text) == [("x", 3), ("y", 1)]


def test_empty_tables(tables, tmp_path):
    tables["places"] = made(tmp_path, "none", PLACES.slice(0, 0))
    inner = "SELECT count(*), sum(added) FROM edits JOIN places ON country = code"
    assert ask(tables, inner) == [(0, None)]
    assert ask(tables, inner.replace("JOIN", "LEFT JOIN")) == [(6, 63)]
    assert ask(tables, inner.replace("JOIN", "LEFT ANTI JOIN")) == [(6, 63)]
    tables["edits"] = made(tmp_path, "no_edits", EDITS.slice(0, 0))
    assert ask(tables, inner) == [(0, None)]


def test_a_small_cache_holds_nothing_and_answers_the_same(tables, monkeypatch):
    monkeypatch.setattr(KEPT, "_budget", 0)
    KEPT.clear()
    text = (
        "SELECT upper(region), sum(added * zone) FROM edits JOIN places ON country = code "
        "GROUP BY 1"
    )
    assert ask(tables, text) == [("AM", 96), ("EU", 21)]


def test_a_row_that_raises_counts_only_where_it_is_met(tables):
    """ANSI mode refuses a value, but not that of a row which nothing matches."""
    text = "SELECT sum(100 DIV (zone - 3)) FROM edits JOIN places ON country = code"
    with pytest.raises(projseg.ProjsegError, match="DIVIDE_BY_ZERO"):
        ask(tables, text)
    assert ask(tables, text + " WHERE country <> 'US'") == [(-200,)]
    assert ask(tables, text + " WHERE shop = 1") == [(-100,)]


class TestPublishedWrongResults:
    """Of others' joins; the numbers are their trackers'."""

    def test_an_inner_join_says_that_a_row_was_found(self, tables):
        """Doris 63268: an inner query from an outer view without "has a partner"."""
        text = "SELECT count(*) FROM edits {} JOIN places ON country = code"
        assert ask(tables, text.format("LEFT")) == [(6,)]
        assert ask(tables, text.format("")) == [(4,)]

    def test_a_left_join_stays_one(self, tables):
        """StarRocks 27163, 36536, 20965: a left join changed into a full or an inner one."""
        text = "SELECT region, count(*) FROM edits LEFT JOIN places ON country = code GROUP BY 1"
        assert ask(tables, text) == [("am", 1), ("eu", 3), (None, 2)]
        where = text.replace(" GROUP", " WHERE region IS NULL GROUP")
        assert ask(tables, where) == [(None, 2)]
        on = text.replace(" GROUP", " AND region = 'am' GROUP")
        assert ask(tables, on) == [("am", 1), (None, 5)]

    def test_outer_and_inner_joins_in_one_tree(self, tables):
        """CALCITE-1965."""
        text = (
            "SELECT label, count(*) FROM edits LEFT JOIN places ON country = code "
            "{} JOIN zones ON zone = id GROUP BY label"
        )
        assert ask(tables, text.format("")) == [("one", 2), ("two", 1)]
        assert ask(tables, text.format("LEFT")) == [("one", 2), ("two", 1), (None, 3)]

    def test_null_keys_match_nothing(self, tables):
        """StarRocks 21322, 60087: rows with a null key lost, or joined with each other."""
        text = "SELECT sum(added) FROM edits LEFT JOIN places ON country = code WHERE code IS NULL"
        assert ask(tables, text) == [(12,)]
        assert ask(tables, text.replace("LEFT JOIN", "LEFT ANTI JOIN").split(" WHERE")[0]) == [
            (12,)
        ]

    def test_a_key_does_not_become_another_by_a_cast(self, tmp_path):
        """'1' and '01' are two keys, though both are 1."""
        fact = made(tmp_path, "f", pa.table({"k": ["1", "01", "x"], "v": [1, 2, 4]}))
        other = made(tmp_path, "o", pa.table({"id": pa.array([1], pa.int32()), "k": ["1"]}))
        tables = {"f": fact, "o": other}
        assert refusal(tables, "SELECT count(*) FROM f JOIN o ON f.k = o.id")[0] == (
            "PROJSEG_NOT_A_STAR"
        )
        assert ask(tables, "SELECT sum(v) FROM f JOIN o ON f.k = o.k") == [(1,)]
        text = "SELECT sum(v) FROM f JOIN o ON try_cast(f.k AS int) = o.id"
        assert ask(tables, text) == [(3,)]

    def test_sums_of_a_dimensions_column_count_rows(self, tables):
        """StarRocks 6984: the sum of a key, taken once for each group."""
        text = "SELECT sum(zone), count(zone), min(zone) FROM edits JOIN places ON country = code"
        assert ask(tables, text, context={"forceProjections": True}) == [(7, 4, 1)]

    def test_one_dimension_in_two_roles(self, tables):
        """Two paths to one table are two things, whatever their columns are called."""
        text = (
            "SELECT a.region AS one, b.region AS two FROM edits JOIN places a ON country = a.code "
            "LEFT JOIN places b ON shop = b.zone AND b.code IS NOT NULL"
        )
        assert ask(tables, text) == [("am", "eu"), ("eu", "eu"), ("eu", "eu"), ("eu", "eu")]


def test_a_plan_names_joined_tables_and_not_where_they_are(tables, tmp_path):
    text = "SELECT region, sum(added) AS s FROM edits JOIN places ON country = code GROUP BY region"
    plan = projseg.sql(f"EXPLAIN {text}", tables)["plan"][0].as_py()
    assert "INNER JOIN places VERSION AS OF" in plan
    assert str(tmp_path) not in plan
    query = projseg.sql(text, tables, explain=True).query
    assert str(tmp_path) in query.to_json()
