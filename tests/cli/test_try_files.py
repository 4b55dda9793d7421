"""`projseg try` over drawn files: its answers are DuckDB's, and what it cannot read is named."""

import json
import random
import re
import shlex
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scale import tries
from typer.testing import CliRunner

import projseg
from projseg.cli import app, try_files
from projseg.cli.guessed_questions import GuessedQuestion, guessed_questions, time_of

START = datetime(2024, 3, 1)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return CliRunner().invoke(app, ["try", *map(str, words)])


def results(done):
    assert done.exit_code == 0, done.output + str(done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()]


def column(draw, kind, count):
    """Return a drawn column of a kind."""
    few = draw.randrange(2, 30)
    values = {
        "word": lambda: f"{'äb c'[draw.randrange(4)]}{draw.randrange(few)}",
        "flag": lambda: draw.random() < 0.3,
        "small": lambda: draw.randrange(few),
        "id": lambda: draw.randrange(10**9),
        "whole": lambda: draw.randrange(-5000, 5000),
        "price": lambda: round(draw.uniform(0, 500), 2),
        "cents": lambda: Decimal(draw.randrange(10**6)).scaleb(-2),
        "text": lambda: f"row {draw.randrange(10**9)}",
        "day": lambda: date(2024, 1, 1) + timedelta(days=draw.randrange(90)),
        "moment": lambda: START + timedelta(seconds=draw.randrange(86_400 * few)),
    }[kind]
    nulls = draw.choice([0, 0, 0.1]) if kind not in ("moment", "day") else 0
    found = [None if draw.random() < nulls else values() for _ in range(count)]
    types = {
        "moment": pa.timestamp("us", draw.choice([None, "UTC"])), "day": pa.date32(),
        "cents": pa.decimal128(12, 2), "flag": pa.bool_(), "price": pa.float64(),
        "word": pa.string(), "text": pa.string(),
    }  # fmt: skip
    return pa.array(found, types.get(kind, pa.int64()))


NAMES = ["channel", "a b", "it's", 'say "x"', "group", "t`ick", "Größe", "sum", "n.o"]
KINDS = ["word", "flag", "small", "id", "whole", "price", "cents", "text", "day"]


def drawn_rows(draw):
    count = draw.randrange(200, 1500)
    kinds = ["word", *draw.choices(KINDS, k=draw.randrange(1, 6))]
    names = draw.sample(NAMES, len(kinds))
    columns = {name: column(draw, kind, count) for name, kind in zip(names, kinds, strict=True)}
    if draw.random() < 0.8:
        columns["happened_at"] = column(draw, "moment", count)
    return pa.table(columns)


