"""Random stars: a fact and its dimensions, and statements for projseg and DuckDB."""

from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

FACT = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("country", pa.string()),
        ("shop", pa.int32()),
        ("price_class", pa.decimal128(6, 2)),
        ("day", pa.date32()),
        ("v", pa.int64()),
        ("name", pa.string()),
    ]
)
PLACES = pa.schema(
    [("code", pa.string()), ("region", pa.string()), ("zone", pa.int64()), ("name", pa.string())]
)
ZONES = pa.schema([("id", pa.int32()), ("label", pa.string()), ("weight", pa.int32())])
SHOPS = pa.schema(
    [
        ("shop", pa.int64()),
        ("class", pa.decimal128(9, 3)),
        ("opened", pa.date32()),
        ("manager", pa.int64()),
        ("active", pa.bool_()),
    ]
)
SCHEMAS = {"edits": FACT, "places": PLACES, "zones": ZONES, "shops": SHOPS}
PROJECTIONS = [
    {"name": "keys", "sql": "SELECT country, shop, sum(v) AS s, count(*) AS c, count(v), min(v), "
     "max(v) GROUP BY ALL"},
    {"name": "countries", "sql": "SELECT country, day, sum(v) AS s, count(*) AS c, count(v) "
     "GROUP BY ALL"},
    {"name": "known", "sql": "SELECT country, sum(v) AS s, count(*) AS c, count(v) "
     "WHERE country IS NOT NULL GROUP BY ALL"},
]  # fmt: skip
START = datetime(2026, 1, 1)
COUNTRIES = ["FR", "DE", "US", "é", "", "ZZ"]


def rows_of(rng, *, doubled=False, empty=False):
    """Return the tables of one star; a doubled key is in `places` or `shops`."""
    some = rng.choice
    edits = [
        {
            "time": START + timedelta(hours=rng.randrange(60)),
            "country": some([*COUNTRIES, None]),
            "shop": some([None, *range(-2, 7)]),
            "price_class": some([None, Decimal("1.00"), Decimal("2.50"), Decimal("3.99")]),
            "day": some([None, date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 5)]),
            "v": some([None, *range(-5, 30)]),
            "name": some(["n1", "n2", None]),
        }
        for _ in range(rng.randrange(30, 90))
    ]
    codes = rng.sample(COUNTRIES, rng.randrange(0 if empty else 2, 6))
    places = [
        {
            "code": code,
            "region": some(["eu", "am", None]),
            "zone": some([None, 1, 2, 3, 9]),
            "name": some(["n1", "n3", None]),
        }
        for code in [*codes, None, None]
    ]
    zones = [
        {"id": number, "label": some(["l1", "l2", None]), "weight": some([None, 0, 2, 5])}
        for number in [*rng.sample(range(5), rng.randrange(5)), None]
    ]
    shops = [
        {
            "shop": number,
            "class": some([None, Decimal("1.000"), Decimal("2.500"), Decimal("2.501")]),
            "opened": some([None, date(2026, 1, 1), date(2026, 1, 2)]),
            "manager": some([None, 0, 1, 5, 8]),
            "active": some([True, False, None]),
        }
        for number in rng.sample(range(-1, 10), rng.randrange(1, 9))
    ]
    if empty:
        shops = []
    if doubled and shops:
        shops.append({**shops[0], "active": not shops[0]["active"]})
    made = {"edits": edits, "places": places, "zones": zones, "shops": shops}
    return {name: pa.Table.from_pylist(rows, SCHEMAS[name]) for name, rows in made.items()}


