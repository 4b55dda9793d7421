"""Each place that a table's metadata can name: followed beside it, below a root, or never."""

import os
import random
import shutil
from pathlib import Path

import msgspec
import pytest
from forged_views import forge_views
from scale import tries

import projseg
from projseg import Table
from projseg.errors import InvalidInputError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.table.table_version import reader_of
from projseg.table.writes import append
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import CommitNote, SetProperties
from projseg.table_layer.metadata.table_properties import VIEW_OF
from projseg.table_layer.storage.paths import new_write_id
from projseg.views.definitions.definition import stored_groups_spec
from projseg.views.linked_tables import _NAMED, ROOTS
from projseg.views.view_records import ViewEntry

SQL = "SELECT p.word, count(*) AS n FROM f JOIN p ON f.k = p.k GROUP BY p.word"
PUBLIC, SECRET = "public-word", "salary-of-the-boss"


def dimension(location, word):
    Path(location).parent.mkdir(parents=True, exist_ok=True)
    columns = {"k": "string", "word": "string"}
    return Table.create(location, columns, data=[{"k": "a", "word": word}])


@pytest.fixture
def warehouse(tmp_path):
    """A fact with a view over a table beside it, in which nobody has named another table."""
    folder = tmp_path / "w" / "team"
    fact = Table.create(folder / "f", {"k": "string"}, data=[{"k": "a"}])
    places = dimension(folder / "p", PUBLIC)
    fact.create_view("v", SQL, tables={"f": fact, "p": places})
    _NAMED.clear()
    return folder


def bytes_below(folder):
    return b"".join(p.read_bytes() for p in Path(folder).rglob("*") if p.is_file())


def point_at(folder, location, table_id):
    """Let the view's dimension be another table, as whoever may write the folder can."""

    properties = Table(folder / "f").properties

    def change(view):
        (one,) = view["dimensions"]
        view["definition"] = view["definition"].replace(one["table_id"], table_id)
        one.update(location=location, table_id=table_id)
        spec = stored_groups_spec(msgspec.convert(view, ViewEntry), properties)
        view.update(definition_hash=spec.definition_hash, manifests=[], covered=[0, 0])

    forge_views(folder / "f", change)


def view_row(folder):
    KEPT.clear()
    return Table(folder / "f").views().to_pylist()[0]


def spellings(target, folder, random):
    """Return ways to write where a table is, seen from the store of views."""
    base = folder / "f" / "views"
    up = "/".join([".."] * 30)
    return random.choice(
        [
            str(target),
            os.path.relpath(target, base),
            f"file://{target}",
            f"file:{target}",
            f"{folder}/x/../{os.path.relpath(target, folder)}",
            f"{up}{target}",
            f"//{target}",
            f"{target}/",
            f"../../p/../{os.path.relpath(target, folder)}",
            f"file://localhost{target}",
        ]
    )


def test_a_commit_copies_no_table_that_only_the_committer_may_read(warehouse, tmp_path):
    secret = dimension(tmp_path / "hr" / "salaries", SECRET)
    point_at(warehouse, str(tmp_path / "hr" / "salaries"), secret.properties.table_id)
    Table(warehouse / "f").append([{"k": "a"}])
    assert SECRET.encode() not in bytes_below(warehouse)
    row = view_row(warehouse)
    assert row["state"] == "broken"
    assert ROOTS in row["last_error"]


def test_drawn_places_of_dimensions(warehouse, tmp_path, monkeypatch):
    """Places drawn: how deep, by links, in which spelling, with which id, and under which roots."""
    drawn = random.Random(8)
    outcomes = {"followed": 0, "refused": 0}
    kept = tmp_path / "kept"
    shutil.copytree(warehouse, kept)
    for number in range(tries(300)):
        shutil.rmtree(warehouse)
        shutil.copytree(kept, warehouse)
        where = drawn.choice(["beside", "inside", "deeper", "above", "outside", "link", "linked"])
        real = {
            "beside": warehouse / f"d{number}",
            "inside": warehouse / "f" / "inner",
            "deeper": warehouse / "other" / f"d{number}",
            "above": warehouse.parent / f"d{number}",
            "outside": tmp_path / "out" / f"d{number}",
            "link": tmp_path / "out" / f"d{number}",
            "linked": warehouse / f"d{number}",
        }[where]
        table_id = dimension(real, SECRET).properties.table_id
        target = real
        if where == "link":  # a link beside the fact that leads elsewhere
            target = warehouse / f"link{number}"
            target.symlink_to(real)
        if where == "linked":  # a link elsewhere that leads beside the fact
            target = tmp_path / f"link{number}"
            target.symlink_to(real)
        is_known = drawn.random() < 0.8
        roots = drawn.choice(
            [
                None,
                None,
                None,
                str(tmp_path / "out"),
                "/",
                str(real)[:-1],
                f"{tmp_path}/zz:s3://b/w",
            ]
        )
        monkeypatch.setenv(ROOTS, roots or "")
        location = spellings(target, warehouse, drawn)
        point_at(warehouse, location, table_id if is_known else "0" * 32)
        Table(warehouse / "f").append([{"k": "a"}])
        below = roots is not None and (
            roots == "/" or (roots == str(tmp_path / "out") and where in ("outside", "link"))
        )
        may = is_known and (where in ("beside", "linked") or below)
        is_copied = SECRET.encode() in bytes_below(warehouse / "f" / "views")
        row = view_row(warehouse)
        if is_copied:
            assert may, (where, location, roots)
            outcomes["followed"] += 1
        else:
            assert row["last_error"] or row["state"] == "broken", (where, location, roots)
            outcomes["refused"] += 1
            is_plain = location == str(target)
            assert not (may and is_plain), (where, location, roots, row["last_error"])
        shutil.rmtree(real, ignore_errors=True)
    assert min(outcomes.values()) > tries(300) // 10, outcomes


