"""Random tables whose columns have clauses, and random statements that change their rows.

What a statement does is found by a SELECT of Spark over the rows as they were, joined by hand; what
storing a value in a column does is found here: lengths, padding, nulls.
"""

from __future__ import annotations

import decimal
import random
from dataclasses import dataclass, field

TEXTS = ["'a'", "'A'", "'ab'", "'b  '", "''", "'äß'", "'it''s'", "'abcdef'", "NULL"]
WHOLE = ["0", "1", "-1", "7", "100", "32767", "NULL"]
VALUES = {
    "smallint": WHOLE,
    "int": [*WHOLE, "2147483647"],
    "bigint": [*WHOLE, "2147483648"],
    "double": ["0D", "-0D", "1.5D", "double('NaN')", "double('Infinity')", "NULL"],
    "decimal(6,2)": ["0.00BD", "1.50BD", "-9999.99BD", "NULL"],
    "string": TEXTS,
    "string collate utf8_lcase": [f"{text} COLLATE UTF8_LCASE" for text in TEXTS],
    "varchar(4)": TEXTS,
    "char(3)": TEXTS,
    "boolean": ["true", "false", "NULL"],
    "date": ["DATE'2024-02-29'", "DATE'1969-12-31'", "NULL"],
    "timestamp_ltz": ["TIMESTAMP_LTZ'2024-01-01 00:00:00.000001'", "NULL"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'2024-03-31 02:30:00'", "NULL"],
    "binary": ["X'00FF'", "X''", "NULL"],
    "array<int>": ["array(1, NULL)", "CAST(array() AS array<int>)", "NULL"],
    "map<string,int>": ["map('a', 1)", "NULL"],
    "struct<a:int,b:string>": ["named_struct('a', 1, 'b', 'x')", "NULL"],
}
NUMBERS = ["smallint", "int", "bigint", "decimal(6,2)", "double"]
OF_TEXT = ("string", "varchar(4)", "char(3)")
# What Spark may say of a value; of several that are wrong, any may come first.
CONDITIONS = (
    "INCOMPATIBLE_DATA_FOR_TABLE",
    "NOT_NULL_ASSERT_VIOLATION",
    "EXCEED_LIMIT_LENGTH",
    "CAST_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "ARITHMETIC_OVERFLOW",
    "MERGE_CARDINALITY_VIOLATION",
)
NESTED = ("array<int>", "map<string,int>", "struct<a:int,b:string>")


@dataclass(frozen=True)
class Column:
    """A column of a table, with its clauses."""

    name: str
    type: str
    has_nulls: bool = True
    default: str | None = None

    @property
    def ddl(self):
        clauses = "" if self.has_nulls else " NOT NULL"
        return f"{self.name} {self.type}{clauses}" + (
            f" DEFAULT {self.default}" if self.default else ""
        )

    def literal(self, dice):
        return f"CAST({dice.choice(VALUES[self.type])} AS {self.plain})"

    @property
    def plain(self):
        """The type without a length, which a CAST to it would apply."""
        return "string" if self.type in OF_TEXT else self.type

    def stored(self, value):
        """Return a value as the table stores it, or the condition of Spark's error."""
        if value is None and not self.has_nulls:
            raise Refused("NOT_NULL_ASSERT_VIOLATION")
        if value is None or self.type not in ("varchar(4)", "char(3)"):
            return value
        length = 4 if self.type == "varchar(4)" else 3
        if len(value) > length:
            value = value.rstrip(" ").ljust(length) if len(value.rstrip(" ")) <= length else None
        if value is None:
            raise Refused("EXCEED_LIMIT_LENGTH")
        return value.ljust(3) if self.type == "char(3)" else value


class Refused(Exception):
    """What Spark is to refuse, by its error's condition."""


@dataclass
class Life:
    """A table, its rows as they should be, and a source of dice."""

    spark: object
    name: str
    dice: random.Random
    columns: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    kinds: list = field(default_factory=list)
    constants: list = field(default_factory=list)
    is_storable: bool = True

    # ---- the table

    def create(self, place):
        dice = self.dice
        types = dice.sample(sorted(VALUES), dice.randint(3, 5))
        self.columns = [Column("id", "int"), Column("ts", "timestamp_ltz", has_nulls=False)]
        for number, type_ in enumerate(types):
            default = (
                dice.choice(VALUES[type_]) if type_ not in NESTED and dice.random() < 0.5 else None
            )
            if default and "COLLATE" in default:
                default = default.split(" COLLATE")[0]
            if default and type_ == "char(3)":
                default = "'zz'"
            if default and type_ == "varchar(4)":
                default = "'q'"
            has_nulls = dice.random() < 0.7 or default == "NULL"
            self.columns.append(Column(f"c{number}", type_, has_nulls, default))
        listed = ", ".join(column.ddl for column in self.columns)
        self.spark.sql(f"CREATE TABLE {self.name}_twin ({listed}) USING parquet")
        granularity = dice.choice(["day", "all"])
        self.spark.sql(
            f"CREATE TABLE {self.name} ({listed}) USING projseg LOCATION '{place}' "
            f"TBLPROPERTIES ('timeColumn' = 'ts', 'segmentGranularity' = '{granularity}')"
        )

    def insert(self):
        chosen = [c for c in self.columns[2:] if c.default is None or self.dice.random() < 0.6]
        named = [*self.columns[:2], *chosen]
        new = []
        for _ in range(self.dice.randint(2, 5)):
            number = max((row[0] for row in self.rows), default=0) + len(new) + 1
            values = [str(number), f"TIMESTAMP_LTZ'2024-01-0{self.dice.randint(1, 3)} 10:00:00'"]
            new.append(values + [column.literal(self.dice) for column in chosen])
        listed = ", ".join("(" + ", ".join(row) + ")" for row in new)
        names = ", ".join(column.name for column in named)
        given = dict(zip([c.name for c in named], zip(*new, strict=True), strict=True))
        parts = [
            [given[c.name][at] if c.name in given else self.default_of(c) for c in self.columns]
            for at in range(len(new))
        ]
        selects = " UNION ALL ".join(f"SELECT {self.aliased(part)}" for part in parts)
        return (
            f"INSERT INTO {self.name} ({names}) VALUES {listed}",
            lambda: self.rows + self.asked(selects),
        )

    def drop(self):
        for name in (self.name, f"{self.name}_twin"):
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")

    # ---- statements, each with what it leaves

    def delete(self):
        condition, oracle = self.condition("t")
        rows = f"SELECT * FROM old t WHERE NOT coalesce({oracle}, false)"
        return f"DELETE FROM {self.name} AS t WHERE {condition}", lambda: self.asked(
            rows, is_new=False
        )

    def update(self):
        condition, oracle = self.condition("t")
        sets = self.values(self.dice.sample(self.columns[2:], self.dice.randint(1, 2)), "t")
        if self.dice.random() < 0.2:
            sets["ts"] = ("t.ts + INTERVAL 1 DAY",) * 2
        listed = ", ".join(f"{name} = {text}" for name, (text, _) in sets.items())
        new = [sets[c.name][1] if c.name in sets else f"t.{c.name}" for c in self.columns]
        left = f"SELECT * FROM old t WHERE NOT coalesce({oracle}, false)"
        changed = f"SELECT {self.aliased(new)} FROM old t WHERE {oracle}"
        statement = f"UPDATE {self.name} AS t SET {listed} WHERE {condition}"
        return statement, lambda: self.asked(left, is_new=False) + self.asked(changed)

    def merge(self):
        matched = self.dice.choice(["update", "update", "update", "delete", "none"])
        inserts = self.dice.random() < 0.7 or matched == "none"
        by_source = self.dice.choice(["none", "none", "delete", "update"])
        extra = self.dice.choice(["", "", " AND s.x > 2"])
        source = self.source()
        on, oracle = self.keys()
        pairs = f"old t JOIN ({source}) s ON {oracle}"
        done = [
            self.when_matched(matched, pairs, extra),
            self.when_not_matched(f"({source}) s LEFT ANTI JOIN old t ON {oracle}", extra)
            if inserts
            else ("", []),
            self.by_source(by_source, f"old t LEFT ANTI JOIN ({source}) s ON {oracle}"),
        ]
        clauses = " ".join(clause for clause, _ in done)
        statement = f"MERGE INTO {self.name} AS t USING ({source}) AS s ON {on} {clauses}"
        is_checked = matched == "update" or (matched == "delete" and extra)
        twice = f"SELECT t.nth FROM {pairs} GROUP BY t.nth HAVING count(*) > 1"

        def expected():
            if is_checked and self.spark.sql(twice.replace("old t", "numbered t")).collect():
                raise Refused("MERGE_CARDINALITY_VIOLATION")
            parts = [part for _, some in done for part in some]
            return [row for text, is_new in parts for row in self.asked(text, is_new=is_new)]

        return statement, expected

    def when_matched(self, what, pairs, extra):
        """Return a clause, and SELECTs of the rows it leaves, each with whether they are new."""
        if what == "none":
            return "", [(f"SELECT t.* FROM {pairs.replace('JOIN', 'LEFT SEMI JOIN')}", False)]
        stay = [(f"SELECT t.* FROM {pairs} WHERE NOT coalesce(s.x > 2, false)", False)]
        left = stay if extra else []
        if what == "delete":
            return f"WHEN MATCHED{extra} THEN DELETE", left
        sets = self.values(self.dice.sample(self.columns[2:], self.dice.randint(1, 2)), "t")
        if self.dice.random() < 0.3:
            sets["id"] = ("t.id + s.x * 1000",) * 2
        listed = ", ".join(f"{name} = {text}" for name, (text, _) in sets.items())
        new = [sets[c.name][1] if c.name in sets else f"t.{c.name}" for c in self.columns]
        changed = f"SELECT {self.aliased(new)} FROM {pairs} WHERE true{extra}"
        return f"WHEN MATCHED{extra} THEN UPDATE SET {listed}", [(changed, True), *left]

    def when_not_matched(self, rows, extra):
        chosen = [c for c in self.columns[2:] if c.default is None or self.dice.random() < 0.5]
        new = {"id": ("s.x * 100",) * 2, "ts": ("TIMESTAMP_LTZ'2024-01-02'",) * 2}
        new |= self.values(chosen, None)
        given = ", ".join(text for text, _ in new.values())
        clause = f"WHEN NOT MATCHED{extra} THEN INSERT ({', '.join(new)}) VALUES ({given})"
        values = [new[c.name][1] if c.name in new else self.default_of(c) for c in self.columns]
        return clause, [(f"SELECT {self.aliased(values)} FROM {rows} WHERE true{extra}", True)]

    def by_source(self, what, rows):
        if what == "none":
            return "", [(f"SELECT t.* FROM {rows}", False)]
        left = [(f"SELECT t.* FROM {rows} WHERE NOT coalesce(t.id % 2 = 0, false)", False)]
        clause = "WHEN NOT MATCHED BY SOURCE AND t.id % 2 = 0 THEN"
        if what == "delete":
            return f"{clause} DELETE", left
        new = ["t.id + 1", *(f"t.{c.name}" for c in self.columns[1:])]
        changed = f"SELECT {self.aliased(new)} FROM {rows} WHERE t.id % 2 = 0"
        return f"{clause} UPDATE SET id = t.id + 1", [*left, (changed, True)]

    def replace(self):
        """INSERT INTO … REPLACE WHERE, of some rows of the table itself."""
        condition = self.dice.choice(["id % 2 = 0", "id < 5", "id IS NOT NULL"])
        statement = (
            f"INSERT INTO {self.name} REPLACE WHERE {condition} "
            f"SELECT * FROM {self.name} WHERE {condition} AND id % 4 < 2"
        )
        rows = f"SELECT * FROM old WHERE NOT coalesce({condition}, false)"
        again = f"SELECT * FROM old WHERE {condition} AND id % 4 < 2"
        return statement, lambda: self.asked(rows, is_new=False) + self.asked(again)

    # ---- parts of them

    def source(self):
        known = [row[0] for row in self.rows] or [1]
        types = ["INT", "BIGINT", "DECIMAL(10,0)", "DOUBLE"]
        key = self.dice.choice([*types, *(["SMALLINT"] if max(known) < 30000 else [])])
        keys = self.dice.choices([*known, 500, "NULL"], k=self.dice.randint(1, 4))
        if self.dice.random() < 0.8:
            keys = list(dict.fromkeys(keys))
        texts = self.dice.choices(TEXTS, k=len(keys))
        listed = ", ".join(
            f"(CAST({one} AS {key}), {at + 1}, {text})"
            for at, (one, text) in enumerate(zip(keys, texts, strict=True))
        )
        return f"SELECT * FROM VALUES {listed} AS v (id, x, w)"

    def keys(self):
        lower = [c for c in self.columns if "collate" in c.type]
        if lower and self.dice.random() < 0.5:
            return (f"t.{lower[0].name} = s.w COLLATE UTF8_LCASE",) * 2
        padded = [c for c in self.columns if c.type == "char(3)"]
        if padded and self.dice.random() < 0.5:
            return (f"t.{padded[0].name} = rpad(s.w, 3, ' ')",) * 2
        return (self.dice.choice(["t.id = s.id", "s.id = t.id AND t.id > 0", "t.id <=> s.id"]),) * 2

    def condition(self, alias):
        column = self.dice.choice(self.columns)
        name = f"{alias}.{column.name}"
        subquery = "SELECT c FROM VALUES (1), (3), (NULL) AS v (c)"
        forms = [
            f"{name} IS NOT NULL",
            f"{alias}.id % 3 = 1",
            f"{alias}.id IN ({subquery})",
            f"{name} IS NULL",
        ]
        forms += [f"{alias}.id NOT IN ({subquery} WHERE c IS NOT NULL)"]
        forms += [f"EXISTS (SELECT 1 FROM VALUES (2), (4) AS v (c) WHERE v.c = {alias}.id)"]
        text = self.dice.choice(forms)
        if self.dice.random() < 0.5 and column.type not in NESTED:
            value = self.dice.choice(VALUES[column.type])
            text = f"{name} {self.dice.choice(['=', '<=>', '>', '<>'])} {value}"
            if column.type == "char(3)" and value != "NULL":
                return text, text.replace(
                    value, f"rpad({value}, greatest(3, length({value})), ' ')"
                ).replace(name, f"rpad({name}, greatest(3, length({value})), ' ')")
        return text, text

    def values(self, columns, alias):
        """Return for each column the text of a value, and what the oracle computes for it."""
        found = {}
        for column in columns:
            text = column.literal(self.dice)
            if self.dice.random() < 0.2 and column.default:
                found[column.name] = ("DEFAULT", self.default_of(column))
                continue
            if self.dice.random() < 0.3:
                text = self.of_another_type(column)
            elif self.dice.random() < 0.3 and alias and column.type in OF_TEXT:
                text = f"concat({alias}.{column.name}, 'x')"
            elif self.dice.random() < 0.3 and alias:
                text = f"{alias}.{column.name}"
            found[column.name] = (text, text)
            if f"{alias}." not in text:
                self.constants.append((column, text))
        return found

    def of_another_type(self, column):
        """Return a value of another type, most often one that the column may store."""
        near = NUMBERS if column.type in NUMBERS else sorted(VALUES)
        given = self.dice.choice(near if self.dice.random() < 0.8 else sorted(VALUES))
        plain = "string" if given in OF_TEXT else given
        text = f"CAST({self.dice.choice(VALUES[given])} AS {plain})"
        insert = f"EXPLAIN INSERT INTO {self.name}_twin ({column.name}) SELECT {text}"
        if "INCOMPATIBLE_DATA_FOR_TABLE" in str(self.spark.sql(insert).collect()):
            self.is_storable = False
        return text

    def is_foldable(self):
        """Whether no constant is wrong: Spark may refuse one though no row needs it."""
        try:
            for column, text in self.constants:
                value = self.spark.sql(f"SELECT CAST({text} AS {column.plain})").first()[0]
                if value is not None:
                    column.stored(value)
        except Exception:  # noqa: BLE001 - of Spark, or ours
            return False
        return True

    def default_of(self, column):
        return f"CAST({column.default or 'NULL'} AS {column.plain})"

    def aliased(self, values):
        return ", ".join(
            f"CAST({value} AS {column.plain}) AS {column.name}"
            for value, column in zip(values, self.columns, strict=True)
        )

    def asked(self, text, *, is_new=True):
        """Return the rows of a SELECT over `old`, as the table would store them if they are new."""
        rows = [list(row) for row in self.spark.sql(text).collect()]
        if is_new:
            rows = [
                [column.stored(value) for column, value in zip(self.columns, row, strict=True)]
                for row in rows
            ]
        return rows

    # ---- a step

    def remember(self):
        """Make `old` and `numbered` the rows as they should be."""
        from pyspark.sql.types import LongType, StructField, StructType

        schema = self.spark.table(self.name).schema
        fields = [StructField(one.name, one.dataType) for one in schema]
        numbered = [[*row, at] for at, row in enumerate(self.rows)]
        frame = self.spark.createDataFrame(
            numbered, StructType([*fields, StructField("nth", LongType())])
        )
        frame.createOrReplaceTempView("numbered")
        frame.drop("nth").createOrReplaceTempView("old")

    def step(self):
        """Run a random statement; compare the table with what it should be."""
        kinds = [self.delete, self.update, self.update, self.merge, self.merge, self.merge]
        kind = self.dice.choice([*kinds, self.insert, self.replace])
        self.remember()
        self.constants.clear()
        self.is_storable = True
        statement, expected = kind()
        wanted = refused = failure = None
        try:
            if not self.is_storable:
                raise Refused("INCOMPATIBLE_DATA_FOR_TABLE")
            wanted = expected()
        except Refused as error:
            refused = str(error)
        except Exception as error:  # noqa: BLE001 - Spark's own, of a value
            refused = error.getCondition() or type(error).__name__
        try:
            self.spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - compared below
            failure = str(error)
        if failure and not refused and not self.is_foldable():
            refused = "a constant"
        self.kinds.append(f"{kind.__name__}{' refused' if refused else ''}")
        assert (failure is None) == (refused is None), (self.ddl(), statement, refused, failure)
        if refused:
            is_known = any(condition in failure for condition in CONDITIONS)
            assert is_known, (self.ddl(), statement, refused, failure)
        else:
            self.rows = wanted
        found = [tuple(row) for row in self.spark.table(self.name).collect()]
        assert in_order(found) == in_order(map(tuple, self.rows)), (self.ddl(), statement)

    def ddl(self):
        return ", ".join(column.ddl for column in self.columns)


def in_order(rows):
    return sorted(map(repr, (tuple(map(plain, row)) for row in rows)))


def plain(value):
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    return bytes(value) if isinstance(value, bytearray) else value