def write(rows, path):
    if path.endswith(".parquet"):
        pa.parquet.write_table(rows, path)
    elif path.endswith(".csv"):
        pa.csv.write_csv(rows, path)
    else:
        with open(path, "w", encoding="utf-8") as file:
            for row in rows.to_pylist():
                plain = {
                    name: value.isoformat()
                    if isinstance(value, date)
                    else float(value)
                    if isinstance(value, Decimal)
                    else value
                    for name, value in row.items()
                }
                file.write(json.dumps(plain) + "\n")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("seed", range(max(1, tries(10) // 5)))
def test_drawn_files_are_answered_as_duckdb_answers_them(seed, ending):
    pytest.importorskip("duckdb")
    draw = random.Random(f"{seed} {ending}")
    rows = drawn_rows(draw)
    half = len(rows) // 2
    write(rows.slice(0, half), f"a.{ending}")
    write(rows.slice(half), f"b.{ending}")
    found = results(run(f"a.{ending}", f"b.{ending}", "-o", "json"))
    assert found
    assert all(row["same_answer"] for row in found), found
    assert all(row["duckdb_agrees"] for row in found), found
    table = projseg.Table("projseg-try")
    assert table.snapshot.row_count == len(rows)
    for row in found:
        table.sql(row["sql"])


def orders(count=2000, seed=3):
    draw = random.Random(seed)
    return pa.table(
        {
            "order_id": range(count),
            "ordered_at": column(draw, "moment", count),
            "country": [draw.choice(["DE", "US", "FR"]) for _ in range(count)],
            "product": [f"p{draw.randrange(40)}" for _ in range(count)],
            "quantity": [draw.randrange(100) for _ in range(count)],
        }
    )


def test_a_folder_is_loaded_advised_asked_and_kept(tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(3):
        write(orders(500, number), f"data/{number}.csv")
    done = run("data", "-o", "json")
    assert len(results(done)) == 6
    table = projseg.Table("projseg-try")
    assert table.snapshot.row_count == 1500
    assert table.properties.time_column == "ordered_at"
    assert table.properties.projections
    stored = table.projection_stats().to_pylist()
    assert all(row["built"] == len(table.segments()) for row in stored)
    assert "DuckDB's answers to 6 questions are the same" in done.stderr
    commands = [line.strip() for line in done.stderr.splitlines() if line.startswith("  projseg ")]
    assert len(commands) == 3
    for command in commands:
        _, *words = shlex.split(command)
        assert CliRunner().invoke(app, words).exit_code == 0
    assert results(run("data", "-o", "json"))  # in place of the earlier one


def test_the_screen_has_80_columns():
    write(orders(), "orders.parquet")
    done = run("orders.parquet", "-o", "table")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("by " in line for line in lines) >= 6
    assert len(lines) + len(done.stderr.splitlines()) <= 34


def test_another_folder_is_left_alone(tmp_path):
    write(orders(50), "orders.csv")
    (tmp_path / "projseg-try").mkdir()
    done = run("orders.csv")
    assert "PROJSEG_TABLE_EXISTS" in str(done.exception)
    projseg.Table.create("mine", {"a": "int"})
    assert "PROJSEG_TABLE_EXISTS" in str(run("orders.csv", "--location", "mine").exception)
    assert projseg.Table("mine").version == 0


def test_lines_that_are_no_rows_are_named():
    write(orders(300), "orders.csv")
    with open("orders.csv", "a") as file:
        file.write('301,2024-03-09 10:00:00,"DE","p1",many\n302,"x"\n')
    done = run("orders.csv", "--type", "quantity=bigint", "-o", "json")
    assert len(results(done)) > 3
    assert "2 lines were left out" in done.stderr
    assert "orders.csv, line 302: column 'quantity' does not fit bigint ('many')" in done.stderr
    assert "--type quantity=..." in done.stderr
    assert "not compared with DuckDB: 2 lines were left out" in done.stderr


def test_a_file_of_other_things_is_refused(monkeypatch):
    monkeypatch.setattr(try_files, "_BAD_MIN", 20)
    write(orders(5000), "orders.csv")
    with open("orders.csv", "a") as file:
        file.write("nothing\n" * 3000)
    error = str(run("orders.csv").exception)
    assert "PROJSEG_BAD_INPUT_FILE" in error
    assert "orders.csv, line 5002" in error


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.csv", "", "PROJSEG_BAD_INPUT_FILE"),
        ("a.csv", "x,y\n", "PROJSEG_BAD_INPUT_FILE"),
        ("a.txt", "x\n1\n", "PROJSEG_UNKNOWN_FILE_TYPE"),
        ("a.parquet", "PAR1", "PROJSEG_BAD_INPUT_FILE"),
        ("-", "", "PROJSEG_BAD_ARGUMENT"),
    ],
)
def test_what_cannot_be_read_is_refused(name, text, code):
    if name != "-":
        with open(name, "w") as file:
            file.write(text)
    assert code in str(run(name).exception)


def test_numbers_since_1970_are_times_where_their_name_says_so():
    rows = orders(400)
    seconds = rows["ordered_at"].cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    write(rows.set_column(1, "event_ts", seconds), "orders.csv")
    done = run("orders.csv", "-o", "json")
    assert any("event_ts" in row["sql"] for row in results(done))
    table = projseg.Table("projseg-try")
    assert table.properties.time_column == "event_ts"
    assert table.query(aggregators="min(event_ts) AS t").to_pylist()[0]["t"].year == 2024


def test_texts_of_times_in_json_are_times_where_their_name_says_so():
    rows = [
        {"time": f"2015-09-12T00:{n % 60:02}:58.771Z", "page": f"p{n % 9}", "metroCode": 7}
        | {"added": n, "delta": None if n % 3 else n}
        for n in range(600)
    ]
    Path("edits.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("edits.json", "-o", "json")
    assert results(done)[0]["sql"].startswith(
        "SELECT date_trunc('MINUTE', time), count(*), sum(added)"
    )
    assert all(row["duckdb_agrees"] for row in results(done))
    assert projseg.Table("projseg-try").properties.time_column == "time"


def test_a_time_that_is_empty_later_is_no_time_column(monkeypatch):
    monkeypatch.setattr(try_files, "_PEEKED_ROWS", 10)
    write(orders(70_000), "a.csv")
    with open("b.csv", "w") as file:
        file.write("order_id,ordered_at,country,product,quantity\n1,,DE,p1,4\n")
    done = run("a.csv", "b.csv", "-o", "json")
    assert results(done)
    assert "'ordered_at' is empty in some rows" in done.stderr
    assert projseg.Table("projseg-try").properties.time_column is None


def test_a_sample_of_large_files_is_said_so(monkeypatch):
    monkeypatch.setattr(try_files, "_BYTES_MAX", 100_000)
    for name in "abc":
        write(orders(2500), f"{name}.csv")
    done = run("a.csv", "b.csv", "c.csv", "-o", "json")
    assert results(done)
    assert "of the files" in done.stderr
    assert "only a sample was loaded" in done.stderr
    assert projseg.Table("projseg-try").snapshot.row_count < 7500


def test_columns_without_groups_or_numbers_still_make_a_question():
    rows = pa.table({"text": [f"row {n}" for n in range(100)]})
    write(rows, "a.csv")
    (found,) = results(run("a.csv", "-o", "json"))
    assert found["sql"] == "SELECT count(*) FROM t"


def test_the_column_of_times_is_guessed():
    moments = [START, START]
    rows = pa.table({"born": [date(2000, 1, 1)] * 2, "x": moments, "created_at": moments})
    assert time_of(rows).column == "created_at"
    assert time_of(rows.drop_columns("created_at")).column == "x"
    assert time_of(rows.select(["born"])).column == "born"
    assert time_of(pa.table({"created": pa.array([None, START])})).column is None
    assert time_of(pa.table({"ts": [1_700_000_000_000]})) == ("ts", "ms")
    assert time_of(pa.table({"ts": [17]})).column is None
    assert time_of(pa.table({"time": ["2024-05-01T10:00:00.123Z", "noon"]})).column is None
    assert time_of(pa.table({"n": [1_700_000_000]})).column is None


def test_questions_are_written_for_both_engines():
    question = GuessedQuestion((("DAY", "at"), ("", 'a"b')), (("sum", "n"),), ("it's", "x'y"))
    assert question.sql() == (
        "SELECT date_trunc('DAY', at), `a\"b`, sum(n) FROM t WHERE `it's` = 'x\\'y' "
        "GROUP BY date_trunc('DAY', at), `a\"b`"
    )
    assert question.duckdb_sql("f") == (
        'SELECT date_trunc(\'DAY\', "at"), "a""b", sum("n") FROM f WHERE "it\'s" = \'x\'\'y\' '
        'GROUP BY date_trunc(\'DAY\', "at"), "a""b"'
    )


def test_ids_are_not_added_up_where_there_are_other_numbers():
    rows = pa.table({"user_id": range(1000), "price": [n / 7 for n in range(1000)]})
    assert guessed_questions(rows, None, None)[0].measures[1] == ("sum", "price")


def test_what_an_error_advises_is_an_option_of_the_verb(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "y.csv").write_text("a,c\n1,2\n")
    done = run(tmp_path)
    error = str(done.exception)
    advised = re.findall(r"(import )?(--[a-z-]+)", error)
    options = CliRunner().invoke(app, ["try", "--help"], env={"COLUMNS": "200"}).output
    assert done.exit_code != 0
    assert ("import ", "--merge-schema") in advised
    assert all(option in options for verb, option in advised if not verb), error
