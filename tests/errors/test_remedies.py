"""An error says what was asked, what was found, and what to do."""

from __future__ import annotations

import logging
import pickle

import pytest

import projseg
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.text_files import TextForm
from projseg.cli.shared_arguments import content_of
from projseg.errors import CommitError, ProjsegError

COUNT = "SELECT c, count(*) AS r FROM t GROUP BY c"
DOORS = {
    "aggregate of rows": ("'abs(sum(n))'", "group by the other columns"),
    "order by an aggregate": ("'sum(n)'", "group by the other columns"),
    "value of an aggregate": ("max(n)", "ask for the aggregate of groups"),
    "column beside groups": ("'n'", "group by it, or take any_value of it"),
    "unknown function": ("'nosuch'", "docs/functions.md lists"),
    "unknown table": ("'v'", "they are t"),
    # door: (what was asked, what to do)
    "open quote": ("SELECT 'abc FROM t", "close it"),
    "open quote in a filter": ("c = 'x", "has no end"),
    "absent file": ("absent.csv", "check the path"),
    "binary file": ("binary.csv", "convert it"),
    "empty file": ("empty.csv", "give a file with rows"),
    "absent text": ("nofile", "after @, or the text itself"),
    "dropped tag": ("nope", "its tags are first"),
    "opened tag": ("nope", "its tags are first"),
    "dropped projection": ("nope", "projections are p"),
    "dropped index": ("nope", "its indexes are i"),
    "dropped column": ("nope", "its columns are c, n"),
    "tables": ("edits", "give a dict of names"),
    "whole query": ("query's text", "write it as Query.to_json does"),
}


@pytest.fixture
def doors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary.csv").write_bytes(bytes(range(128, 256)))
    (tmp_path / "empty.csv").write_bytes(b"")
    table = projseg.Table.create(
        tmp_path / "t",
        {"c": "string", "n": "bigint"},
        data={"c": ["x"], "n": [1]},
        projections=[projseg.Projection("p", ["c"], ["count(*) AS r"])],
        indexes=[projseg.Index("i", "c")],
    )
    table.tag("first")
    form = TextForm()
    return {
        "aggregate of rows": lambda: table.query(columns=["abs(sum(n))"]),
        "order by an aggregate": lambda: table.sql("SELECT c FROM t ORDER BY sum(n)"),
        "value of an aggregate": lambda: table.update({"n": "max(n)"}),
        "column beside groups": lambda: table.sql("SELECT c, n FROM t GROUP BY c"),
        "unknown function": lambda: table.query("nosuch(c)"),
        "unknown table": lambda: projseg.sql("SELECT c FROM v", {"t": table}),
        "open quote": lambda: table.sql("SELECT 'abc FROM t"),
        "open quote in a filter": lambda: table.query(filter="c = 'x"),
        "absent file": lambda: Sources(["absent.csv"], None, form).schema,
        "binary file": lambda: Sources(["binary.csv"], None, form).schema,
        "empty file": lambda: Sources(["empty.csv"], None, form).schema,
        "absent text": lambda: content_of("@nofile", "the statement"),
        "dropped tag": lambda: table.drop_tag("nope"),
        "opened tag": lambda: projseg.Table(table.location, tag="nope"),
        "dropped projection": lambda: table.drop_projection("nope"),
        "dropped index": lambda: table.drop_index("nope"),
        "dropped column": lambda: table.drop_column("nope"),
        "tables": lambda: table.sql(COUNT, tables={"edits": 1}),
        "whole query": lambda: projseg.Query.from_json("{"),
    }


@pytest.mark.parametrize("door", DOORS)
def test_what_was_asked_is_repeated_and_a_remedy_named(doors, door):
    asked, remedy = DOORS[door]
    with pytest.raises(ProjsegError) as caught:
        doors[door]()
    assert asked in caught.value.message
    assert remedy in caught.value.message


def test_a_refresh_that_fails_is_told_with_what_to_do(doors, tmp_path, caplog):
    table = projseg.Table(tmp_path / "t")
    table.create_view("v", COUNT)
    for file in (tmp_path / "t" / "views").rglob("*.json"):
        file.write_bytes(b"not JSON")
    with caplog.at_level(logging.WARNING):
        projseg.Table(tmp_path / "t").append({"c": ["y"], "n": [2]})
    assert "the refresh of its views failed, and answers come from segments until" in caplog.text


@pytest.mark.parametrize("verb", ["projection", "index"])
def test_an_error_after_a_declaration_says_that_it_stands(doors, tmp_path, monkeypatch, verb):
    table = projseg.Table(tmp_path / "t")
    error = CommitError("PROJSEG_STORAGE_FULL", "nothing was committed: no room")

    def refuse(*given, **named):
        raise error

    edits = f"projseg.table.{verb}_edits.{verb.title()}Edits"
    monkeypatch.setattr(f"{edits}.materialize", refuse)
    added = {
        "index": lambda: table.add_index(projseg.Index("q", "n"), materialize=True),
        "projection": lambda: table.add_projection(
            projseg.Projection("q", ["n"], ["count(*) AS r"]), materialize=True
        ),
    }
    words = f"{verb} 'q' is declared, and building it .*later"
    with pytest.raises(CommitError, match=words) as told:
        added[verb]()
    assert told.value.code == error.code
    assert str(told.value) == str(pickle.loads(pickle.dumps(told.value)))
    assert "q" in table.projections()["name"].to_pylist() + table.indexes()["name"].to_pylist()
