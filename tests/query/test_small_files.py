"""Small segments whose files are read side by side: answers and errors as of one by one."""

import datetime as dt
import decimal
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries
from segment_bytes import open_segment

import projseg
from projseg.memory.cache import KEPT
from projseg.reader import open_sources
from projseg.segment_format.file.file_batch import FileBatch

START = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
DAY = dt.date(2020, 1, 1)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("truth", pa.bool_()),
        ("tiny", pa.int8()),
        ("number", pa.int64()),
        ("price", pa.decimal128(12, 2)),
        ("vast", pa.decimal128(38, 0)),
        ("x", pa.float64()),
        ("single", pa.float32()),
        ("day", pa.date32()),
        ("list", pa.list_(pa.int32())),
    ]
)
VALUES = {
    "text": ["", "a", "ab", "abc", "żółć", "https://example.org/1", "https://example.org/22"],
    "bytes": [b"", b"\0", b"\xff\xfe", b"ab"],
    "truth": [False, True],
    "tiny": [-128, 0, 1, 127],
    "number": [-(2**63), 2**63 - 1, 0, 1, 2**40, 86_400_000_000, 7],
    "price": [decimal.Decimal(number) / 100 for number in (-999, 0, 1, 12_345_678)],
    "vast": [decimal.Decimal(number) for number in (0, -5, 10**30, 2**63)],
    "x": [0.0, -0.0, 1.25, 19.99, 1e300, float("nan"), 2**-40],
    "single": [0.5, -2.0, 1e30],
    "day": [DAY, DAY + dt.timedelta(days=400), DAY - dt.timedelta(days=90_000)],
    "list": [[], [1], [1, None], [2, 3]],
}
PROJECTIONS = [
    "SELECT text, truth, sum(number % 100) AS n, sum(price) AS p, min(day) AS first, "
    "max(text) AS most GROUP BY text, truth",
    "SELECT day, count(*) AS c, sum(x) AS x GROUP BY day",
]


def rows_of(hour, draw):
    """Rows of one segment: each column has few or many values, or nulls alone."""
    count = draw.choice([1, 2, 40, 90])
    times = [START + dt.timedelta(hours=hour, seconds=draw.randrange(3000)) for _ in range(count)]
    columns = {"time": times}
    for name, values in VALUES.items():
        kinds = [values, values[:1], [*values, None], [None], values[::-1][:2]]
        chosen = draw.choices(kinds, [3, 1, 2, 1, 2])[0]
        columns[name] = [draw.choice(chosen) for _ in range(count)]
    return pa.table(columns, SCHEMA)


def questions():
    yield "SELECT text, truth, sum(number % 100) AS n, sum(price) AS p FROM t GROUP BY text, truth"
    yield "SELECT truth, min(day) AS first, max(text) AS most FROM t GROUP BY truth"
    yield "SELECT day, count(*) AS c FROM t GROUP BY day"
    for name in VALUES:
        if name != "list":
            yield f"SELECT {name}, count(*) AS c, max(time) AS last FROM t GROUP BY {name}"
    yield "SELECT max(number) AS a, min(tiny) AS b, sum(vast) AS c, max(single) AS d FROM t"
    yield "SELECT count(x) AS c, count(list) AS lists FROM t WHERE price > 0 OR day IS NULL"


def ask(location, question, **context):
    """Ask a process that has read nothing."""
    KEPT.clear()
    answer = projseg.Table(location).sql(question, context=context)
    return sorted(map(repr, answer.to_pylist()))


@pytest.fixture
def one_by_one():
    """A function that turns reading side by side off, and on again."""

    def turn(is_off):
        open_sources.FILES_MIN = 10**9 if is_off else before

    before = open_sources.FILES_MIN
    yield turn
    turn(is_off=False)


@settings(max_examples=tries(4))
@given(seed=st.integers(0, 2**32))
def test_answers_are_those_of_files_read_one_by_one(tmp_path_factory, seed):
    draw, location = random.Random(seed), tmp_path_factory.mktemp("tables") / "t"
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="hour",
        projections=[{"name": f"p{n}", "sql": sql} for n, sql in enumerate(PROJECTIONS)],
    )
    table.append(pa.concat_tables([rows_of(hour, draw) for hour in range(draw.choice([9, 20]))]))
    before = open_sources.FILES_MIN
    for question in questions():
        for context in ({}, {"noProjections": True}):
            found = ask(location, question, **context)
            open_sources.FILES_MIN = 10**9
            expected = ask(location, question, **context)
            open_sources.FILES_MIN = before
            assert found == expected, (question, context)


def many_files(location, count=20):
    table = projseg.Table.create(location, SCHEMA, time_column="time", segment_granularity="hour")
    draw = random.Random(5)
    names = ["text", "number", "x"]
    rows = [rows_of(hour, draw).select(["time", *names]) for hour in range(count)]
    table.append(pa.concat_tables(rows))
    return sorted((location / "data").iterdir())


def test_files_are_read_side_by_side(tmp_path, monkeypatch):
    many_files(tmp_path / "t")
    decoded = []
    column = FileBatch.column

    def spy(self, files, table, role, name):
        found = column(self, files, table, role, name)
        decoded.append((len(files), name, found is not None))
        return found

    monkeypatch.setattr(FileBatch, "column", spy)
    assert ask(tmp_path / "t", "SELECT sum(number % 7) AS n, max(x) AS x FROM t")
    assert sum(count for count, name, is_decoded in decoded if is_decoded) > 20


@pytest.mark.parametrize("name", ["text", "number", "x"])
def test_a_damaged_page_is_named_as_by_who_reads_it_alone(tmp_path, one_by_one, name):
    files = many_files(tmp_path / "t")
    content = bytearray(files[11].read_bytes())
    segment = open_segment(bytes(content))
    entry = segment.column_entry("__base", "base", name)
    directory = segment.directory("__base", "base", name)
    if entry.dictionary is not None:
        dictionary = segment.footer.dictionaries[entry.dictionary]
        directory = segment.dictionary_directory(dictionary)
    content[int(directory.records["file_offset"][0])] ^= 1
    files[11].write_bytes(content)
    errors = []
    for is_off in (False, True):
        one_by_one(is_off)
        with pytest.raises(projseg.ProjsegError) as raised:
            ask(tmp_path / "t", f"SELECT {name}, count(*) AS c FROM t GROUP BY {name}")
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert files[11].name in errors[0]


def test_a_file_that_is_another_is_named(tmp_path):
    files = many_files(tmp_path / "t")
    content = files[3].read_bytes()
    files[3].write_bytes(content[:-30] + bytes([content[-30] ^ 1]) + content[-29:])
    with pytest.raises(projseg.ProjsegError, match=files[3].name):
        ask(tmp_path / "t", "SELECT text, count(*) AS c FROM t GROUP BY text")
