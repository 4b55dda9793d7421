"""Comments and properties have bounds wherever they are set; what is stored stays usable."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError, LimitExceededError
from projseg.spark_engine.warehouse import set_properties
from projseg.table_layer.metadata.metadata_limits import (
    COMMENT_BYTES_MAX,
    NAME_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    PROPERTY_BYTES_MAX,
)

ROWS = pa.table({"n": [1, 2], "k": ["a", "b"]})
SELECT = "SELECT k, count(*) AS n FROM t GROUP BY k"


def kept_of_a_column(comment):
    """A column as Spark's catalogs keep it, with the comment at a field within."""
    field = {"name": "f", "type": "int", "nullable": True, "metadata": {"comment": comment}}
    within = {"type": "array", "containsNull": True}
    within["elementType"] = {"type": "struct", "fields": [field]}
    whole = {"name": "c", "type": within, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [whole]}, ensure_ascii=False)


COMMENT = "ü" * (COMMENT_BYTES_MAX // 2)
PROPERTIES = [
    ("note", "x" * (PROPERTY_BYTES_MAX - 4), "x"),
    ("ü" * (PROPERTY_BYTES_MAX // 2), "", "x"),
    ("comment", COMMENT, "x"),
    ("column.c", kept_of_a_column(COMMENT), kept_of_a_column(COMMENT + "x")),
    ("column.c", "[" * (PROPERTY_BYTES_MAX - 8), "["),
]


@pytest.mark.parametrize("way", ["create", "set"])
@pytest.mark.parametrize("place", range(len(PROPERTIES)))
def test_a_property_and_the_comments_in_it_have_bounds(tmp_path, way, place):
    name, longest, more = PROPERTIES[place]
    longer = more if len(more) > 1 else longest + more

    def tried(text, folder):
        if way == "create":
            made = projseg.Table.create(tmp_path / folder, data=ROWS, properties={name: text})
        else:
            made = projseg.Table.create(tmp_path / folder, data=ROWS)
            set_properties(made, {name: text})
        return projseg.Table(made.location).properties.properties

    assert tried(longest, "kept") == {name: longest}
    with pytest.raises(LimitExceededError, match=r"bytes; at most \d+ are kept") as caught:
        tried(longer, "refused")
    assert caught.value.code == "PROJSEG_METADATA_TOO_LARGE"
    assert len(caught.value.message) < 300


def test_all_properties_have_a_bound_and_may_always_become_fewer(tmp_path, monkeypatch):
    table = projseg.Table.create(tmp_path / "t", data=ROWS)
    text = "x" * (PROPERTY_BYTES_MAX - 4)
    count = PROPERTIES_BYTES_MAX // PROPERTY_BYTES_MAX
    set_properties(table, {f"p{n:03}": text for n in range(count)})
    table.refresh()
    for before in ({}, table.properties.properties):
        with pytest.raises(LimitExceededError, match="together it has"):
            projseg.Table.create(
                tmp_path / "u",
                data=ROWS,
                properties={
                    **before,
                    **dict.fromkeys("abc", text),
                    **{f"q{n:03}": text for n in range(count - 2)},
                },
            )
    with pytest.raises(LimitExceededError, match="together it has"):
        set_properties(table, {"one": ""})
    with monkeypatch.context() as context:  # as an earlier release would have stored them
        context.setattr("projseg.table_layer.commits.rebase.check_all_sizes", lambda *_: None)
        set_properties(table, {"one": "more", "two": "more"})
    table.refresh()
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": 2}]
    table.append(ROWS)
    set_properties(table, {"two": None})
    table.refresh()
    assert "two" not in table.properties.properties
    assert table.verify(deep=True) == []


def test_what_is_kept_of_a_view_has_bounds(tmp_path):
    table = projseg.Table.create(tmp_path / "t", data=ROWS)
    with pytest.raises(LimitExceededError, match="a view's comment: it has 8193 bytes") as caught:
        table.create_view("v", SELECT, comment=COMMENT + "x")
    assert caught.value.code == "PROJSEG_METADATA_TOO_LARGE"
    for comment, words in ((5, "is int; give a text"), ("a\0b", r"U\+0000")):
        with pytest.raises((InvalidInputError, LimitExceededError), match=words):
            table.create_view("v", SELECT, comment=comment)
    assert table.views().num_rows == 0
    made = table.create_view("v", SELECT, comment=COMMENT)
    assert made.detail()["comment"] == COMMENT
    long = "P" + "0" * 1_000 + "1D"
    for refused in (
        lambda: table.create_view("w", SELECT, retain=long),
        lambda: table.create_view("w", SELECT, properties={"retain": long}),
        lambda: made.set_properties({"retain": long}),
        lambda: projseg.Table.create(
            tmp_path / "u", data=ROWS, properties={"projection.p.retain": long}
        ),
    ):
        with pytest.raises(InvalidInputError, match="100 characters or fewer"):
            refused()


@pytest.mark.parametrize("depth", range(3))
def test_names_of_fields_have_the_bound_of_columns(tmp_path, depth):
    def schema(name):
        kind = pa.struct([(name, pa.int64())])
        for level in range(depth):
            kind = pa.list_(kind) if level % 2 else pa.map_(pa.string(), kind)
        return pa.schema([("c", kind)])

    longest = "ü" * (NAME_BYTES_MAX // 2)
    made = projseg.Table.create(tmp_path / "kept", schema(longest))
    made.add_column("d", f"struct<`{longest}`:bigint>")
    with pytest.raises(InvalidInputError, match=r"field name .* has 256 bytes") as caught:
        projseg.Table.create(tmp_path / "refused", schema(longest + "xy"))
    assert caught.value.code == "PROJSEG_BAD_NAME"
    with pytest.raises(InvalidInputError, match="256 bytes"):
        made.add_column("e", f"struct<`{longest}xy`:bigint>")