class Star:
    """A random statement: its FROM, and the texts that may be asked over it."""

    def __init__(self, rng):
        self.rng = rng
        self.keys = ["country", "e.day", "date_trunc('DAY', time)", "e.country"]
        self.sums = ["v"]
        self.conditions = ["v > 3", "country <> 'DE'", "e.name = 'n1'"]
        self.where = []
        self.parts = ["edits e"]
        chosen = rng.sample([self.places, self.shops, self.places_by_name], rng.randrange(1, 4))
        self.region = "d.region" if self.places_by_name in chosen else "region"
        for add in chosen:
            add(rng.choice)

    def kind(self, some):
        return some(["JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN"])

    def places(self, some):
        how = some(["join", "comma", "semi", "anti", "in"])
        condition = some(["", " AND d.region = 'eu'", " AND d.region IS NOT NULL"])
        if how == "semi":
            self.parts.append(f"{{semi}} JOIN places d ON e.country = d.code{condition}")
        elif how == "anti":
            self.parts.append(f"{{anti}} JOIN places d ON d.code = e.country{condition}")
        elif how == "in":
            where = some(["", " WHERE region = 'eu'", " WHERE region = 'am' AND zone > 1"])
            self.where.append(f"country IN (SELECT code FROM places{where})")
        else:
            if how == "comma" and len(self.parts) == 1:
                self.parts[0] = "places d, edits e"
                self.where.append("d.code = country")
            else:
                self.parts.append(f"{self.kind(some)} places d ON country = d.code{condition}")
            self.keys += [
                self.region,
                "d.code",
                f"upper({self.region})",
                "coalesce(d.name, e.name)",
            ]
            self.sums += ["v * d.zone", "d.zone", f"CASE WHEN {self.region} = 'eu' THEN v END"]
            self.conditions += [
                f"{self.region} = 'eu'",
                f"{self.region} IS NULL",
                "d.zone > 1 OR v = 2",
            ]
            if some([True, False]):
                kind = self.kind(some)
                self.parts.append(f"{kind} zones z ON d.zone = z.id")
                self.keys += ["label", f"{self.region} || '-' || label", "z.id"]
                self.sums += ["weight", "v * weight"]
                self.conditions += ["z.label = 'l1'", "weight < 5"]

    def shops(self, some):
        kind = self.kind(some)
        if some([True, True, False]):
            key = some(["e.shop = s.shop", "s.shop = e.shop AND s.shop >= 0", "USING"])
            join = "USING (shop)" if key == "USING" else f"ON {key}"
            self.parts.append(f"{kind} shops s {join}")
        else:
            both = "e.shop = s.shop AND price_class = s.class"
            self.parts.append(f"{kind} shops s ON {some([both, both + ' AND e.day = s.opened'])}")
        self.keys += ["s.active", "s.opened", "s.class"]
        self.sums += ["s.manager", "v + s.manager"]
        self.conditions += ["s.active", "NOT s.active", "s.manager = 1"]
        if some([True, False]):
            self.parts.append(f"{self.kind(some)} shops m ON s.manager = m.shop")
            self.keys += ["m.active", "m.class"]
            self.conditions += ["m.active IS NULL", "m.manager < s.manager"]

    def places_by_name(self, some):
        self.parts.append(f"{self.kind(some)} places o ON e.country || '' = o.code AND o.zone > 0")
        self.keys += ["o.region"]
        self.conditions += ["o.region = 'am'", "o.code = country"]

    def texts(self):
        """Return a statement in Spark's SQL and in DuckDB's."""
        rng = self.rng
        where = self.where + rng.sample(self.conditions, rng.choice([0, 0, 1, 1, 2]))
        tail = (
            f" WHERE {' AND '.join(f'({one})' if ' OR ' in one else one for one in where)}"
            if where
            else ""
        )
        keys = rng.sample(sorted(set(self.keys)), rng.choice([0, 1, 1, 2]))
        sums = rng.sample(sorted(set(self.sums)), min(len(set(self.sums)), rng.choice([1, 2])))
        outputs = [f"{key} AS k{n}" for n, key in enumerate(keys)]
        outputs += ["count(*) AS c", *(f"sum({one}) AS s{n}" for n, one in enumerate(sums))]
        if rng.random() < 0.3:
            condition = rng.choice(self.conditions)
            outputs.append(f"count(*) FILTER (WHERE {condition}) AS f")
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = " HAVING count(*) > 1" if keys and rng.random() < 0.2 else ""
        if rng.random() < 0.1:
            outputs, grouped, having = (
                ["e.v", "e.country", *(f"{k} AS k{n}" for n, k in enumerate(keys))],
                "",
                "",
            )
        text = f"SELECT {', '.join(outputs)} FROM {' '.join(self.parts)}{tail}{grouped}{having}"
        return text.format(semi="LEFT SEMI", anti="LEFT ANTI"), text.format(
            semi="SEMI", anti="ANTI"
        )
