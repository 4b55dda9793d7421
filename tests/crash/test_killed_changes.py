"""Deleting, overwriting and vacuuming, killed at every changing call."""

from contextlib import suppress
from itertools import count

import pytest
from race import run_and_die
from recorded_os import DyingOs

import projseg
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT
from projseg.table_layer.storage import local_storage

CHANGES = {
    "delete by a vector": ("1", lambda table: table.delete("n < 2"), [2, 3, 4, 5]),
    "delete by new segments": ("0", lambda table: table.delete("n < 2"), [2, 3, 4, 5]),
    "overwrite": ("0", lambda table: table.overwrite({"n": [9]}), [9]),
}


def rows_of(table):
    return sorted(table.query(columns="n", context={"threads": 1})["n"].to_pylist())


def was_killed(monkeypatch, at, action):
    """Run an action in a child that dies in place of its n-th changing call."""

    def die():
        monkeypatch.setattr(local_storage, "os", DyingOs(at))
        action()

    return run_and_die(die)


def opened(location):
    """Return the table as a new process would see it."""
    KEPT.clear()
    return projseg.Table(location)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", CHANGES)
def test_rows_are_as_before_or_as_after(tmp_path, monkeypatch, kind):
    ratio, change, after = CHANGES[kind]
    landed_while_dying = 0
    for at in count(1):
        location = tmp_path / f"t{at}"
        table = projseg.Table.create(location, {"n": "int"}, properties={"maxDeletedRatio": ratio})
        for numbers in ([0, 1, 2], [3, 4, 5]):
            table.append({"n": numbers})
        is_dead = was_killed(monkeypatch, at, lambda table=table: change(table))
        found = opened(location)
        has_landed = found.version == 3
        assert rows_of(found) == (after if has_landed else list(range(6)))
        assert found.version == 2 + has_landed
        assert found.verify(deep=True) == []
        assert is_dead or has_landed
        change(found)
        assert rows_of(opened(location)) == after
        landed_while_dying += is_dead and has_landed
        if not is_dead:
            break
    assert at > 15
    assert landed_while_dying >= 2


def test_a_vacuum_leaves_whole_versions(tmp_path, monkeypatch):
    for at in count(1):
        location = tmp_path / f"t{at}"
        table = projseg.Table.create(location, {"n": "int"})
        table.append({"n": [1]})
        table.tag("one")
        table.append({"n": [2]})
        table.overwrite({"n": [9]})

        def vacuum(table=table):
            return table.vacuum(0, dry_run=False, force=True)

        is_dead = was_killed(monkeypatch, at, vacuum)
        newest = opened(location)
        assert rows_of(newest) == [9]
        assert rows_of(projseg.Table(location, tag="one")) == [1]
        for version in range(newest.version):
            with suppress(InvalidInputError):  # it is gone
                assert projseg.Table(location, version).verify(deep=True) == []
        vacuum(newest)
        assert len(list((location / "data").iterdir())) == 2
        assert opened(location).verify(deep=True) == []
        assert rows_of(projseg.Table(location, tag="one")) == [1]
        if not is_dead:
            break
    assert at > 15
