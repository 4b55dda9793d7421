"""Odd values of every argument of every public method end in a ProjsegError or in an answer."""

import datetime
import decimal
import inspect
import random
import warnings

import pyarrow as pa
import pytest
from scale import IS_NIGHTLY

import projseg
from projseg.errors import ProjsegError

ODD = [
    *(None, 5, -1, 1.5, float("nan"), True, b"x", "", "no such", "ceil()", "`", "a\0b", [], [None]),
    *(["no such", 5], {}, {"a": None}, {5: 5}, (), object(), datetime.datetime(2024, 1, 1)),
    *(decimal.Decimal(1), {1, 2}, lambda *_: None, pa.int32(), 2**70),
]
MOMENT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
ROWS = {"k": [1, 2], "s": ["a", "b"], "ts": [MOMENT, MOMENT]}
PLAIN = {
    "data": ROWS,
    "on": ["k"],
    "declaration": "SELECT k, count(*) AS c FROM t GROUP BY k",
    "filter": "k = 1",
    "text": "SELECT k FROM t",
    "sql": "SELECT k, count(*) AS n FROM t GROUP BY k",
    "type": "int",
    "set": {"k": "1"},
    "version": 0,
    "schema": {"k": "int", "ts": "timestamp"},
    "new": "kk",
}
"""Values of arguments that must be given."""
PARTS_OF_QUERIES = (
    *("interval", "having", "order_by", "limit", "columns", "context", "args"),
    *("granularity", "joins"),
)
METHODS = [
    name
    for name in dir(projseg.Table)
    if not name.startswith("_") and callable(getattr(projseg.Table, name))
]


def _table(folder):
    projection = {"name": "p", "group_by": ["k"], "aggregators": ["count(*) AS c"]}
    types = {"k": "int", "s": "string", "ts": "timestamp"}
    return projseg.Table.create(
        folder, types, time_column="ts", projections=[projection], data=ROWS
    )


def _arguments(method):
    """Return the names of a method's arguments, and those that must be given."""
    known = inspect.signature(method).parameters.values()
    named = [one for one in known if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    has_parts = any(one.kind == one.VAR_KEYWORD for one in known)
    needed = [one.name for one in named if one.default is one.empty]
    return [*(one.name for one in named), *(PARTS_OF_QUERIES if has_parts else ())], needed


@pytest.mark.sampled(1000)
@pytest.mark.parametrize("name", METHODS)
def test_only_errors_with_codes_come_out(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(name)
    table, count = _table(tmp_path / "t0"), 0
    names, needed = _arguments(getattr(table, name))
    for argument in names:
        for odd in ODD if IS_NIGHTLY else draw.sample(ODD, 4):
            given = {one: PLAIN.get(one, "k") for one in needed} | {argument: odd}
            if name == "create" and argument != "location":
                given["location"] = tmp_path / f"made{(count := count + 1)}"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getattr(table, name)(**given)
            except ProjsegError:
                pass
            except Exception as error:
                raise AssertionError((argument, odd)) from error
            if set(table.schema.names) != set(ROWS) or table.query().num_rows != 2:
                table = _table(tmp_path / f"t{(count := count + 1)}")


@pytest.mark.parametrize("method", ["query", "explain", "append", "merge", "create_view"])
def test_an_unknown_name_is_pythons_error(method, tmp_path):
    with pytest.raises(TypeError, match="where"):
        getattr(_table(tmp_path / "t"), method)(where="k = 1")
