"""What notebooks show of a table and of an explanation: small, whole and escaped."""

from xml.etree import ElementTree

import pytest

import projseg

EVIL = '<script>alert("1")</script>'


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(
        tmp_path / "a & b",
        {EVIL: "string", "channel": "string", "added": "int"},
        projections=[projseg.Projection("all", ["channel"], ["sum(added)"])],
    )
    made.append({EVIL: [EVIL, "x"], "channel": ["#en", "#de"], "added": [1, 2]})
    return made


def cells(html):
    """Return the texts of a form's table, which must be well-formed."""
    return [[cell.text or "" for cell in line] for line in ElementTree.fromstring(html).iter("tr")]


def test_a_table_shows_where_it_is_and_what_it_holds(table):
    html = table._repr_html_()
    assert ElementTree.fromstring(html).find("strong").text == "a & b"
    assert dict(cells(html)) == {
        "location": table.location,
        "version": "1",
        "rows": "2",
        "segments": "1",
        "columns": f"{EVIL} string, channel string, added int",
        "projections": "all",
    }


def test_many_columns_are_cut(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {f"c{n}": "int" for n in range(1000)})
    shown = dict(cells(table._repr_html_()))["columns"]
    assert shown.endswith("c19 int ... 980 more")


def test_an_explanation_shows_what_was_chosen_and_why_not(table):
    plan = table.explain("channel", "sum(added)")
    (header, line) = cells(plan._repr_html_())
    assert header == ["source", "segments", "rows", "bytes", "not used"]
    assert line[:3] == ["all", "1", "2"]
    refused = table.explain(aggregators="count(*)", filter=f"`{EVIL}` = '{EVIL}'\nOR added = 1")
    (_, line) = cells(refused._repr_html_())
    assert line[0] == "base"
    assert line[4].startswith("all: ")
    assert "<script" not in refused._repr_html_()
    title = ElementTree.fromstring(refused._repr_html_()).find("strong").text
    assert title.endswith("OR added = 1")


def test_an_explanation_of_a_table_without_rows_has_no_lines(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "int"})
    assert cells(table.explain(columns="a")._repr_html_()) == [
        ["source", "segments", "rows", "bytes", "not used"]
    ]
