"""A folder of Parquet files that changes as those of others do, and questions of both engines."""

import math
import os
import shutil
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from projseg.errors import CODES, ProjsegError

START_US = 1_448_000_000_000_000
HOUR_US = 3_600_000_000
TIME = pa.timestamp("us", tz="UTC")
CITIES = ["Oslo", "Rome", "Lima", "Ürümqi"]


def rows(random, count, *, wide=False, extra=False, page=True):
    """Return drawn rows; `wide` numbers are of 64 bits, and columns may be missing or more."""
    times = random.integers(0, 48 * HOUR_US, count) + START_US
    columns = {
        "time": pa.array(times, TIME),
        "city": pa.array([CITIES[n] if n < 4 else None for n in random.integers(0, 5, count)]),
        "added": pa.array(random.integers(-50, 50, count), pa.int64() if wide else pa.int32()),
        "score": pa.array([math.nan if n == 0 else float(n) for n in random.integers(0, 9, count)]),
        "day": pa.array(random.integers(16750, 16760, count).astype(np.int32), pa.date32()),
        "flag": pa.array([bool(n) if n < 2 else None for n in random.integers(0, 3, count)]),
    }
    if page:
        columns["page"] = pa.array([f"page {n:03}" for n in random.integers(0, 40, count)])
    if extra:
        columns["extra"] = pa.array(random.integers(0, 5, count), pa.int16())
    return pa.table(columns)


def write(path, table, **options):
    """Write a file as a job does that publishes whole files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    pq.write_table(table, hidden, **{"row_group_size": 150, **options})
    hidden.rename(path)


def stats_of(folder):
    """Return what tells whether any file below a folder was touched, and their bytes."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        stat = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_mode, content)
    return found


class Folder:
    """A source, whose state is the set of its files.

    Parameters
    ----------
    place : Path
        Where its files are.
    random : np.random.Generator
        Draws its rows and its changes.
    """

    def __init__(self, place, random):
        self.place, self.random = Path(place), random
        self.number = 0
        self.kept = None  # an earlier state, to be rolled back to
        self.wide = self.extra = False
        self.page = True
        self.place.mkdir()

    @property
    def files(self):
        return sorted(self.place.rglob("*.parquet"))

    def pick(self):
        return self.files[self.random.integers(len(self.files))]

    def drawn(self):
        count = int(self.random.integers(1, 500))
        return rows(self.random, count, wide=self.wide, extra=self.extra, page=self.page)

    def new_path(self):
        self.number += 1
        return self.place / f"part {self.number % 3}" / f"{self.number:04}.parquet"

    def add(self):
        write(self.new_path(), self.drawn())

    def remove(self):
        if len(self.files) > 1:
            self.pick().unlink()

    def replace(self):
        write(self.pick(), self.drawn())

    def overwrite_in_place(self):
        """Write a file over itself: the same inode, size and time, and other values."""
        path = self.pick()
        before = path.stat()
        table = pq.read_table(path)
        added = table.column("added").to_numpy()
        place = table.column_names.index("added")
        plain = {"compression": "none", "use_dictionary": False}
        if not all(
            column.compression == "UNCOMPRESSED" and "RLE_DICTIONARY" not in column.encodings
            for column in columns_of(path)
        ):
            write(path, table, **plain)
            return
        other = table.set_column(place, table.schema.field("added"), pa.array(added[::-1] + 1))
        copy = path.with_name(".copy")
        pq.write_table(other, copy, row_group_size=150, **plain)
        content = copy.read_bytes()
        copy.unlink()
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def rename(self):
        target = self.new_path()
        target.parent.mkdir(exist_ok=True)
        self.pick().rename(target)

    def compact(self):
        """Put the rows of two files into one, as a job of the source's own does."""
        if len(self.files) < 2:
            return
        first, second = self.random.choice(len(self.files), 2, replace=False)
        both = [self.files[first], self.files[second]]
        tables = [pq.read_table(one) for one in both]
        together = pa.concat_tables(tables, promote_options="permissive")
        target = self.new_path()
        write(target, together)
        for one in both:
            one.unlink()

    def keep(self):
        self.kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.files}

    def roll_back(self):
        if self.kept is None:
            self.keep()
            return
        shutil.rmtree(self.place)
        for path, (content, time) in self.kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, ns=(time, time))

    def widen(self):
        self.wide = True
        self.add()

    def add_column(self):
        self.extra = True
        self.add()

    def drop_column(self):
        self.page = False
        self.add()

    STEPS = (
        *("add", "add", "remove", "replace", "overwrite_in_place", "rename", "compact"),
        *("keep", "roll_back", "widen", "add_column", "drop_column"),
    )

    def names(self):
        """Return the columns that some file has."""
        return {name for path in self.files for name in pq.read_schema(path).names}

    def ask(self, text):
        """Return the rows of a statement over the files as they are, by DuckDB."""
        return answer_of(text, self.files)


