"""A damaged or hostile snapshot or manifest is an error, never another table."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest
import xxhash
from msgspec import structs
from small_tables import HOURLY, hourly_of, new_table, new_write_id, put_segment

from projseg.errors import (
    CorruptTableError,
    LimitExceededError,
    ProjsegError,
    StorageError,
    UnsupportedFeatureError,
)
from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import append
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.metadata.versions_and_tags import latest_version
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import snapshot_name


@pytest.fixture
def table(tmp_path):
    """A table of two versions: created, then one append of two segments."""
    storage, base = new_table(tmp_path / "t", projections=(HOURLY,))
    write_id = new_write_id()
    entries = [put_segment(storage, write_id, number=n, projections=hourly_of()) for n in (0, 1)]
    return storage, append(storage, base, entries, write_id=write_id)


def read_all(storage):
    KEPT.clear()
    return list(open_snapshot(storage).segments)


def overwrite(storage, name, payload):
    (open_path(storage) / name).write_bytes(payload)


def open_path(storage):
    return Path(storage.location)


def reseal(payload: bytes) -> bytes:
    """Repair the checksum, as an attacker would."""
    digest = xxhash.xxh3_128_hexdigest(payload[47:]).encode()
    return payload[:13] + digest + payload[45:]


def metadata_files(storage, snapshot):
    return [snapshot_name(snapshot.version), snapshot.file.manifests[0].name]


@pytest.mark.parametrize("which", [0, 1], ids=["snapshot", "manifest"])
def test_every_flipped_bit_is_found(table, which):
    storage, snapshot = table
    name = metadata_files(storage, snapshot)[which]
    whole = (open_path(storage) / name).read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        overwrite(storage, name, damaged)
        with pytest.raises(CorruptTableError):
            read_all(storage)
    overwrite(storage, name, whole)
    assert len(read_all(storage)) == 2


@pytest.mark.parametrize("which", [0, 1], ids=["snapshot", "manifest"])
def test_every_truncation_is_found(table, which):
    storage, snapshot = table
    name = metadata_files(storage, snapshot)[which]
    whole = (open_path(storage) / name).read_bytes()
    for length in range(len(whole)):
        overwrite(storage, name, whole[:length])
        with pytest.raises(CorruptTableError):
            read_all(storage)
    overwrite(storage, name, whole + b"\n")
    with pytest.raises(CorruptTableError):
        read_all(storage)


def test_a_missing_manifest_is_corruption(table):
    storage, snapshot = table
    storage.delete(snapshot.file.manifests[0].name)
    with pytest.raises(CorruptTableError, match="missing"):
        read_all(storage)


def test_an_exchanged_manifest_is_found(table):
    storage, snapshot = table
    write_id = new_write_id()
    later = append(storage, snapshot, [put_segment(storage, write_id)], write_id=write_id)
    first, second = (open_path(storage) / r.name for r in later.file.manifests)
    shutil.copy(first, second)
    with pytest.raises(CorruptTableError, match="not the manifest that the snapshot lists"):
        read_all(storage)


def test_a_snapshot_under_another_version_is_found(table):
    storage, _ = table
    payload = (open_path(storage) / snapshot_name(1)).read_bytes()
    overwrite(storage, snapshot_name(2), payload)
    with pytest.raises(CorruptTableError, match="says it is version 1"):
        open_snapshot(storage)


def test_a_gap_in_the_log_is_found(table):
    storage, snapshot = table
    for _ in range(3):
        write_id = new_write_id()
        entries = [put_segment(storage, write_id)]
        snapshot = append(storage, snapshot, entries, write_id=write_id)
    moved = open_path(storage).rename(open_path(storage).parent / "copy")
    (moved / snapshot_name(2)).unlink()
    with pytest.raises(CorruptTableError, match=r"0002\.json is missing while version 4"):
        latest_version(open_storage(moved))


def test_old_versions_may_be_gone(table):
    storage, _ = table
    (open_path(storage) / snapshot_name(0)).unlink()
    assert open_snapshot(storage).version == 1


def test_what_cannot_be_read_is_not_absent(table, monkeypatch):
    storage, _ = table

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr(os, "open", refuse)
    for look in (open_snapshot, latest_version):
        with pytest.raises(StorageError, match="PROJSEG_NO_PERMISSION"):
            look(storage)


def test_a_symbolic_link_is_not_followed(table, tmp_path):
    storage, snapshot = table
    name = open_path(storage) / snapshot.file.manifests[0].name
    (tmp_path / "elsewhere.json").write_bytes(name.read_bytes())
    name.unlink()
    name.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(StorageError, match="PROJSEG_NOT_A_FILE"):
        read_all(storage)


def test_an_enormous_file_is_refused_before_it_is_read(table):
    storage, _ = table
    with (open_path(storage) / snapshot_name(1)).open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(LimitExceededError):
        open_snapshot(storage)


class TestRepairedChecksums:
    """What an attacker writes who knows the format."""

    def change(self, table, old, new, which=0):
        storage, snapshot = table
        name = metadata_files(storage, snapshot)[which]
        payload = (open_path(storage) / name).read_bytes()
        assert old in payload
        changed = reseal(payload.replace(old, new, 1))
        overwrite(storage, name, changed)
        if which == 1:
            reference = structs.replace(
                snapshot.file.manifests[0],
                byte_count=len(changed),
                checksum=checksummed_json.checksum_of(changed),
            )
            file = structs.replace(snapshot.file, manifests=(reference,))
            overwrite(storage, snapshot_name(1), checksummed_json.seal(file))
        return storage

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"metrics":{', b'"metrics":{"added_rows":1,'),
            (b'"version":1,', b'"version":1,"version":1,'),
            (b'"version":1,', b'"version":01,'),
            (b'"version":1,', b'"version": 1,'),
            (b'"version":1,', b'"version":-1,'),
            (b'"version":1,', b'"version":1.0,'),
            (b'"version":1,', b'"version":NaN,'),
            (b'"version":1,', b'"version":1,"surprise":1,'),
            (b'"version":1,', b'"version":9223372036854775808,'),
            (b'"operation":"append"', b'"operation":"append\xff"'),
            (b'"operation":"append"', b'"operation":"\\u0061ppend"'),
            (b'"change":"append"', b'"change":"evaluate"'),
            (b'"kind":"snapshot"', b'"kind":"manifest"'),
            (b'"type":"bigint"', b'"type":"integer"'),
            (b'"name":"added"', b'"name":"time"'),
            (b'"metrics":{', b'"metrics":{"deep":' + b"[" * 99_999 + b"]" * 99_999 + b","),
            (b'"kind"', b'"deep":' + b"[" * 99_999 + b"]" * 99_999 + b',"kind"'),
        ],
    )
    def test_snapshot(self, table, old, new):
        with pytest.raises(CorruptTableError):
            read_all(self.change(table, old, new))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b",10,", b",-10,"),
            (b",10,", b",10.0,"),
            (b",10,", b",1e1,"),
            (b'"channel":[', b'"time":['),
            (b'"channel":[', b'"\\u0063hannel":['),
            (b'"entries":[', b'"entries":[[],'),
            (b'"entries":[', b'"entries":[1,'),
            (b'"entries":[', b'"entries":[' + b"[" * 99_999 + b"]" * 99_999 + b","),
            (b'"min_time_us":[0,', b'"min_time_us":[1,'),
            (b'"min_time_us":[0,', b'"min_time_us":['),
            (b'"min_time_us":[0,', b'"min_time_us":[9223372036854775808,'),
            (b"data/", b"dato/"),
            (b"data/", b"data/../../data/"),
            (b".pseg", b".psegx"),
        ],
    )
    def test_manifest(self, table, old, new):
        with pytest.raises(CorruptTableError):
            read_all(self.change(table, old, new, which=1))

    @pytest.mark.parametrize("opening", [b"[", b'{"a":', b'["]",[', b'["\\"]",'])
    @pytest.mark.parametrize("which", [0, 1], ids=["snapshot", "manifest"])
    def test_deep_nesting_is_refused_before_it_is_parsed(self, table, opening, which):
        """A decoder that follows it down would end a process that lets its stack grow."""
        place = (b'"metrics":{', b'"entries":[')[which]
        storage = self.change(table, place, place + opening * 20, which)
        with pytest.raises(CorruptTableError, match="nests deeper than 16"):
            read_all(storage)

    def test_brackets_in_texts_do_not_nest(self, table):
        name = b"[" * 40 + b"{" * 40 + b'\\"[['
        storage = self.change(table, b'"operation":"append"', b'"operation":"' + name + b'"')
        assert open_snapshot(storage).operation == "[" * 40 + "{" * 40 + '"[['
        assert len(read_all(storage)) == 2

    def test_a_manifest_named_outside_the_table(self, table):
        storage, snapshot = table
        name = snapshot.file.manifests[0].name.encode()
        for other in (b"../../etc/passwd", b"/etc/passwd", b"data/x", name[:-5], name + b"\\u0000"):
            self.change(table, name, other)
            with pytest.raises(ProjsegError):
                read_all(storage)
            overwrite(storage, snapshot_name(1), checksummed_json.seal(snapshot.file))

    def test_files_from_the_future(self, table):
        for which, old, new in [
            (0, b'"format_version":1', b'"format_version":999'),
            (1, b'"format_version":1', b'"format_version":999'),
            (0, b'["optional"]', b'["optional","time_machine"]'),
            (1, b'"required_features":[]', b'"required_features":["time_machine"]'),
        ]:
            storage = self.change(table, old, new, which)
            with pytest.raises(UnsupportedFeatureError, match="use a later release"):
                read_all(storage)
            self.change(table, new, old, which)


def test_a_sealed_file_is_plain_json(table):
    storage, snapshot = table
    for name in metadata_files(storage, snapshot):
        parsed = msgspec.json.decode((open_path(storage) / name).read_bytes())
        assert parsed["format_version"] == 1
