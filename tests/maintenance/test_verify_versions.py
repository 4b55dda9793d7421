"""Every version that retention or a tag keeps is verified, and none with damaged files restored."""

from pathlib import Path

import pytest
from life_tables import HOURLY, new_table, rows

import projseg
from projseg.errors import CommitError, CorruptTableError
from projseg.maintenance.verify import kept_version_numbers, verify_kept_versions
from projseg.table_layer.storage.paths import kept_name, snapshot_name


@pytest.fixture
def table(tmp_path):
    """A table whose first version with rows is tagged and whose segments were all replaced."""
    table = new_table(tmp_path / "t", projections=[HOURLY])
    for day in range(2):
        table.append(rows(day))
    table.append(rows(0, first=40))
    table.delete("page = 'page 3'")
    table.tag("kept")
    table.compact()
    return table


def damage(table, name, place=-40):
    path = Path(table.location, name)
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def test_all_versions_are_checked_and_each_file_once(table):
    seen = []
    found = verify_kept_versions(
        table.snapshot.storage, table.snapshot, deep=True, on_segment=seen.append
    )
    assert found == []
    assert kept_version_numbers(table.snapshot) == list(range(table.version, -1, -1))
    listed = {
        entry.listed_as
        for version in range(table.version + 1)
        for entry in projseg.Table(table.location, version=version).snapshot.segments
    }
    assert {entry.listed_as for entry in seen} == listed
    assert len(seen) == len(listed)


@pytest.mark.parametrize("vacuumed", [False, True])
def test_damage_in_a_tagged_version_is_found(table, vacuumed):
    if vacuumed:
        table.vacuum(0, dry_run=False, force=True)
    (entry, *_) = projseg.Table(table.location, tag="kept").snapshot.segments
    assert table.verify(all_versions=True) == []
    damage(table, entry.file)
    assert table.verify() == []
    assert {finding.file for finding in table.verify(all_versions=True)} == {entry.file}


def test_damage_of_what_describes_a_tagged_version_is_found(table):
    table.vacuum(0, dry_run=False, force=True)
    tagged = projseg.Table(table.location, tag="kept").snapshot
    damage(table, tagged.file.manifests[0].name)
    (finding,) = table.verify(all_versions=True)
    assert finding.file == tagged.file.manifests[0].name
    damage(table, kept_name(tagged.version))
    assert [one.file for one in table.verify(all_versions=True)] == [kept_name(tagged.version)]
    Path(table.location, kept_name(tagged.version)).unlink()
    (finding,) = table.verify(all_versions=True)
    assert (finding.file, finding.found) == (kept_name(tagged.version), "missing")


def test_a_lost_version_between_others_is_found(table):
    Path(table.location, snapshot_name(2)).unlink()
    assert [one.file for one in table.verify(all_versions=True)] == [snapshot_name(2)]


@pytest.mark.parametrize("what", ["footer", "vector", "missing", "other"])
def test_a_version_with_damaged_files_is_not_restored(table, what):
    tagged = projseg.Table(table.location, tag="kept").snapshot
    entry = next(entry for entry in tagged.segments if entry.deletion_vector is not None)
    if what == "footer":
        damage(table, entry.file)
    elif what == "vector":
        damage(table, entry.deletion_vector.file, 12)
    elif what == "missing":
        Path(table.location, entry.file).unlink()
    else:
        (newest, *_) = table.snapshot.segments
        Path(table.location, entry.file).chmod(0o644)
        Path(table.location, entry.file).write_bytes(Path(table.location, newest.file).read_bytes())
    before = table.version
    wanted = CommitError if what == "missing" else CorruptTableError
    with pytest.raises(wanted, match="nothing was committed") as raised:
        projseg.Table(table.location).restore(tag="kept")
    assert entry.file in str(raised.value)
    assert projseg.Table(table.location).version == before
    assert projseg.Table(table.location).restore(0).version == before + 1


def test_a_version_of_other_columns_is_restored(table):
    table.widen_column("added", "decimal(20,0)")
    table.drop_column("tags")
    table.rename_column("page", "title")
    table.compact()
    assert table.restore(tag="kept").segments == 3
    assert table.verify(deep=True, all_versions=True) == []
    assert "tags" in table.schema.names
