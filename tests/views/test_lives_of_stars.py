"""Whatever is done to a fact, its dimensions and its views, answers are those of the rows."""

import random
import shutil
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from scale import IS_NIGHTLY, IS_WHOLE_NIGHT, tries
from star_cases import PROJECTIONS, SCHEMAS, Star, rows_of
from viewed_tables import check_covers

import projseg

LIVES = tries(16, 2)
STEPS = 30 if IS_NIGHTLY else 5
ASKED = Counter()
DONE = Counter()

VIEWS = {
    "by_place": "SELECT region, d.name, country, day, sum(v) AS s, count(v), sum(v * d.zone) AS z "
    "FROM edits e JOIN places d ON e.country = d.code GROUP BY ALL",
    "by_zone": "SELECT region, label, shop, date_trunc('DAY', time) AS t, sum(v) AS s, "
    "sum(v * weight) AS w, sum(weight) AS ws FROM edits e LEFT JOIN places d ON e.country = d.code "
    "LEFT JOIN zones z ON d.zone = z.id GROUP BY ALL",
    "by_shop": "SELECT s.active, s.opened, s.class, m.active AS m, country, e.day, sum(v) AS v, "
    "sum(s.manager) AS sm, min(v) AS least FROM edits e LEFT JOIN shops s ON e.shop = s.shop "
    "LEFT JOIN shops m ON s.manager = m.shop GROUP BY ALL",
    "known": "SELECT country, e.day, d.region, sum(v) AS s FROM edits e JOIN places d "
    "ON e.country = d.code WHERE d.region IS NOT NULL GROUP BY ALL",
    "semi": "SELECT country, e.name, sum(v) AS s, count(*) AS c FROM edits e "
    "LEFT SEMI JOIN places d ON e.country = d.code AND d.region = 'eu' GROUP BY ALL",
    "two_keys": "SELECT s.active, e.country, e.day, sum(v) AS s FROM edits e JOIN shops s "
    "ON e.shop = s.shop AND price_class = s.class GROUP BY ALL",
    "all_keys": "SELECT country, shop, price_class, day, e.name, sum(v) AS s, max(v) AS m "
    "FROM edits e GROUP BY ALL",
}  # fmt: skip


