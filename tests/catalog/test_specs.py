"""What a definition may say: its fields, its rules, merges, moves, and Druid's spelling."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.catalog.spec.druid_spec import from_druid
from projseg.catalog.spec.spec_edits import (
    merged,
    moved,
    with_hidden,
    with_renamed_column,
    without_columns,
)
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import SPEC_BYTES_MAX, TableSpec
from projseg.errors import InvalidInputError

SPEC = {
    "type": "table",
    "properties": {
        "description": "Edits",
        "timeColumn": "time",
        "segmentGranularity": "P1D",
        "targetSegmentRows": 3000000,
        "clusterKeys": [{"column": "channel"}],
        "hiddenColumns": ["debug"],
        "projections": [
            {"name": "by_channel", "sql": "SELECT channel, sum(added) AS added GROUP BY ALL"}
        ],
        "retention": "400 days",
        "sealed": False,
        "tableProperties": {"autoCompact": "true"},
    },
    "columns": [
        {"name": "time", "sqlType": "timestamp"},
        {"name": "channel", "sqlType": "string", "comment": "IRC name"},
        {"name": "added", "sqlType": "bigint", "properties": {"unit": "bytes"}},
    ],
}


def spec_of(**properties):
    return {"properties": properties, "columns": SPEC["columns"]}


def test_what_was_written_is_what_is_read():
    spec = checked(TableSpec.of(SPEC))
    assert json.loads(spec.to_json()) == SPEC
    assert checked(TableSpec.of(spec.to_json())) == spec
    shuffled = dict(reversed(list(SPEC.items())))
    assert TableSpec.of(shuffled).to_json() == spec.to_json()


BROKEN = {
    "$.properties.segmentGranularty": spec_of(segmentGranularty="P1D"),
    "$.columns[1].sqltype": {"columns": [{"name": "a"}, {"name": "b", "sqltype": "int"}]},
    "$.properties.clusterKeys[0].colum": spec_of(clusterKeys=[{"colum": "x"}]),
    "$.properties.clusterKeys[0].desc": spec_of(clusterKeys=[{"column": "x", "desc": True}]),
    "$.properties.targetSegmentRows": spec_of(targetSegmentRows=0),
    "$.properties.timeColumn": spec_of(timeColumn="channel"),
    "$.properties.segmentGranularity": spec_of(segmentGranularity="day"),
    "$.properties.retention": spec_of(retention="400 days"),
    "$.properties.hiddenColumns": spec_of(timeColumn="time", hiddenColumns=["TIME"]),
    "$.properties.hiddenColumns[1]": spec_of(hiddenColumns=["a", "A"]),
    "$.properties.projections[0]": spec_of(
        projections=[{"name": "p", "sql": "SELECT channel, sum(channel) AS s GROUP BY ALL"}]
    ),
    "$.properties.projections[1].name": spec_of(
        projections=[
            {"name": name, "sql": "SELECT channel, count(*) AS n GROUP BY ALL"} for name in "pP"
        ]
    ),
    "$.properties.tableProperties.apiToken": spec_of(tableProperties={"apiToken": "x"}),
    "$.properties.tableProperties.catalog.definition": spec_of(
        tableProperties={"catalog.definition": "x"}
    ),
    "$.properties.description": spec_of(description="x" * 9000),
    "$.columns[1].name": {"columns": [{"name": "a"}, {"name": "A"}]},
    "$.columns[0].sqlType": {"columns": [{"name": "a", "sqlType": "varchr"}]},
    "$.columns[0].name": {"columns": [{"name": ""}]},
    "$.columns[0].comment": {"columns": [{"name": "a", "comment": "a\0b"}]},
    "$.columns": {"columns": [{"name": f"c{n}"} for n in range(4097)]},
    "$.type": {"type": "tabel"},
    "$.properties.filePattern": {
        "type": "files",
        "properties": {"baseDir": "/d", "files": ["a"], "filePattern": "*"},
    },
    "$.properties.files[0]": {
        "type": "files",
        "properties": {"baseDir": "/d", "files": ["../a"], "format": "parquet"},
    },
    "$.properties.uriTemplate": {"type": "http", "properties": {"uriTemplate": "https://a/"}},
    "$.properties.data": {"type": "inline", "columns": [{"name": "a"}]},
    "$.properties.delimiter": {
        "type": "inline",
        "properties": {"data": "", "format": "json", "delimiter": ";"},
    },
}


@pytest.mark.parametrize("path", BROKEN)
def test_a_broken_rule_is_named_by_its_path(path):
    with pytest.raises(InvalidInputError) as caught:
        checked(TableSpec.of(BROKEN[path]))
    assert caught.value.code == "PROJSEG_BAD_SPEC"
    assert caught.value.message.startswith(f"{path}: ")


LONG = {
    "$.properties.description": spec_of(description="x" * 8193),
    "$.columns[0].comment": {"columns": [{"name": "a", "comment": "ü" * 4097}]},
    "$.columns[1].properties": {
        "columns": [{"name": "a"}, {"name": "b", "properties": {"k": "x" * 8192}}]
    },
    "$.columns[0].sqlType": {"columns": [{"name": "a", "sqlType": f"struct<`{'x' * 256}`:int>"}]},
    "$.properties.tableProperties": spec_of(tableProperties={"k": "x" * 262_144}),
    "$.properties.filePattern": {
        "type": "files",
        "properties": {"baseDir": "/d", "format": "parquet", "filePattern": "*" * 4097},
    },
}
PARTS = {"$.properties.filePattern": {**LONG["$.properties.filePattern"]}}
PARTS["$.properties.filePattern"]["properties"] = {
    "baseDir": "/d",
    "format": "parquet",
    "filePattern": "**/" * 64 + "a",
}


@pytest.mark.parametrize("broken", [LONG, PARTS], ids=["bytes", "parts"])
def test_a_text_that_is_too_long_is_named_by_its_path(broken):
    for path, spec in broken.items():
        with pytest.raises(InvalidInputError, match=r"has \d+ (bytes|parts)") as caught:
            checked(TableSpec.of(spec))
        assert caught.value.code == "PROJSEG_BAD_SPEC"
        assert caught.value.message.startswith(f"{path}: ")


def test_the_longest_texts_are_kept():
    found = checked(
        TableSpec.of(
            {
                "properties": {
                    "description": "x" * 8192,
                    "tableProperties": {"k": "x" * 262_143},
                },
                "columns": [
                    {"name": "a", "comment": "ü" * 4096, "properties": {"k": "x" * 8184}},
                    {"name": "b", "sqlType": f"struct<`{'x' * 255}`:int>"},
                ],
            }
        )
    )
    assert TableSpec.of(found.to_json()) == found
    files = {"baseDir": "/d", "format": "parquet", "filePattern": "**/" * 63 + "a"}
    assert checked(TableSpec.of({"type": "files", "properties": files}))


def test_a_near_name_is_suggested():
    with pytest.raises(InvalidInputError, match="did you mean 'segmentGranularity'"):
        TableSpec.of(spec_of(segmentGranularty="P1D"))
    with pytest.raises(InvalidInputError, match="did you mean 'table'"):
        TableSpec.of({"type": "tabel"})


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"columns":' + "[" * 100_000,
        "",
        "null",
        "[]",
        '{"columns": [1]}',
        '{"properties": []}',
        "\ud800",
        json.dumps({"properties": {"description": "x" * SPEC_BYTES_MAX}}),
        '{"properties": {"projections": [' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "]}}",
        '{"properties": {"targetSegmentRows": 1e999}}',
    ],
)
def test_hostile_text_is_refused(text):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_SPEC"):
        checked(TableSpec.of(text))
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_SPEC"):
        merged(TableSpec(), text if text != "" else "x")


def test_a_merge_replaces_adds_and_removes():
    spec = checked(TableSpec.of(SPEC))
    found = merged(
        spec,
        {
            "properties": {"retention": None, "hiddenColumns": ["extra", "DEBUG"], "sealed": True},
            "columns": [{"name": "ADDED", "sqlType": "int"}, {"name": "city", "sqlType": "string"}],
        },
    ).to_dict()
    assert "retention" not in found["properties"]
    assert found["properties"]["hiddenColumns"] == ["debug", "extra"]
    assert found["properties"]["description"] == "Edits"
    assert found["columns"][2:] == [
        {"name": "added", "sqlType": "int", "properties": {"unit": "bytes"}},
        {"name": "city", "sqlType": "string"},
    ]
    with pytest.raises(InvalidInputError, match="type table, which does not change"):
        merged(spec, {"type": "inline"})
    with pytest.raises(InvalidInputError, match="did you mean 'properties'"):
        merged(spec, {"propertys": {}})
    with pytest.raises(InvalidInputError, match=r"\$\.properties\.projections\[0\]"):
        merged(spec, {"columns": [{"name": "added", "sqlType": "string"}]})


@given(st.permutations(["a", "b", "c", "d"]), st.data())
def test_columns_move_as_in_a_list(names, data):
    spec = TableSpec.of({"columns": [{"name": name} for name in names]})
    column, anchor = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    where = data.draw(st.sampled_from(["first", "last", "before", "after"]))
    wanted = [name for name in names if name != column]
    if column == anchor and where in ("before", "after"):
        wanted = list(names)
    else:
        place = {"first": 0, "last": len(wanted)}.get(where)
        if place is None:
            place = wanted.index(anchor) + (where == "after")
        wanted.insert(place, column)
    found = moved(spec, column.upper(), where, anchor)
    assert [one.name for one in found.columns] == wanted


def test_columns_that_the_layout_names_stay():
    spec = checked(TableSpec.of(SPEC))
    for name in ("time", "CHANNEL", "added"):
        with pytest.raises(InvalidInputError, match="PROJSEG_COLUMN_IN_USE"):
            without_columns(spec, [name])
    with pytest.raises(InvalidInputError, match=r"PROJSEG_UNKNOWN_COLUMN.*did you mean 'added'"):
        without_columns(spec, ["addd"])
    hidden = with_hidden(spec, hide=["added"])
    assert hidden.hidden == {"debug", "added"}
    assert with_hidden(hidden, unhide=["ADDED"]) == spec
    renamed = with_renamed_column(spec, "Time", "moment")
    assert renamed.layout.time_column == renamed.columns[0].name == "moment"


def test_druids_spelling_becomes_ours():
    spec = from_druid(
        {
            "type": "datasource",
            "properties": {"segmentGranularity": "P1D", "clusterKeys": [{"column": "x"}]},
            "columns": [
                {"name": "x", "dataType": "VARCHAR"},
                {"name": "n", "sqlType": "LONG"},
                {"name": "tags", "dataType": "ARRAY<STRING>"},
            ],
        }
    )
    assert [(one.name, one.sql_type) for one in spec.columns] == [
        ("__time", "timestamp"),
        ("x", "string"),
        ("n", "bigint"),
        ("tags", "array<string>"),
    ]
    assert spec.layout.time_column == "__time"
    local = from_druid(
        '{"type": "extern", "properties": {"source": "local", "baseDir": "/d", "file": "a.csv, b",'
        ' "format": "csv"}, "columns": [{"name": "x", "dataType": "STRING"}]}'
    )
    assert (local.type, local.properties.files) == ("files", ("a.csv", "b"))
    with pytest.raises(InvalidInputError, match="states of aggregates"):
        from_druid({"columns": [{"name": "x", "dataType": "COMPLEX<hyperUnique>"}]})
