"""Manifests written once and never again: read to what they were made of, and so written."""

import json

import msgspec
import pytest
from golden_manifests import GOLDEN, OneFile, build_entries, written

from projseg.errors import CorruptTableError, UnsupportedFeatureError
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.manifest import load_manifest

NAMES = ["manifest", "manifest_with_deleted_rows"]


def stored(name):
    storage = OneFile()
    storage.payload = (GOLDEN / f"{name}.json").read_bytes()
    return storage


def read_all(manifest):
    manifest.listed()
    return [manifest.entry(index) for index in range(len(manifest))]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_manifest_is_read_and_written_as_ever(name):
    storage, reference = written(name)
    assert storage.payload == stored(name).payload
    manifest = load_manifest(stored(name), reference)
    entries = read_all(manifest)
    assert entries == build_entries(name)
    assert list(manifest.listed()) == [entry.listed_as for entry in entries]
    assert list(manifest.files()) == [file for entry in entries for file in entry.files]


def test_only_deleted_rows_need_a_release_that_knows_them(monkeypatch):
    known = checksummed_json.SUPPORTED_FEATURES - {"deletion_vectors"}
    monkeypatch.setattr(checksummed_json, "SUPPORTED_FEATURES", known)
    load_manifest(stored("manifest"), written("manifest")[1])
    with pytest.raises(UnsupportedFeatureError, match="deletion_vectors"):
        load_manifest(stored(NAMES[1]), written(NAMES[1])[1])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("manifest", lambda file: file["required_features"].append("deletion_vectors")),
        (NAMES[1], lambda file: file["required_features"].clear()),
        (NAMES[1], lambda file: file["entries"][0].append(None)),
        (NAMES[1], lambda file: file["entries"][1][-1].append(1)),
        (NAMES[1], lambda file: file["entries"][1][-1].__setitem__(0, "data/../x.pdel")),
        (NAMES[1], lambda file: file["entries"][1][-1].__setitem__(3, 0)),
        (NAMES[1], lambda file: file["entries"][1][-1].__setitem__(3, 9000)),
        (NAMES[1], lambda file: file["entries"][1][-1].__setitem__(1, 2**40)),
    ],
)
def test_a_manifest_that_lies_about_deleted_rows(name, change):
    file = json.loads(stored(name).payload)
    change(file)
    storage, reference = written(name)
    body = json.dumps(file, separators=(",", ":"), ensure_ascii=False).encode()
    payload = bytearray(body)
    payload[13:45] = checksummed_json._digest(payload)
    storage.payload = bytes(payload)
    listed = {"byte_count": len(payload), "checksum": checksummed_json.checksum_of(storage.payload)}
    reference = msgspec.structs.replace(reference, **listed)
    with pytest.raises(CorruptTableError):
        read_all(load_manifest(storage, reference))