def test_the_process_that_made_a_view_follows_the_tables_that_it_named(tmp_path):
    fact = Table.create(tmp_path / "a" / "f", {"k": "string"}, data=[{"k": "a"}])
    places = dimension(tmp_path / "b" / "p", PUBLIC)
    fact.create_view("v", SQL, tables={"f": fact, "p": places})
    fact.append([{"k": "a"}])
    assert fact.views().column("state").to_pylist() == ["fresh"]
    _NAMED.clear()
    fact.refresh().append([{"k": "a"}])
    assert fact.views().column("state").to_pylist() == ["broken"]
    with pytest.raises(InvalidInputError, match=r"PROJSEG_OUTSIDE_ROOTS.*'p'"):
        fact.view("v").refresh()
    assert projseg.sql(SQL, {"f": fact, "p": places})["n"].to_pylist() == [3]


def test_a_root_of_the_environment(tmp_path, monkeypatch):
    fact = Table.create(tmp_path / "a" / "f", {"k": "string"}, data=[{"k": "a"}])
    places = dimension(tmp_path / "b" / "p", PUBLIC)
    fact.create_view("v", SQL, tables={"f": fact, "p": places})
    _NAMED.clear()
    monkeypatch.setenv(ROOTS, f"/nowhere:{tmp_path}/b:s3://bucket/w")
    fact.append([{"k": "a"}])
    assert fact.views().column("state").to_pylist() == ["fresh"]
    places.refresh().append([{"k": "b", "word": "more"}])
    # The property of a dimension names the fact, which lies below no root.
    assert fact.refresh().views().column("state").to_pylist() == ["behind"]


def test_a_mark_in_a_dimension_is_followed_only_to_views_that_read_it(warehouse, tmp_path, caplog):
    """`viewOf.…` is text of whoever may write the dimension; it makes no commit write elsewhere."""
    elsewhere = Table.create(tmp_path / "else" / "f", {"k": "string"}, data=[{"k": "a"}])
    elsewhere.create_view("mine", "SELECT k, count(*) AS n FROM f GROUP BY k", refresh="commit")
    (view_id,) = reader_of(elsewhere).view_store().views
    note = CommitNote()
    append(elsewhere.snapshot, [{"k": "b"}], on_segment=None, note=note)  # the view is behind now
    shutil.copytree(tmp_path / "else" / "f", warehouse / "beside")
    _NAMED.clear()
    places = Table(warehouse / "p")
    folders = [tmp_path / "else", warehouse / "beside"]
    before = list(map(bytes_below, folders))
    for where in (str(tmp_path / "else" / "f"), "../../../else/f", "../beside"):
        change = SetProperties(properties={f"{VIEW_OF}{view_id}": where})
        kept = {"write_id": new_write_id(), "operation": "set properties"}
        commit(places.snapshot.storage, places.refresh().snapshot, change, **kept)
        places.refresh().append([{"k": "z", "word": "z"}])
        assert list(map(bytes_below, folders)) == before
    assert "PROJSEG_OUTSIDE_ROOTS" in caplog.text


@pytest.mark.parametrize("location", ["../../p", "/etc", "file:///etc", "s3://bucket/x", "", "."])
def test_the_fact_of_a_view_is_the_table_around_its_store(warehouse, location):
    forge_views(warehouse / "f", lambda view: view["fact"].update(location=location))
    view = Table(warehouse / "f").view("v")  # may be dropped
    with pytest.raises(ProjsegError, match=r"PROJSEG_CORRUPT_TABLE.*of a table elsewhere"):
        assert view.sql
    with pytest.raises(ProjsegError, match=r"PROJSEG_CORRUPT_TABLE.*of a table elsewhere"):
        view.refresh()
    Table(warehouse / "f").append([{"k": "a"}])
    assert Table(warehouse / "f").query(aggregators="count(*) AS n")["n"].to_pylist() == [2]
