"""Halves of characters, deep nesting and other oddities end in errors with codes, at every door."""

from __future__ import annotations

import inspect
import json

import pytest

import projseg
from projseg.errors import InvalidInputError, ProjsegError, without_secrets

HALF = "a\ud800b"
_DEEP = json.loads("[" * 900 + "]" * 900)
ODD = {
    "half": HALF,
    "quoted half": f"'{HALF}'",
    "deep": _DEEP,
    "deep text": "[" * 3_000 + "]" * 3_000,
    "deep object": '{"a":' * 500 + "1" + "}" * 500,
    "halves": [HALF],
    "object of halves": {HALF: HALF},
    "object of deep": {"c": _DEEP},
}
USUAL = {
    "text": "SELECT c FROM t",
    "data": {"c": ["x"]},
    "source": {"c": ["x"]},
    "filter": "n = 1",
    "version": 0,
    "values": {"n": "1"},
    "declaration": projseg.Projection("p", ["c"], ["count(*) AS r"]),
}
LEFT_OUT = {  # any value of these means something, or is Python's own to refuse
    "on_segment", "explain", "analyze", "deep", "dry_run", "force", "spark", "requested_schema",
    "all_versions", "by_partition", "follow",
}  # fmt: skip


@pytest.fixture
def table(tmp_path):
    return projseg.Table.create(
        tmp_path / "t", {"c": "string", "n": "bigint"}, data={"c": ["x"], "n": [1]}
    )


def _refused(call, *arguments, **named):
    """What is raised that is not an error of projseg's with a message that can be printed."""
    try:
        call(*arguments, **named)
    except ProjsegError as error:
        str(error).encode()
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return f"{type(error).__name__}: {error}"[:100]
    return None


@pytest.mark.parametrize("odd", ODD)
def test_every_argument_of_a_tables_methods(table, odd):
    raw = {}
    tried = 0
    for name in dir(projseg.Table):
        method = None if name.startswith("_") else inspect.getattr_static(projseg.Table, name)
        if not inspect.isfunction(method) or name in ("refresh",):
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        needed = {p.name: USUAL.get(p.name, "x") for p in parameters if p.default is p.empty}
        for parameter in parameters:
            if parameter.name in LEFT_OUT:
                continue
            tried += 1
            arguments = {**needed, parameter.name: ODD[odd]}
            found = _refused(getattr(table, name), **arguments)
            if found is not None:
                raw[f"{name}({parameter.name})"] = found
    assert raw == {}, raw
    assert tried > 60


@pytest.mark.parametrize("odd", ODD)
def test_every_other_door(table, tmp_path, odd):
    value = ODD[odd]
    raw = {}
    for name in inspect.signature(projseg.Table.create).parameters:
        if name not in LEFT_OUT:
            given = {"location": tmp_path / "new", "schema": {"c": "string"}, name: value}
            raw["create", name] = _refused(projseg.Table.create, **given)
    raw["column"] = _refused(projseg.Table.create, tmp_path / "new", {HALF: "string"})
    for name in ("name", "group_by", "aggregators", "where", "columns", "order_by"):
        given = {"name": "p", "group_by": ["c"], "aggregators": ["count(*)"], name: value}
        raw["projection", name] = _refused(
            lambda: table.add_projection(projseg.Projection(**given))  # noqa: B023
        )
        raw["declared", name] = _refused(table.add_projection, json.dumps(given))
    for key in ("useProjection", "excludeProjections", "timezone", "threads", "timeLimit", HALF):
        raw["context", key] = _refused(table.query, "c", context={key: value})
    for name in ("group_by", "filter", "interval", "having", "context", "limit"):
        text = json.dumps({"projseg_query": 1, name: value})
        raw["query", name] = _refused(lambda: table.query(projseg.Query.from_json(text)))  # noqa: B023
    raw["query"] = _refused(projseg.Query.from_json, value)
    for name in ("c", "n"):
        raw["rows", name] = _refused(table.append, {"c": ["x"], "n": [1], name: [value]})
        raw["list of rows", name] = _refused(table.append, [{name: value}])
    raw["place"] = _refused(projseg.Table, value)
    raw["store"] = _refused(projseg.Table, "s3://b/t", storage_options=value)
    raw["tag"] = _refused(projseg.Table, tmp_path / "t", tag=value)
    found = {door: what for door, what in raw.items() if what is not None}
    assert found == {}, found


SECRET = [
    "https://user:hidden@host/t",
    "s3://bucket/t?X-Amz-Signature=hidden&x=1",
    "https://a.blob.core.windows.net/c/t?sv=1&sig=hidden",
    "file:///t?sig=hidden",
    "abfss://c@a.dfs.core.windows.net/t?sv=1;AccountKey=hidden",
    "hdfs://user:hidden@nn/t",
    "https://user:hid/hidden@host/t",
    "https://user:hid@hidden@host/t",
    "gs://b/t#access_token=hidden",
]


@pytest.mark.parametrize("location", SECRET)
def test_no_message_repeats_a_secret_of_a_location(location):
    for call in (
        lambda: projseg.Table(location),
        lambda: projseg.Table.create(location, {"c": "string"}),
        lambda: projseg.Table(location, storage_options={"no_such": "1"}),
        lambda: projseg.Table("t", version=location),
    ):
        with pytest.raises((ProjsegError, ImportError)) as caught:
            call()
        shown = f"{caught.value} {caught.value!r}"
        assert "hidden" not in shown
    assert "hidden" not in str(InvalidInputError("PROJSEG_BAD_ARGUMENT", f"odd: {location}, yes"))


@pytest.mark.parametrize(
    "name", ["t?sig=hidden", "t&access_token=hidden", "https:??u:p@h?password=hidden"]
)
def test_nothing_that_is_shown_repeats_a_secret_of_a_location(tmp_path, caplog, name):
    caplog.set_level(0)
    projection = projseg.Projection("p", group_by=["a"], aggregators=["count(*)"])
    table = projseg.Table.create(
        tmp_path / name, {"a": "int"}, data={"a": [1]}, projections=[projection]
    )
    table.append({"a": [2]})
    explained = table.explain("a", "count(*)", analyze=True)
    with projseg.QueryPool(table, workers=1) as pool:
        shown = [repr(pool)]
    shown += [repr(one) for one in (table, table.snapshot, table.snapshot.storage, explained)]
    shown += [str(explained), table._repr_html_(), explained._repr_html_()]
    shown += [str(table.history().to_pylist()), str(table.compact()), caplog.text]
    assert [one for one in shown if "hidden" in one] == []


@pytest.mark.parametrize(
    "text",
    [
        "abfss://c@a.dfs.core.windows.net/t",
        "x = 1 AND y = 2",
        "s3://b/a@b:c",
        "a?sign=1",
        "https://host:8080/a@b",
    ],
)
def test_what_is_no_secret_is_told(text):
    assert without_secrets(text) == text
