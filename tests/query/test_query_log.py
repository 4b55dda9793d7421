"""The query log: no value in it, one text for one question, and no question that fails by it."""

import errno
import json
import logging
import os
import random
import stat
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from scale import tries

import projseg
from projseg import dbapi
from projseg.cli import app
from projseg.errors import InvalidInputError, ProjsegError
from projseg.reader.query_log import log_files
from projseg.reader.query_log.log_files import LogFile, flush_query_logs

START = datetime(2024, 5, 1, tzinfo=UTC)
ROWS = 400


def rows_of(count=ROWS):
    return pa.table(
        {
            "time": pa.array([START + timedelta(minutes=7 * n) for n in range(count)]),
            "channel": [f"#{n % 5}" for n in range(count)],
            "added": pa.array(range(count), pa.int64()),
            "price": pa.array(range(count), pa.int64()).cast(pa.decimal128(24, 2)),
            "ratio": [n / 7 for n in range(count)],
            "day": pa.array([START.date()] * count),
        }
    )


@pytest.fixture
def table(tmp_path):
    by_channel = projseg.Projection("by_channel", ["channel"], ["sum(added) AS added"])
    return projseg.Table.create(
        tmp_path / "t", data=rows_of(), time_column="time", projections=[by_channel]
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(log_files.SETTING, str(tmp_path / "log"))
    yield tmp_path / "log"
    log_files._forget()


def logged(folder):
    flush_query_logs()
    return projseg.read_log(folder).to_pylist()


def content(folder):
    flush_query_logs()
    return b"".join(path.read_bytes() for path in folder.iterdir())


class Values:
    """Values that are found again in any text that has them."""

    def __init__(self, seed):
        self.draw, self.texts = random.Random(seed), []

    def text(self):
        self.texts.append("Zq" + "".join(self.draw.choices("bcdfghjklmnpqrstvwxz", k=9)))
        return f"'{self.texts[-1]}'"

    def number(self):
        self.texts.append(str(self.draw.randrange(600_000_000, 1_900_000_000)))
        return self.texts[-1]

    def decimal(self):
        self.texts.append(f"{self.draw.randrange(10_000, 90_000)}.{self.draw.randrange(10, 99)}")
        return self.texts[-1]

    def day(self):
        self.texts.append(f"{self.draw.randrange(2101, 2399)}-0{self.draw.randrange(1, 9)}-17")
        return f"DATE '{self.texts[-1]}'"

    def condition(self, depth=2):
        if depth and self.draw.random() < 0.4:
            word = self.draw.choice([" AND ", " OR "])
            return f"({self.condition(depth - 1)}{word}{self.condition(depth - 1)})"
        text, number = self.text, self.number
        return self.draw.choice(
            [
                lambda: f"channel = {text()}",
                lambda: f"channel IN ({text()}, {text()}, {text()})",
                lambda: f"NOT channel LIKE {text()[:-1]}%'",
                lambda: f"channel RLIKE {text()}",
                lambda: f"added BETWEEN {number()} AND {number()}",
                lambda: f"added % {number()} = {number()}",
                lambda: f"price > {self.decimal()}",
                lambda: f"ratio < {self.decimal()}D",
                lambda: f"day <> {self.day()}",
                lambda: f"time >= {self.day()}",
                lambda: f"CASE WHEN added = {number()} THEN {text()} ELSE channel END = {text()}",
                lambda: f"array_contains(array({text()}, {text()}), channel)",
                lambda: f"replace(channel, {text()}, {text()}) = {text()}",
                lambda: f"split_part(channel, {text()}, 1) = concat(channel, {text()})",
                lambda: f"coalesce(nullif(channel, {text()}), {text()}) IS NULL",
            ]
        )()

    def outputs(self):
        number, text = self.number, self.text
        return self.draw.choice(
            [
                lambda: [f"sum(added) FILTER (WHERE {self.condition(0)}) AS s"],
                lambda: [f"max(least(added, {number()}))", "count(*)"],
                lambda: [f"sum(added) / count(*) + {number()} AS {text()[1:-1]}"],
                lambda: [f"listagg(concat(channel, {text()}), {text()})"],
                lambda: [f"count_if({self.condition(0)}) > {number()}"],
                lambda: [f"min_by(channel, added * {number()})"],
            ]
        )()

    def query(self):
        keys = [["channel"], ["date_trunc('DAY', time)"], [f"added % {self.number()} AS m"]]
        if self.draw.random() < 0.3:
            columns = ["channel", f"concat(channel, {self.text()}) AS {self.text()[1:-1]}"]
            return {"columns": columns, "filter": self.condition()}
        return {
            "group_by": [*self.draw.choice(keys), f"concat(channel, {self.text()})"],
            "aggregators": self.outputs(),
            "filter": self.condition(),
            "having": f"count(*) > {self.number()}",
            "order_by": [f"count(*) + {self.number()} DESC NULLS FIRST"],
        }


def test_no_literal_of_drawn_queries_is_in_the_log(table, folder):
    values, failed = Values(7), 0
    for _ in range(tries(400)):
        query = values.query()
        if values.draw.random() < 0.1:
            query["filter"] = f"nothing = {values.text()} AND {query['filter']}"
        try:
            table.query(**query)
        except ProjsegError:
            failed += 1
    table.sql("SELECT sum(added) FROM t WHERE channel = ?", args=[values.text()])
    table.sql(f"SELECT count(*) AS {values.text()[1:-1]} FROM t WHERE added = {values.number()}")
    with pytest.raises(ProjsegError):
        table.sql(f"SELECT missing FROM t WHERE channel = {values.text()}")
    whole = content(folder).decode()
    assert [text for text in values.texts if text in whole] == []
    records = logged(folder)
    assert sum(record["answered"] == "failed" for record in records) == failed + 1
    assert 0 < failed < len(records) / 2
    assert any("channel = ?" in (record["query"] or "") for record in records)


def test_joins_and_intervals_hide_their_values(table, folder, tmp_path):
    places = projseg.Table.create(
        tmp_path / "p", data={"id": ["#1", "#2"], "region": ["x", "SECRET"]}
    )
    tables = {"t": table, "p": places}
    for text in (
        "SELECT count(*) FROM t WHERE channel IN (SELECT id FROM p WHERE region = 'SECRET')",
        "SELECT count(*) FROM t LEFT SEMI JOIN p ON channel = p.id AND p.region = 'SECRET'",
        "SELECT count(*) FROM t LEFT ANTI JOIN p ON channel = p.id AND p.region = 'SECRET'",
        "SELECT count(region) FROM t JOIN p ON channel = p.id AND p.region = 'SECRET'",
        "SELECT count(*) FROM t WHERE time + INTERVAL 7351 MINUTES > TIMESTAMP '2024-05-09'",
    ):
        projseg.sql(text, tables)
    whole = content(folder)
    assert [value for value in (b"SECRET", b"7351") if value in whole] == []
    filters = [json.loads(record["query"]).get("filter", "") for record in logged(folder)]
    assert any("region = ?" in text for text in filters)
    assert filters[-1] == "(time + ?) > ?"


@pytest.mark.parametrize(
    "condition", ["x = $$SECRET$$", "x = “SECRET”", "x = SECRET", "x = 'SECRET", "`SECRET` = 1"]
)
def test_of_what_does_not_bind_no_text_is_kept(table, folder, condition):
    calls = [
        lambda: table.query(filter=condition),
        lambda: table.sql(f"SELECT channel FROM t WHERE {condition}"),
        lambda: table.scan("channel", condition),
    ]
    for call in calls:
        with pytest.raises(ProjsegError):
            call()
    assert b"SECRET" not in content(folder)
    records = logged(folder)
    assert [(one["answered"], one["query"]) for one in records] == [("failed", None)] * 3
    assert {one["door"] for one in records} == {"python", "sql"}
    assert all(one["code"].startswith("PROJSEG_") for one in records)


def ask_at_shell(table, statement):
    from typer.testing import CliRunner

    assert CliRunner().invoke(app, ["sql", table.location, statement]).exit_code == 0


def test_one_question_has_one_text_behind_every_door(table, folder):
    pytest.importorskip("duckdb")
    select = "SELECT channel, sum(added) AS {} FROM t WHERE added > {} GROUP BY channel"
    table.query("channel", "sum(added) AS x", "added > 11")
    table.sql(select.format("y", 12))
    projseg.sql(select.format("z", 13), {"t": table})
    table.sql("SELECT CHANNEL, SUM(Added) FROM t WHERE 14 < added GROUP BY 1")
    table.sql(select.format("w", ":n"), args={"n": 15})
    dbapi.connect(table.location).cursor().execute(select.format("v", 16))
    table.sql(select.replace("WHERE", "WHERE added IS NOT NULL AND").format("spark", 16))
    projseg.duckdb({"t": table}).sql(select.format("u", 17))
    ask_at_shell(table, select.format("s", 18))
    with projseg.QueryPool(table, workers=1) as pool:
        pool.sql(select.format("p", 19))
        pool.query("channel", "sum(added)", "added > 20")
    records = logged(folder)
    assert {record["query"] for record in records} == {
        '{"group_by":["channel"],"aggregators":["sum(added)"],"filter":"added > ?"}'
    }
    doors = sorted(record["door"] for record in records)
    assert doors == sorted(["python"] * 2 + ["sql"] * 6 + ["dbapi", "duckdb", "shell"])


def test_a_record_says_what_was_read(table, folder):
    table.query("channel", "sum(added)", interval="2024-05-01T00/PT3H")
    table.query("channel", "sum(added)")
    list(table.scan("added", "added >= 100", context={"useProjection": None}))
    first, second, third = logged(folder)
    assert first["interval"] == {"aligned": "hour", "length": 3 * 3600.0, "zone": "UTC"}
    assert (first["sources"], second["sources"]) == ([("base", 1)], [("by_channel", 1)])
    assert first["reasons"] == [("by_channel", "UNALIGNED_INTERVAL")]
    assert second["returned"] == 5
    assert third["returned"] == ROWS - 100
    assert second["rows"] == 5
    assert second["table_id"] == table.properties.table_id
    assert (second["version"], second["location"]) == (0, table.location)
    assert all(one["planned_ms"] > 0 and one["answered_ms"] > 0 for one in (first, second, third))
    table.query("channel", "sum(added)")
    assert logged(folder)[-1]["cached"] is True


def test_units_zones_and_parameters_of_aggregates_stay(table, folder):
    table.query(
        "date_trunc('HOUR', time) AS h",
        ["percentile(added, 0.25)", "hll_sketch_agg(channel, 14)", "sum(added * 3)"],
        context={"timezone": "Asia/Kolkata", "noProjections": True},
    )
    (record,) = logged(folder)
    query = json.loads(record["query"])
    assert query["group_by"] == ["in_zone('Asia/Kolkata', date_trunc('HOUR', time))"]
    assert query["aggregators"] == [
        "percentile(added, 0.25)", "hll_sketch_agg(channel, 14)", "sum(added * ?)",
    ]  # fmt: skip
    assert query["context"] == {"noProjections": True}


@pytest.mark.parametrize(
    ("shown", "there", "gone"),
    [("expressions", b"31337", b"41414"), ("all", b"41414", b"nothing"), ("odd", b"?", b"31337")],
)
def test_literals_are_shown_where_asked_for(table, folder, monkeypatch, shown, there, gone):
    monkeypatch.setenv("PROJSEG_QUERY_LOG_LITERALS", shown)
    table.query("channel", "sum(added * 31337)", "added <> 41414")
    assert there in content(folder)
    assert gone not in content(folder)


def test_a_full_disk_fails_no_question_and_tears_no_line(table, folder, monkeypatch, caplog):
    table.query("channel", "sum(added)")
    flush_query_logs()
    write, room = os.write, [1000]

    def full(descriptor, data):
        taken = min(len(data), room[0])
        room[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, "no space left")
        return write(descriptor, data[:taken])

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(log_files.os, "write", full)
        for _ in range(3):
            for _ in range(4):
                assert len(table.query("channel", "sum(added)")) == 5
            flush_query_logs()
    assert len(caplog.records) == 1
    table.query("channel", "max(added)")
    records = logged(folder)
    assert projseg.read_log(folder).schema.metadata[b"projseg.torn"] == b"0"
    assert "max(added)" in records[-1]["query"]


def test_a_folder_that_cannot_be_made_fails_no_question(table, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(log_files.SETTING, str(tmp_path / "file" / "log"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert len(table.query("channel", "sum(added)")) == 5
            flush_query_logs()
    assert len(caplog.records) == 1
    log_files._forget()


def test_a_forked_child_writes_a_file_of_its_own(table, folder):
    table.query("channel", "count(*)")
    child = os.fork()
    if child == 0:
        table.query("channel", "min(added)")
        flush_query_logs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    table.query("channel", "max(added)")
    records = logged(folder)
    assert len(records) == 3
    assert len(list(folder.iterdir())) == 2
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_processes_log_side_by_side(table, folder, monkeypatch):
    monkeypatch.setattr(log_files, "FILE_BYTES_MAX", 2000)
    children = []
    for _ in range(16):
        child = os.fork()
        if child == 0:
            for _ in range(8):
                table.query("channel", "min(added)")
                flush_query_logs()
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 16
    assert len(logged(folder)) == 16 * 8
    assert len(list(folder.iterdir())) >= 32


def test_the_oldest_files_that_nobody_writes_go(tmp_path, monkeypatch):
    monkeypatch.setattr(log_files, "FILE_BYTES_MAX", 100)
    monkeypatch.setenv(log_files.BYTES_SETTING, "1000")
    folder = tmp_path / "log"
    other = LogFile(folder)
    other.append([b"x" * 99 + b"\n"])
    (written,) = folder.iterdir()
    file = LogFile(folder)
    for _ in range(40):
        file.append([b"y" * 199 + b"\n"])
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert 800 <= sum(sizes) <= 1300
    assert written.exists()  # another process might be writing it
    other.close()
    for _ in range(10):
        file.append([b"y" * 199 + b"\n"])
    assert not written.exists()
    file.close()


def line(**fields):
    record = {
        "projseg_log": 1, "time": "2026-05-01T10:00:00.000001+00:00", "table_id": "t",
        "door": "sql", "query": {"group_by": ["a"]},
    }  # fmt: skip
    return json.dumps(record | fields) + "\n"


def test_hostile_lines_are_skipped_and_counted(tmp_path):
    hostile = [
        "[" * 50_000 + "]" * 10_000 + "\n",
        '{"projseg_log": 1, "query": ' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}\n",
        "x" * 300_000 + "\n",
        line(query="SELECT 1"),
        line(time="yesterday"),
        "null\n",
        "\x00\xff\n",
        line()[:-30],
    ]
    text = line() + "".join(hostile[:-1]) + line(door="new", later=[1], projseg_log=2) + hostile[-1]
    (tmp_path / "queries-1.jsonl").write_text(text, encoding="latin-1")
    found = projseg.read_log(tmp_path)
    assert found["door"].to_pylist() == ["sql", "new"]
    assert found.schema.metadata[b"projseg.torn"] == str(len(hostile)).encode()


def test_records_since_a_moment(tmp_path):
    old, new = datetime.now(UTC) - timedelta(days=40), datetime.now(UTC) - timedelta(days=3)
    path = tmp_path / "queries-1.jsonl"
    path.write_text(line(time=old.isoformat()) + line(time=new.isoformat()))
    assert len(projseg.read_log(path)) == 2
    assert len(projseg.read_log(path, since="30 days")) == 1
    assert len(projseg.read_log(path, since=timedelta(days=2))) == 0
    assert len(projseg.read_log(path, since=new)) == 1


def test_what_is_no_log_is_refused(tmp_path):
    for make in (lambda: None, lambda: (tmp_path / "log").write_text('{"a": 1}\n')):
        make()
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_LOG"):
            projseg.read_log(tmp_path / "log")
    (tmp_path / "empty").mkdir()
    assert len(projseg.read_log(tmp_path / "empty")) == 0


def test_what_no_record_can_hold_is_counted_or_refused(table, folder):
    table.query("channel", "sum(added)", limit=3)
    (file,) = (flush_query_logs(), [*folder.iterdir()])[1]
    line = file.read_text()
    wrong = [
        line.replace('"version":0', f'"version":{9 * 10**30}'),
        line.replace('"limit":"?"', f'"limit":{{"a":{{"b":{9 * 10**30}}}}}'),
        line.replace('"pruned":0', f'"pruned":-{9 * 10**30}'),
    ]
    assert all(one != line for one in wrong)
    (folder / "queries-x.jsonl").mkdir()
    (folder / "queries-y.jsonl").write_text("".join(wrong))
    found = projseg.read_log(folder)
    assert (len(found), found.schema.metadata[b"projseg.torn"]) == (1, b"3")
    place = found.column_names.index("query")
    numbers = found.set_column(place, "query", pa.array([5]))
    with pytest.raises(InvalidInputError) as caught:
        projseg.advise(table, numbers)
    assert caught.value.code == "PROJSEG_BAD_LOG"


def test_settings_that_mean_nothing_are_warned_of_once(table, folder, monkeypatch, caplog):
    monkeypatch.setenv("PROJSEG_QUERY_LOG_LITERALS", "everything")
    for _ in range(2):
        table.query("channel", "sum(added)")
        flush_query_logs()
    assert caplog.text.count("PROJSEG_QUERY_LOG_LITERALS is 'everything'") == 1
    monkeypatch.chdir(folder)
    monkeypatch.setenv(log_files.SETTING, "s3://bucket/log")
    for _ in range(2):
        table.query("channel", "sum(added)")
        flush_query_logs()
    assert caplog.text.count("a log is a folder of a disk") == 1
    assert not (folder / "s3:").exists()
