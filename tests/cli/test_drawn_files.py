"""Files as people have them, drawn: what is imported is what was written, or is refused by line."""

import csv
import datetime
import io
import json
import random
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pytest
from scale import tries

import projseg
from projseg.catalog.external import text_blocks
from projseg.cli import main

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
UNITS = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}
WORDS = (
    "a",
    "é",
    "x,y",
    "line\nend",
    "two\r\nends",
    'quo"te',
    '"',
    ";",
    "\t",
    " pad ",
    "€uro",
    "|",
)


def run(monkeypatch, capsys, *words):
    """Run the command line in this process; return its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["projseg", *map(str, words)])
    try:
        main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    return code, *capsys.readouterr()


def imported(monkeypatch, capsys, table, *words):
    code, out, error = run(monkeypatch, capsys, "import", table, *words, "-o", "json")
    assert code == 0, error
    return json.loads(out), projseg.Table(table).query().to_pylist(), error


def test_dialects(tmp_path, monkeypatch, capsys):
    for seed in range(tries(120)):
        draw = random.Random(seed)
        monkeypatch.setattr(text_blocks, "BLOCK_BYTES", draw.choice([16, 100, 1 << 20]))
        encoding = draw.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
        form = {
            "delimiter": draw.choice([",", ";", "\t", "|"]),
            "quotechar": draw.choice(['"', "'"]),
            "lineterminator": draw.choice(["\n", "\r\n"]),
            "quoting": draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
        }
        rows = [
            {"id": n, "text": "".join(draw.choices(WORDS, k=draw.randint(1, 4))), "n": 2 * n}
            for n in range(draw.randint(1, 60))
        ]
        written = io.StringIO(newline="")
        writer = csv.DictWriter(written, ["id", "text", "n"], **form)
        writer.writeheader()
        writer.writerows(rows)
        path = tmp_path / f"{seed}.csv"
        path.write_bytes(written.getvalue().encode(encoding))
        words = ["--delimiter", form["delimiter"], "--quote", form["quotechar"], "--null", "\x07"]
        words += ["--encoding", encoding] if encoding == "cp1252" else []
        done, found, _ = imported(monkeypatch, capsys, tmp_path / f"t{seed}", path, *words,
                                  "--type", "text=string")  # fmt: skip
        assert done["bad_lines"] == 0
        assert sorted(found, key=lambda row: row["id"]) == rows, (seed, form, encoding)


def test_epochs(tmp_path, monkeypatch, capsys):
    for seed in range(tries(40)):
        draw = random.Random(seed)
        unit = draw.choice(list(UNITS))
        most = 9 * 10**14 if unit == "ns" else 4 * 10**15
        micros = [draw.randrange(-(10**14), most) * 10 for _ in range(20)]
        micros = [one - one % UNITS[unit] for one in micros]
        kind = draw.choice(["csv", "json", "parquet"])
        numbers = [one * 1000 if unit == "ns" else one // UNITS[unit] for one in micros]
        path, table = tmp_path / f"{seed}.{kind}", tmp_path / f"t{seed}"
        if kind == "csv":
            path.write_text("\n".join(["ts", *map(str, numbers)]))
        elif kind == "json":
            path.write_text("\n".join(json.dumps({"ts": one}) for one in numbers))
        else:
            pa.parquet.write_table(pa.table({"ts": numbers}), path)
        given = draw.choice(["timestamp", "timestamp_ntz"])
        words = (
            "--type",
            f"ts={given}",
            *([] if unit == "s" and seed % 2 else ["--time-unit", unit]),
        )
        _, found, _ = imported(monkeypatch, capsys, table, path, *words)
        want = sorted(EPOCH + datetime.timedelta(microseconds=one) for one in micros)
        got = sorted(
            row["ts"].replace(tzinfo=datetime.UTC) if given == "timestamp_ntz" else row["ts"]
            for row in found
        )
        assert got == want
        if unit != "s":
            code, _, error = run(
                monkeypatch, capsys, "import", f"{table}s", path, "--type", "ts=timestamp"
            )
            assert code == 1 or max(map(abs, numbers)) < 253402300800, error
            assert code == 0 or "--time-unit" in error


def test_columns_drift_between_files(tmp_path, monkeypatch, capsys):
    for seed in range(tries(40)):
        draw = random.Random(seed)
        folder = tmp_path / f"in{seed}"
        (folder / "below").mkdir(parents=True)
        want = []
        for place in range(4):
            names = {"Airport_fee": "Airport_fee", "k": "k", "note": "note"}
            own = {name: draw.choice([name, name.lower(), name.upper()]) for name in names}
            order = draw.sample(list(names), 3)
            rows = [{"Airport_fee": n + place * 10, "k": f"k{n}", "note": draw.choice(["x", None])}
                    for n in range(5)]  # fmt: skip
            want += rows
            kind = draw.choice(["csv", "tsv", "json", "jsonl", "parquet"])
            path = folder / draw.choice(["", "below"]) / f"{place}.{kind}"
            if kind == "parquet":
                columns = {own[n]: [row[n] for row in rows] for n in order}
                pa.parquet.write_table(pa.table(columns), path)
            elif kind in ("json", "jsonl"):
                path.write_text("\n".join(json.dumps({own[n]: r[n] for n in order}) for r in rows))
            else:
                sign = "," if kind == "csv" else "\t"
                lines = [sign.join(own[n] for n in order)]
                lines += [
                    sign.join("" if row[n] is None else str(row[n]) for n in order) for row in rows
                ]
                path.write_text("\n".join(lines))
        (folder / "empty.csv").write_text("")
        (folder / "_notes.csv").write_text("what?")
        _, found, _ = imported(monkeypatch, capsys, tmp_path / f"t{seed}", folder)
        got = [{key.lower(): value for key, value in row.items()} for row in found]
        plain = [{key.lower(): value for key, value in row.items()} for row in want]
        by = lambda row: (row["airport_fee"], row["k"])  # noqa: E731
        assert sorted(got, key=by) == sorted(plain, key=by)


def test_bad_lines_among_quotes_and_other_bytes(tmp_path, monkeypatch, capsys):
    faults = (b"1,2", b"x,y,z,w", b"many,a,1", b'7,"open,2', b"7,\xe9,2", b'7,"a"b"c,d"e,2')
    for seed in range(tries(60)):
        draw = random.Random(seed)
        monkeypatch.setattr(text_blocks, "BLOCK_BYTES", draw.choice([50, 400, 1 << 20]))
        lines, bad, good, number = [b"n,s,m"], [], [], 2
        for n in range(draw.randint(5, 80)):
            if draw.random() < 0.2:
                lines.append(draw.choice(faults))
                bad.append(number)
                number += 1
                continue
            text = draw.choice(["plain", 'a "quoted" word', "two\nlines"])
            if "\n" in text and b'"open' in b"".join(lines):
                text = "plain"  # an open quote may end where another begins
            lines.append(f'{n},"{text.replace(chr(34), chr(34) * 2)}",{n}'.encode())
            good.append((n, text))
            number += 1 + text.count("\n")
        path, kept = tmp_path / f"{seed}.csv", tmp_path / "bad.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        types = ("--type", "n=int", "--type", "m=int")
        words = ("import", tmp_path / f"t{seed}", path, *types)
        if bad:
            code, _, error = run(monkeypatch, capsys, *words)
            assert (code, f"line {bad[0]}: " in error) == (1, True), (seed, error)
        code, _, error = run(monkeypatch, capsys, *words, "--on-error", kept)
        assert code == 0, error
        told = [json.loads(line)["line"] for line in kept.read_text().splitlines()]
        assert told == bad, seed
        found = projseg.Table(tmp_path / f"t{seed}").query().to_pylist()
        assert sorted((row["n"], row["s"]) for row in found) == good


def test_one_odd_column_of_many(tmp_path, monkeypatch, capsys):
    rows = 3
    columns = {f"c{n}": pa.array([n] * rows) for n in range(199)}
    for kind in (pa.duration("s"), pa.duration("ns"), pa.time32("s"), pa.time64("us")):
        path, table = tmp_path / f"{kind}.parquet", tmp_path / str(kind)
        pa.parquet.write_table(pa.table({**columns, "Odd": pa.array([1] * rows, kind)}), path)
        code, _, error = run(monkeypatch, capsys, "import", table, path)
        assert (code, "'Odd'" in error, "--exclude Odd" in error) == (1, True, True), error
        _, found, _ = imported(monkeypatch, capsys, table, path, "--exclude", "odd")
        assert found == [{f"c{n}": n for n in range(199)}] * rows
    path = tmp_path / "ns.parquet"
    nanos = pa.array([1714521600_123456789, -1], pa.timestamp("ns", "UTC"))
    lists = pa.ListArray.from_arrays([0, 1, 2], nanos)
    within = pa.StructArray.from_arrays([lists], ["list"])
    pa.parquet.write_table(pa.table({"t": nanos, "u": [1, 2], "within": within}), path)
    code, _, error = run(monkeypatch, capsys, "import", tmp_path / "ns", path)
    assert (code, "'t'" in error, "--cut-times" in error) == (1, True, True), error
    _, found, _ = imported(
        monkeypatch, capsys, tmp_path / "ns", path, "--cut-times", "--rename", "U=k"
    )
    assert [row["k"] for row in found] == [1, 2]
    assert [row["t"].microsecond for row in found] == [123456, 999999]
    assert [row["within"]["list"] for row in found] == [[row["t"]] for row in found]
    code, _, error = run(monkeypatch, capsys, "import", tmp_path / "n", path, "--exclude", "t")
    assert (code, "'within'" in error, "--cut-times" in error) == (1, True, True), error


def test_what_is_not_taken_names_a_flag(tmp_path, monkeypatch, capsys):
    for number, (text, flag, words, want) in enumerate([
        (b"a\n\xe9\n", "--encoding", ("--encoding", "latin-1"), [{"a": "é"}]),
        (b"time;k\n1;2\n", "--delimiter", ("--delimiter", ";"), [{"time": 1, "k": 2}]),
        (b"d\n1.5\nx\n", "--type d=", ("--on-error", "skip", "--type", "d=double"), [{"d": 1.5}]),
        (b"id,ID\n1,2\n", "--rename", ("--rename", "ID=other"), [{"id": 1, "other": 2}]),
        (b"t,n\n1714521600000,1\n", "--time-unit", ("--time-unit", "ms", "--type", "t=timestamp"),
         [{"t": datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC), "n": 1}]),
    ]):  # fmt: skip
        path = tmp_path / f"{number}.csv"
        path.write_bytes(text)
        first = (
            ("--type", "t=timestamp")
            if b"t,n" in text
            else ("--type", "d=double")
            if b"d\n" in text
            else ()
        )
        code, _, error = run(monkeypatch, capsys, "import", tmp_path / f"{number}", path, *first)
        assert (code, flag in error) == (1, True), error
        _, found, _ = imported(monkeypatch, capsys, tmp_path / f"{number}", path, *words)
        assert found == want
    for number, (text, flag, words, want) in enumerate([
        ("zip\n01234\n", "--type 'zip=bigint'", (), [{"zip": "01234"}]),
        ("zip\n01234\n", "", ("--type", "zip=bigint"), [{"zip": 1234}]),
        ("zip\n01234\n", None, ("--type", "zip=bigint"), [{"zip": 1234}]),
        ("zip\n01234\n", None, ("--type", "zip=string"), [{"zip": "01234"}]),
        ("v\n01\n1.5\n", "--type 'v=double'", (), [{"v": "01"}, {"v": "1.5"}]),
        ("v\n1\n2\nword\n", "'word' is no number; --type 'v=double'", (),
         [{"v": "1"}, {"v": "2"}, {"v": "word"}]),
        ("v\nwords\n2\nword\n", None, (), [{"v": "words"}, {"v": "2"}, {"v": "word"}]),
        ("v;w\n1.234,5;x\n", "no point between their digits",
         ("--delimiter", ";", "--decimal-point", ","), [{"v": "1.234,5", "w": "x"}]),
        ("v;w\n1,5;x\n", "--decimal-point", ("--delimiter", ";"), [{"v": "1,5", "w": "x"}]),
        ("v;w\n1,5;x\n", "", ("--delimiter", ";", "--decimal-point", ","), [{"v": 1.5, "w": "x"}]),
        ("d\n31.12.2024\n", "--time-format", (), [{"d": "31.12.2024"}]),
        ("d\n31.12.2024\n", "", ("--time-format", "%d.%m.%Y", "--type", "d=date"),
         [{"d": datetime.date(2024, 12, 31)}]),
        ("n\n9223372036854775808\n1.5\n", "", (),
         [{"n": Decimal("9223372036854775808.0")}, {"n": Decimal("1.5")}]),
    ]):  # fmt: skip
        path, table = tmp_path / f"n{number}.csv", tmp_path / f"n{number}"
        path.write_text(text)
        _, found, error = imported(monkeypatch, capsys, table, path, *words)
        assert found == want
        assert flag in error if flag is not None else not error


def test_a_new_field_of_a_later_file(tmp_path, monkeypatch, capsys):
    for kind, texts in (
        ("csv", ("a\n1\n", "a,b\n2,3\n")),
        ("json", ('{"a":1}\n', '{"a":2,"b":3}\n')),
    ):
        files = []
        for place, text in enumerate(texts):
            files.append(tmp_path / f"{place}.{kind}")
            files[-1].write_text(text)
        table = tmp_path / kind
        code, _, error = run(monkeypatch, capsys, "import", table, *files)
        assert (code, "add it by import --merge-schema" in error) == (1, True), error
        assert files[1].name in error
        _, found, _ = imported(monkeypatch, capsys, table, *files, "--merge-schema")
        assert found == [{"a": 1, "b": None}, {"a": 2, "b": 3}]


def pandas_rows(path):
    pandas = pytest.importorskip("pandas")
    if path.suffix == ".csv":
        frame = pandas.read_csv(path, keep_default_na=False)
    else:
        frame = pandas.read_json(path, lines=True, precise_float=True, dtype={"s": str})
    return frame.astype(object).to_dict("records")


def arrow_rows(path):
    from pyarrow import csv, json

    if path.suffix == ".csv":
        lines = csv.ParseOptions(newlines_in_values=True)
        return csv.read_csv(path, parse_options=lines).to_pylist()
    return json.read_json(path).to_pylist()


def duckdb_rows(path):
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(f"FROM '{path}'").to_arrow_table().to_pylist()
    return [{**row, "i": int(row["i"])} for row in rows]  # at times a decimal, there


@pytest.mark.parametrize("read", [pandas_rows, arrow_rows, duckdb_rows])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_values_are_what_others_read(tmp_path, monkeypatch, capsys, kind, read):
    for seed in range(tries(25)):
        draw = random.Random(seed)
        rows = [
            {"i": draw.randrange(-(2**53), 2**53), "d": draw.uniform(-1e9, 1e9),
             "s": draw.choice(["plain", "a,b", 'a "word"', "two\nlines", "é;|"]),
             "b": draw.choice([True, False])}
            for _ in range(draw.randint(1, 30))
        ]  # fmt: skip
        path = tmp_path / f"{seed}.{kind}"
        if kind == "csv":
            written = io.StringIO(newline="")
            end = draw.choice(["\n", "\r\n"])
            quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
            writer = csv.DictWriter(written, ["i", "d", "s", "b"], lineterminator=end,
                                    quoting=quoting)  # fmt: skip
            writer.writeheader()
            writer.writerows({**row, "b": str(row["b"]).lower()} for row in rows)
            path.write_bytes(written.getvalue().encode())
        else:
            path.write_text("\n".join(map(json.dumps, rows)))
        _, found, _ = imported(monkeypatch, capsys, tmp_path / f"t{seed}", path)
        assert sorted(map(repr, found)) == sorted(map(repr, rows)) == sorted(map(repr, read(path)))
