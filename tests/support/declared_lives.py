"""Random lives of tables by what is declared of their columns, with a model in plain Python.

A life makes a table of random columns, each a type with all its clauses, and takes steps: columns
change, rows come by name and by path, settings of the session change. The model says what each
statement does, or which words refuse it; afterwards rows, declaration and counts are as it says.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

import projseg

MOMENT = datetime(2024, 3, 31, 1, 30)
NAMES = ("n", "s", "b c", "Ü", "select", "x`y", "wide", "note", "t 0", "last")
SETTINGS = {
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.session.timeZone": ("UTC", "Asia/Tokyo", "America/New_York"),
    "spark.sql.storeAssignmentPolicy": ("ANSI", "STRICT"),
    "spark.sql.ansi.enabled": ("true", "false"),
}
"""Settings of the session and their values, the first of which is usual."""
NOT_NULL, TOO_LONG = "NOT_NULL_ASSERT_VIOLATION", "EXCEED_LIMIT_LENGTH"
NO_VALUE = "CANNOT_FIND_DATA|NOT_NULL|nullable"


@dataclass(frozen=True)
class Kind:
    """A type as it is declared, and values of it."""

    sql: str
    values: tuple[Any, ...]
    limit: int | None = None
    is_padded: bool = False
    strict_field: bool = False
    wider: str | None = None

    @property
    def simple(self) -> str:
        """The type of what is read."""
        if self.limit is not None:
            return "string"
        name = self.sql.replace(" NOT NULL", "").replace(": ", ":").replace(", ", ",").lower()
        return name.replace("utf8_lcase", "UTF8_LCASE")

    @property
    def stored(self) -> str:
        """The type without limits and collations; `TIMESTAMP` is what a session makes of it."""
        if self.limit is not None or self.sql.startswith("STRING"):
            return "STRING"
        name = self.sql.replace(" NOT NULL", "")
        return "TIMESTAMP_LTZ" if name == "TIMESTAMP" else name

    @property
    def is_nested(self) -> bool:
        return self.sql.startswith(("ARRAY", "MAP", "STRUCT"))

    def shown(self, value: Any) -> Any:
        """The value as Spark reads it."""
        return value.ljust(self.limit) if self.is_padded and value is not None else value

    def refusal(self, value: Any, nullable: bool) -> str | None:
        """Why a value cannot be written by name."""
        if value is None:
            return None if nullable else NOT_NULL
        if self.strict_field and value["a"] is None:
            return NOT_NULL
        return TOO_LONG if self.limit is not None and len(value) > self.limit else None


def text_kind(name: str, length: int) -> Kind:
    return Kind(f"{name}({length})", ("", "é", "q" * length), length, name == "CHAR")


KINDS = {
    one.sql: one
    for one in (
        Kind("TINYINT", (1, -7), wider="INT"),
        Kind("INT", (1, 2, 3, -(2**31)), wider="BIGINT"),
        Kind("BIGINT", (5, 2**62), wider="DECIMAL(20,0)"),
        Kind("FLOAT", (0.5, -1.25), wider="DOUBLE"),
        Kind("DOUBLE", (0.5, 1e300)),
        Kind("DECIMAL(9,2)", (Decimal("1.25"), Decimal("-7.00")), wider="DECIMAL(18,2)"),
        Kind("DECIMAL(18,2)", (Decimal("1.25"), Decimal("123456789012.50"))),
        Kind("DECIMAL(20,0)", (Decimal(3), Decimal(2**63))),
        Kind("BOOLEAN", (True, False)),
        Kind("STRING", ("", "a", "A")),
        Kind("STRING COLLATE UTF8_LCASE", ("", "zed", "ZED")),
        text_kind("VARCHAR", 4),
        text_kind("VARCHAR", 9),
        text_kind("CHAR", 3),
        Kind("BINARY", (b"", b"\x00\xff")),
        Kind("DATE", (date(1969, 12, 31), date(2024, 2, 29))),
        Kind("TIMESTAMP", (MOMENT.replace(tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC))),
        Kind("TIMESTAMP_NTZ", (MOMENT, datetime(1970, 1, 1))),
        Kind("ARRAY<INT>", ([], [1, None])),
        Kind("MAP<STRING, INT>", ({}, {"k": 1})),
        Kind("STRUCT<a: INT, b: STRING>", ({"a": 1, "b": "x"}, {"a": None, "b": None})),
        Kind(
            "STRUCT<a: INT NOT NULL, b: STRING>",
            ({"a": 1, "b": None}, {"a": 2, "b": "y"}),
            strict_field=True,
        ),
    )
}
WIDER = {"VARCHAR(4)": "VARCHAR(9)", "VARCHAR(9)": "STRING"}
WIDER |= {kind.sql: kind.wider for kind in KINDS.values() if kind.wider}


def literal(kind: Kind, value: Any) -> str:
    """Return a value as SQL of exactly its type."""
    if value is None:  # of a type, as the strict policy of assignments has it
        return f"CAST(NULL AS {kind.stored})"
    match kind.sql.split("(")[0].split("<")[0].split(" ")[0]:
        case "STRING" | "VARCHAR" | "CHAR":
            return f"'{value}'"
        case "BINARY":
            return f"X'{value.hex()}'"
        case "DATE":
            return f"DATE'{value}'"
        case "TIMESTAMP":
            return f"TIMESTAMP_LTZ'{value:%Y-%m-%d %H:%M:%S}Z'"
        case "TIMESTAMP_NTZ":
            return f"TIMESTAMP_NTZ'{value:%Y-%m-%d %H:%M:%S}'"
        case "ARRAY":
            items = ", ".join("NULL" if one is None else str(one) for one in value)
            return f"CAST(array({items}) AS ARRAY<INT>)"
        case "MAP":
            items = ", ".join(f"'{key}', {one}" for key, one in value.items())
            return f"CAST(map({items}) AS MAP<STRING, INT>)"
        case "STRUCT":
            a, b = literal(KINDS["INT"], value["a"]), literal(KINDS["STRING"], value["b"])
            parts = f"'a', CAST({a} AS INT), 'b', CAST({b} AS STRING)"
            return f"named_struct({parts})"
    return f"CAST('{value}' AS {kind.sql})"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass
class Column:
    """A column, as the catalog is to tell of it."""

    name: str
    kind: Kind
    nullable: bool = True
    default: tuple[str, Any] | None = None
    comment: str | None = None

    @property
    def clauses(self) -> str:
        """What stands behind the type."""
        default = "" if self.default is None else f" DEFAULT {self.default[0]}"
        comment = "" if self.comment is None else f" COMMENT '{self.comment}'"
        return ("" if self.nullable else " NOT NULL") + default + comment

    @property
    def declared(self) -> str:
        name = self.name if re.fullmatch(r"[a-zA-Z0-9_]+", self.name) else quoted(self.name)
        return f"{name} {self.kind.sql}{self.clauses}"


@dataclass
class Step:
    """A statement or a call, what is expected of it, and what it does to the model."""

    told: str
    run: Callable[[], Any]
    refusal: str | None = None
    effect: Callable[[], None] = lambda: None


@dataclass
class Life:
    """A table, and the model of it."""

    spark: Any
    seed: int
    folder: Any
    kinds: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.is_own = self.random.random() < 0.5
        self.name = f"{'lives.default.' if self.is_own else ''}life_{self.seed}"
        self.rows: list[dict[str, Any]] = []
        self.is_made = self.is_own
        self.settings = {name: usual for name, (usual, *_) in SETTINGS.items()}

    # ---- the life

    def live(self, steps: int) -> None:
        try:
            self.take(self.create())
            for _ in range(steps):
                self.take(self.step())
                self.check()
        except Exception as error:
            told = ";\n  ".join(self.told)
            raise AssertionError(f"life {self.seed}:\n  {told}\n{error}") from error
        finally:
            for name, (usual, *_) in SETTINGS.items():
                self.spark.conf.set(name, usual)
            self.spark.sql(f"DROP TABLE IF EXISTS {self.name}")

    def take(self, step: Step) -> None:
        self.told.append(step.told + (f"  -- refused: {step.refusal}" if step.refusal else ""))
        try:
            step.run()
        except Exception as error:
            if step.refusal is None or not re.search(step.refusal, str(error)):
                raise
            return
        if step.refusal is not None:
            raise AssertionError(f"this was not refused with {step.refusal}")
        step.effect()

    def sql(self, text: str, refusal: str | None = None, effect: Callable = lambda: None) -> Step:
        return Step(text, lambda: self.spark.sql(text).collect(), refusal, effect)

    # ---- its beginning

    def create(self) -> Step:
        kinds = self.random.sample(sorted(KINDS), self.random.randint(2, 4))
        names = self.random.sample(NAMES, len(kinds))
        self.columns = [Column("id", KINDS["INT"], self.random.random() < 0.6)]
        self.columns += [self.column(n, KINDS[k]) for n, k in zip(names, kinds, strict=True)]
        listed = ", ".join(
            f"{quoted(one.name)} {self.written(one.kind)}{one.clauses}" for one in self.columns
        )
        place = "" if self.is_own else f" LOCATION '{self.folder / self.name}'"
        return self.sql(
            f"CREATE TABLE {self.name} ({listed}) USING projseg{place} "
            "TBLPROPERTIES ('clusterBy' = 'id')"
        )

    def written(self, kind: Kind) -> str:
        """A type as a statement names it: the session says what TIMESTAMP is."""
        is_usual = self.settings["spark.sql.timestampType"] == "TIMESTAMP_LTZ"
        if kind.sql == "TIMESTAMP":
            return "TIMESTAMP" if is_usual else "TIMESTAMP_LTZ"
        if kind.sql == "TIMESTAMP_NTZ":
            return "TIMESTAMP_NTZ" if is_usual else "TIMESTAMP"
        return kind.sql

    def column(self, name: str, kind: Kind) -> Column:
        return Column(
            name,
            kind,
            nullable=self.random.random() < 0.6,
            default=self.new_default(kind) if self.random.random() < 0.4 else None,
            comment=self.random.choice([None, None, "a comment", "é"]),
        )

    def new_default(self, kind: Kind) -> tuple[str, Any] | None:
        if kind.strict_field:
            return None  # Spark wants the very nullability of its fields
        value = self.random.choice(kind.values)
        return literal(kind, value), value

    # ---- its steps

    def step(self) -> Step:
        ways = [self.insert] * 3 + [self.insert_some, self.insert_itself, self.set]
        ways += [self.write_by_path] * 3 + [self.add] * 3 + [self.drop, self.rename, self.widen]
        ways += [self.alter] * 3 + [self.delete] + [self.update, self.merge] * 2
        while True:
            way = self.random.choice(ways)
            if (found := way()) is not None:
                self.kinds[way.__name__ + (" refused" if found.refusal else "")] += 1
                return found

    def value(self, column: Column, odd: float = 0.15) -> Any:
        """A value to write, which now and then is one that the declaration refuses."""
        if self.random.random() < (odd if not column.nullable else 0.3):
            return None
        if column.kind.limit is not None and self.random.random() < odd:
            return "long" * 3
        if column.kind.strict_field and self.random.random() < odd:
            return {"a": None, "b": "z"}
        return self.random.choice(column.kind.values)

    def refusal(self, rows: list[dict[str, Any]]) -> str | None:
        found = {
            one.kind.refusal(row[one.name], one.nullable) for row in rows for one in self.columns
        }
        return "|".join(sorted(found - {None})) or None

    def add_rows(self, rows: list[dict[str, Any]]) -> Callable[[], None]:
        def effect() -> None:
            self.rows += [dict(row) for row in rows]
            self.is_made = True

        return effect

    def insert(self) -> Step:
        rows = [
            {one.name: self.value(one) for one in self.columns}
            for _ in range(self.random.randint(1, 2))
        ]
        texts = [
            "(" + ", ".join(literal(c.kind, row[c.name]) for c in self.columns) + ")"
            for row in rows
        ]
        text = f"INSERT INTO {self.name} VALUES {', '.join(texts)}"
        return self.sql(text, self.refusal(rows), self.add_rows(rows))

    def insert_some(self) -> Step:
        given = [one for one in self.columns if self.random.random() < 0.5] or self.columns[:1]
        row = {c.name: c.default[1] if c.default else None for c in self.columns}
        row |= {one.name: self.value(one, 0.05) for one in given}
        missing = [
            one for one in self.columns if one not in given and not one.nullable and not one.default
        ]
        names = ", ".join(quoted(one.name) for one in given)
        texts = ", ".join(literal(one.kind, row[one.name]) for one in given)
        text = f"INSERT INTO {self.name} ({names}) VALUES ({texts})"
        return self.sql(text, NO_VALUE if missing else self.refusal([row]), self.add_rows([row]))

    def insert_itself(self) -> Step | None:
        if not 0 < len(self.rows) < 8:
            return None
        text = f"INSERT INTO {self.name} SELECT * FROM {self.name}"
        return self.sql(text, self.refusal(self.rows), self.add_rows(self.rows))

    def write_by_path(self) -> Step | None:
        """Rows that nobody checks: nulls where none may be, and texts of any length."""
        if not self.is_made:
            return None
        rows = [{one.name: self.value(one, 0.4) for one in self.columns} for _ in range(2)]

        def run() -> None:
            table = projseg.Table(self.location)
            given = [
                {
                    n: list(v.items()) if self.is_map(n) and v is not None else v
                    for n, v in r.items()
                }
                for r in rows
            ]
            table.append(pa.Table.from_pylist(given, schema=table.schema))

        return Step(f"Table('{self.name}').append({rows})", run, None, self.add_rows(rows))

    def is_map(self, name: str) -> bool:
        return any(one.name == name and one.kind.sql.startswith("MAP") for one in self.columns)

    @property
    def location(self) -> str:
        if not self.is_own:
            return str(self.folder / self.name)
        told = self.spark.sql(f"DESCRIBE EXTENDED {self.name}").collect()
        return next(row.data_type for row in told if row.col_name == "Location")

    def others(self) -> Column:
        return self.random.choice(self.columns[1:])

    def add(self) -> Step | None:
        free = [name for name in NAMES if all(one.name != name for one in self.columns)]
        if not free:
            return None
        new = self.column(self.random.choice(free), KINDS[self.random.choice(sorted(KINDS))])
        new.nullable = True
        if new.kind.is_nested:
            new.default = None  # refused, as rows that are there have to have it

        def effect() -> None:
            self.columns.append(new)
            for row in self.rows:
                row[new.name] = new.default[1] if new.default else None
            self.is_made = True

        place, refusal = "", None
        if self.random.random() < 0.1:
            place, refusal = self.random.choice(
                [(" FIRST", "they come last"), (" NOT NULL", "NOT NULL")]
            )
        text = f"ALTER TABLE {self.name} ADD COLUMN {quoted(new.name)} {self.written(new.kind)}"
        return self.sql(text + (place if "NULL" in place else "") + new.clauses
                        + (place if "FIRST" in place else ""), refusal, effect)  # fmt: skip

    def drop(self) -> Step | None:
        if len(self.columns) < 3:
            return None
        gone = self.others()

        def effect() -> None:
            self.columns.remove(gone)
            for row in self.rows:
                del row[gone.name]
            self.is_made = True

        return self.sql(f"ALTER TABLE {self.name} DROP COLUMN {quoted(gone.name)}", None, effect)

    def rename(self) -> Step | None:
        free = [name for name in NAMES if all(one.name != name for one in self.columns)]
        column, new = self.others(), self.random.choice(free)
        old = column.name

        def effect() -> None:
            column.name = new
            self.rows = [{new if n == old else n: v for n, v in row.items()} for row in self.rows]
            self.is_made = True

        text = f"ALTER TABLE {self.name} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
        return self.sql(text, None, effect)

    def widen(self) -> Step | None:
        found = [one for one in self.columns[1:] if one.kind.sql in WIDER and not one.default]
        if not found:
            return None
        column = self.random.choice(found)
        wider = KINDS[WIDER[column.kind.sql]]
        number: Callable[[Any], Any] = {"DECIMAL(20,0)": Decimal}.get(wider.sql, lambda one: one)

        def effect() -> None:
            if column.kind.limit is None:
                self.is_made = True
            column.kind = wider
            for row in self.rows:
                row[column.name] = None if row[column.name] is None else number(row[column.name])

        text = f"ALTER TABLE {self.name} ALTER COLUMN {quoted(column.name)} TYPE {wider.sql}"
        return self.sql(text, None, effect)

    def alter(self) -> Step:
        """Change what only the catalog keeps."""
        column = self.others()
        default = self.new_default(column.kind)
        ways: list[tuple[str, dict[str, Any]]] = [
            ("COMMENT 'other'", {"comment": "other"}),
            ("DROP DEFAULT", {"default": None}),
            ("DROP NOT NULL", {"nullable": True}),
        ]
        if default is not None:
            ways.append((f"SET DEFAULT {default[0]}", {"default": default}))
        action, change = self.random.choice(ways)

        def effect() -> None:
            place = self.columns.index(column)
            self.columns[place] = replace(column, **change)

        text = f"ALTER TABLE {self.name} ALTER COLUMN {quoted(column.name)} {action}"
        return self.sql(text, None, effect)

    def set(self) -> Step:
        name = self.random.choice(sorted(SETTINGS))
        value = self.random.choice(SETTINGS[name])

        def effect() -> None:
            self.settings[name] = value

        return Step(f"SET {name}={value}", lambda: self.spark.conf.set(name, value), None, effect)

    # ---- changes of rows

    def delete(self) -> Step | None:
        if not self.is_made:
            return None
        column = self.others()
        where, is_hit = self.random.choice(
            [
                ("id = 1", lambda row: row["id"] == 1),
                ("id IS NULL", lambda row: row["id"] is None),
                *(
                    ()
                    if column.kind.is_nested or column.kind.limit or "COLLATE" in column.kind.sql
                    else [
                        (
                            f"{quoted(column.name)} IS NULL",
                            lambda row: row[column.name] is None,
                        )
                    ]
                ),
            ]
        )

        def effect() -> None:
            self.rows = [row for row in self.rows if not is_hit(row)]

        return self.sql(f"DELETE FROM {self.name} WHERE {where}", None, effect)

    def key(self) -> int:
        """An id, most often of a row that is there."""
        known = [row["id"] for row in self.rows if row["id"] is not None]
        return self.random.choice(known if known and self.random.random() < 0.8 else (1, 2, 3))

    def update(self) -> Step | None:
        if not self.is_made:
            return None
        column = self.others()
        value, key = self.value(column), self.key()
        hits = [row for row in self.rows if row["id"] == key]
        refusal = self.refusal_anew(hits, column, value)
        if not hits and refusal:
            return None

        def effect() -> None:
            for row in hits:
                row[column.name] = value

        text = (
            f"UPDATE {self.name} SET {quoted(column.name)} = {literal(column.kind, value)} "
            f"WHERE id = {key}"
        )
        return self.sql(text, refusal, effect)

    def refusal_anew(self, hits: list[dict[str, Any]], column: Column, value: Any) -> str | None:
        """What is said of rows that are stored anew, which may have come by path."""
        found = {column.kind.refusal(value, column.nullable)}
        found |= {
            NOT_NULL
            for row in hits
            for one in self.columns
            if one is not column and row[one.name] is None and not one.nullable
        }
        return "|".join(sorted(found - {None})) or None

    def merge(self) -> Step | None:
        if not self.is_made:
            return None
        column, key = self.others(), self.key()
        value = self.value(column)
        hits = [row for row in self.rows if row["id"] == key]
        new = {c.name: c.default[1] if c.default else None for c in self.columns}
        new |= {"id": key, column.name: value}
        missing = [c for c in self.columns if c.name not in ("id", column.name)]
        lacks = any(not c.nullable and not c.default for c in missing)
        refusal = self.refusal_anew(hits, column, value)
        if lacks and not hits:
            refusal = f"{NO_VALUE}|{NOT_NULL}|{TOO_LONG}"

        def effect() -> None:
            for row in hits:
                row[column.name] = value
            if not hits:
                self.rows.append(new)

        name = quoted(column.name)
        typed = literal(column.kind, value)
        text = (
            f"MERGE INTO {self.name} t USING (SELECT {key} AS id, {typed} AS {name}) s "
            f"ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.{name} = s.{name} "
            f"WHEN NOT MATCHED THEN INSERT (id, {name}) VALUES (s.id, s.{name})"
        )
        return self.sql(text, refusal, effect)

    # ---- what has to hold after each

    def check(self) -> None:
        self.check_rows()
        self.check_declaration()
        if self.random.random() < 0.4:
            self.check_counts()

    def check_rows(self) -> None:
        # With a limit the engine answers; without one Spark's tasks read.
        limit = " LIMIT 1000" if self.random.random() < 0.7 else ""
        read = self.spark.sql(f"SELECT * FROM {self.name}{limit}")
        types = [(one.name, one.dataType.simpleString(), one.nullable) for one in read.schema]
        assert types == [(one.name, one.kind.simple, True) for one in self.columns]
        found = [[plain(value) for value in row] for row in read.collect()]
        expected = [[plain(c.kind.shown(row[c.name])) for c in self.columns] for row in self.rows]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))

    def check_counts(self) -> None:
        """Of nulls, which nothing that is declared may hide."""
        column = self.random.choice(self.columns)
        name = quoted(column.name)
        asked = self.spark.sql(
            f"SELECT count(*), count({name}), count_if({name} IS NULL), "
            f"count(CASE WHEN {name} IS NOT NULL THEN 1 END) FROM {self.name}"
        )
        known = sum(row[column.name] is not None for row in self.rows)
        assert tuple(asked.first()) == (len(self.rows), known, len(self.rows) - known, known)
        is_plain = not column.kind.is_nested and "COLLATE" not in column.kind.sql
        if self.is_made and is_plain and not column.kind.is_padded:
            plan = asked._jdf.queryExecution().optimizedPlan().toString()
            assert "ProjsegAnswer" in plan, plan

    def check_declaration(self) -> None:
        text = self.spark.sql(f"SHOW CREATE TABLE {self.name}").first()[0]
        listed = text.split("(\n", 1)[1].split(")\nUSING")[0].split(",\n")
        found = [line.strip().replace(" COLLATE UTF8_BINARY", "") for line in listed]
        assert found == [column.declared for column in self.columns]


def plain(value: Any) -> Any:
    """Return a value as the model has it, whoever read it."""
    if hasattr(value, "asDict"):
        return value.asDict()
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    if isinstance(value, float) and value == 0:
        return 0.0
    return value
