"""A folder that loses permission in the midst of an append: an error, nothing committed."""

import os
from functools import partial

import pytest
from test_failed_appends import as_nobody, told_by
from test_table_appends import SCHEMA, answers, rows_of

import projseg

NOBODY = 65534


def append_and_lose(location, lost):
    """Append while a folder becomes read-only, and again when it is not any longer."""
    table, folder = projseg.Table(location), location / lost

    def batches():
        folder.chmod(0o555)  # before rows come, as a thread may write what has come
        yield from rows_of("w", 0).to_batches()

    told = told_by(lambda: table.append(batches()))
    folder.chmod(0o755)
    seen = projseg.Table(location).version
    return *told, seen, projseg.Table(location).append(rows_of("again", 0)).version


@pytest.mark.parametrize("lost", ["data", "_projseg/manifests", "_projseg"])
def test_a_folder_loses_permission_in_the_midst_of_an_append(tmp_path, lost):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    location = tmp_path / "t"
    table = projseg.Table.create(location, SCHEMA, time_column="time", target_segment_rows=4)
    table.append(rows_of("before", 0))
    for path in (location, *location.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    code, message, seen, landed = as_nobody(partial(append_and_lose, lost=lost), location)
    assert code == "PROJSEG_NO_PERMISSION"
    assert str(location / lost) in message
    assert (seen, landed) == (1, 2)
    assert set(answers(location)) == {"before", "again"}
    assert projseg.Table(location).verify() == []