def columns_of(path):
    group = pq.read_metadata(path).row_group(0)
    return [group.column(place) for place in range(group.num_columns)]


def answer_of(text, files):
    listed = ", ".join(f"'{path}'" for path in files)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(
            text.replace("FROM t", f"FROM read_parquet([{listed}], union_by_name = true)")
        )
        return comparable(found.fetchall())


def comparable(found):
    """Return rows of either engine in one form, in an order of their own."""
    return sorted((tuple(map(_plain, row)) for row in found), key=repr)


def _plain(value):
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    return value.isoformat() if hasattr(value, "isoformat") else value


def _time(hour):
    return f"TIMESTAMP '2015-11-{20 + hour // 24} {hour % 24:02}:00:00+00:00'"


def drawn_question(random, names):
    """Return a drawn SELECT over columns that there are, in the words of both engines."""
    keys = ["city", "day", "flag", "date_trunc('HOUR', time)", "date_trunc('DAY', time)"]
    keys += [name for name in ("page", "extra") if name in names]
    sums = ["sum(added)", "count(*)", "count(city)", "min(added)", "max(day)", "count(flag)"]
    sums += ["min(time)", "sum(added) FILTER (WHERE added > 0)", "min(score)", "avg(added)"]
    sums += [f"count({name})" for name in ("page", "extra") if name in names]
    hour = int(random.integers(0, 48))
    times = [_time(hour), _time(hour + 9)]
    conditions = ["added > 10", "added BETWEEN -3 AND 3", "city = 'Oslo'", "city IS NULL"]
    conditions += ["NOT flag", "day >= DATE '2015-11-15'", "city IN ('Rome', 'Lima')"]
    conditions += [f"time >= {times[0]} AND time < {times[1]}", f"time >= {times[0]}"]
    conditions += ["page = 'page 007'"] if "page" in names else []
    conditions += ["extra IS NOT NULL", "extra = 3"] if "extra" in names else []

    def some(texts, least, most):
        count = int(random.integers(least, most + 1))
        return [str(one) for one in random.choice(texts, min(count, len(texts)), replace=False)]

    where = " AND ".join(some(conditions, 0, 2))
    where = f" WHERE {where}" if where else ""
    if random.integers(4) == 0:
        columns = ["time", "city", "added", "day", "flag", "score"]
        columns += [name for name in ("page", "extra") if name in names]
        return f"SELECT {', '.join(some(columns, 1, 4))} FROM t{where}"
    grouped = some(keys, 0, 2)
    outputs = [f"{one} AS x{n}" for n, one in enumerate([*grouped, *some(sums, 1, 3)])]
    by = f" GROUP BY {', '.join(str(n + 1) for n in range(len(grouped)))}" if grouped else ""
    return f"SELECT {', '.join(outputs)} FROM t{where}{by}"


def asked(table, text):
    """Return the rows of a table's answer, to be compared with DuckDB's."""
    return comparable([tuple(row.values()) for row in table.sql(text).to_pylist()])


def code_of(call):
    """Return the code of the error that a call ends in."""
    with pytest.raises(ProjsegError) as caught:
        call()
    assert caught.value.code in CODES
    return caught.value.code