class Life:
    """A star, its rows as lists, and what may happen to both."""

    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        self.rows = {name: table.to_pylist() for name, table in rows_of(rng).items()}
        self.tables = {}
        for name in SCHEMAS:
            self.create(name)
        self.kept = {}
        self.broken = set()
        self.remember()
        self.steps = [
            self.append, self.append, self.delete, self.update, self.compact, self.restore,
            self.add_partner, self.add_partner, self.change_partner, self.change_partner,
            self.remove_partner, self.double_key, self.rename_rows, self.compact_dimension,
            self.recreate, self.make_view, self.make_view, self.refresh, self.refresh,
            self.refresh, self.vacuum, self.add_column,
        ]  # fmt: skip

    def create(self, name):
        options = {}
        if name == "edits":
            options = {"time_column": "time", "segment_granularity": "hour",
                       "projections": PROJECTIONS}  # fmt: skip
        self.tables[name] = projseg.Table.create(f"{self.folder}/{name}", SCHEMAS[name], **options)
        self.tables[name].append(self.content(name))

    def content(self, name):
        return pa.Table.from_pylist(self.rows[name], SCHEMAS[name])

    @property
    def edits(self):
        return self.tables["edits"]

    def remember(self):
        self.kept[self.edits.version] = list(self.rows["edits"])

    def more(self, name):
        return rows_of(self.rng)[name].to_pylist()

    def append(self):
        several = self.more("edits")[: self.rng.randrange(12)]
        self.edits.append(pa.Table.from_pylist(several, SCHEMAS["edits"]))
        self.rows["edits"] = [*self.rows["edits"], *several]

    def delete(self):
        name = self.rng.choice(["n1", "n2"])
        self.edits.delete(f"name = '{name}' AND v > 20")
        kept = [r for r in self.rows["edits"]
                if not (r["name"] == name and r["v"] is not None and r["v"] > 20)]  # fmt: skip
        self.rows["edits"] = kept

    def update(self):
        self.edits.update({"country": "'US'", "v": "v + 1"}, "country = 'ZZ'")
        self.rows["edits"] = [
            {**r, "country": "US", "v": r["v"] if r["v"] is None else r["v"] + 1}
            if r["country"] == "ZZ" else r
            for r in self.rows["edits"]
        ]  # fmt: skip

    def compact(self):
        self.edits.compact()

    def restore(self):
        version = self.rng.choice(sorted(self.kept))
        self.edits.restore(version)
        self.rows["edits"] = list(self.kept[version])

    def vacuum(self):
        for table in self.tables.values():
            table.refresh().vacuum(0, dry_run=False, force=True)
        self.kept = {}

    def keys_of(self, name):
        key = {"places": "code", "zones": "id", "shops": "shop"}[name]
        return key, [row[key] for row in self.rows[name] if row[key] is not None]

    def dimension(self):
        return self.rng.choice(["places", "zones", "shops"])

    def add_partner(self):
        name = self.dimension()
        key, known = self.keys_of(name)
        new = [row for row in self.more(name) if row[key] is not None and row[key] not in known]
        self.tables[name].append(pa.Table.from_pylist(new[:2], SCHEMAS[name]))
        self.rows[name] = [*self.rows[name], *new[:2]]

    def change_partner(self):
        column, value, sql = self.rng.choice([("region", "eu", "'eu'"), ("zone", 2, "2"),
                                              ("region", None, "NULL")])  # fmt: skip
        code = self.rng.choice(["FR", "DE", "US", "é"])
        self.tables["places"].update({column: sql}, f"code = '{code}'")
        self.rows["places"] = [
            {**r, column: value} if r["code"] == code else r for r in self.rows["places"]
        ]

    def remove_partner(self):
        name = self.dimension()
        key, known = self.keys_of(name)
        if known:
            gone = self.rng.choice(known)
            shown = f"'{gone}'" if isinstance(gone, str) else gone
            self.tables[name].delete(f"{key} = {shown}")
            self.rows[name] = [row for row in self.rows[name] if row[key] != gone]

    def double_key(self):
        if self.rows["zones"][:-1]:
            row = {**self.rows["zones"][0], "label": "other"}
            self.tables["zones"].append(pa.Table.from_pylist([row], SCHEMAS["zones"]))
            self.rows["zones"] = [*self.rows["zones"], row]

    def rename_rows(self):
        """Replace all rows of a dimension."""
        name = self.dimension()
        rows = self.more(name)
        self.tables[name].overwrite(pa.Table.from_pylist(rows, SCHEMAS[name]))
        self.rows[name] = rows

    def compact_dimension(self):
        self.tables[self.dimension()].compact()

    def add_column(self):
        self.tables[self.dimension()].add_column(f"x{self.rng.random()}", "int")

    def recreate(self):
        name = self.dimension()
        shutil.rmtree(f"{self.folder}/{name}")
        self.create(name)
        views = self.edits.views().column("name").to_pylist()
        self.broken.update(view for view in views if f"JOIN {name} " in VIEWS[view])

    def make_view(self):
        name = self.rng.choice(sorted(VIEWS))
        self.tables["zones"].refresh()
        try:
            self.edits.create_view(
                name, VIEWS[name], tables=self.tables, if_not_exists=True,
                refresh=self.rng.choice(["commit", "deferred"]),
            )  # fmt: skip
        except projseg.ProjsegError as error:
            if error.code != "PROJSEG_JOIN_KEY_NOT_UNIQUE":
                raise

    def refresh(self):
        for name in self.edits.refresh().views().column("name").to_pylist():
            view, full = self.edits.view(name), self.rng.random() < 0.1
            if name in self.broken:
                with pytest.raises(projseg.ProjsegError, match="PROJSEG_VIEW_BROKEN"):
                    view.refresh(full)
                view.drop()
                self.broken.remove(name)
                DONE["broken"] += 1
                continue
            try:
                view.refresh(full)
            except projseg.ProjsegError as error:
                if error.code != "PROJSEG_JOIN_KEY_NOT_UNIQUE":
                    raise
                DONE["not unique"] += 1
            DONE["refreshed"] += 1

    def step(self):
        for table in self.tables.values():
            table.refresh()
        what = self.rng.choice(self.steps)
        DONE[what.__name__] += 1
        what()
        for table in self.tables.values():
            table.refresh()
        self.remember()
        for name in self.edits.views().column("name").to_pylist():
            done = self.edits.view(name).detail()["last_refresh"]
            DONE.update(subtracted=done["subtracted"], relabelled=done["relabelled"])

    def ask(self, peer, text, theirs):
        for name in SCHEMAS:
            peer.register(name, self.content(name))
        try:
            found = projseg.sql(text, self.tables)
        except projseg.ProjsegError as error:
            if error.code != "PROJSEG_JOIN_KEY_NOT_UNIQUE":
                raise
            ASKED["refused"] += 1
            return
        wanted = as_rows(peer.sql(theirs).to_arrow_table())
        assert as_rows(found) == wanted, text
        plain = projseg.sql(text, self.tables, context={"noViews": True})
        assert as_rows(plain) == wanted, text
        plan = projseg.sql(text, self.tables, explain=True)
        ASKED["asked"] += 1
        ASKED["views"] += any(one["reason"] is None for one in plan.views)


def as_rows(table):
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(LIVES))
def test_answers_are_those_of_the_rows_through_all_of_a_life(tmp_path, seed):
    rng = random.Random(seed)
    life = Life(str(tmp_path), rng)
    for _ in range(3):
        life.make_view()
    with duckdb.connect() as peer:
        peer.execute("SET TimeZone = 'UTC'")
        for _ in range(STEPS):
            life.step()
            check_covers(life.edits)
            for _ in range(4 if IS_NIGHTLY else 2):
                life.ask(peer, *Star(rng).texts())
            for name in life.edits.views().column("name").to_pylist():
                sql = VIEWS[name]
                life.ask(peer, sql, sql.replace("LEFT SEMI", "SEMI"))
    life.refresh()
    for name in life.edits.refresh().views().column("name").to_pylist():
        assert life.edits.view(name).verify(deep=True) == []


def test_views_answered_many():
    if not ASKED:
        pytest.skip("counts what the tests above asked")
    print(ASKED, DONE)
    assert ASKED["views"] > ASKED["asked"] / 3, ASKED
    assert not IS_WHOLE_NIGHT or min(DONE["subtracted"], DONE["relabelled"]) > 0, DONE
