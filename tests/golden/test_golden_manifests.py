"""Manifests written once and never again: read to what they were made of, and so written."""

import json

import msgspec
import pytest
from golden_manifests import GOLDEN, OneFile, build_entries, written

from projseg.errors import CorruptTableError, UnsupportedFeatureError
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.manifest import load_manifest

NAMES = [
    *("manifest", "manifest_with_deleted_rows", "manifest_of_foreign_rows"),
    "manifest_of_foreign_ids",
]


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


@pytest.mark.parametrize(
    ("name", "feature"), [(1, "deletion_vectors"), (2, "foreign"), (3, "foreign_ids")]
)
def test_only_what_is_used_needs_a_release_that_knows_it(monkeypatch, name, feature):
    known = checksummed_json.SUPPORTED_FEATURES - {feature}
    monkeypatch.setattr(checksummed_json, "SUPPORTED_FEATURES", known)
    load_manifest(stored("manifest"), written("manifest")[1])
    with pytest.raises(UnsupportedFeatureError, match=feature):
        load_manifest(stored(NAMES[name]), written(NAMES[name])[1])


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
        ("manifest", lambda file: file["required_features"].append("foreign")),
        (NAMES[2], lambda file: file["required_features"].clear()),
        (NAMES[2], lambda file: file["entries"][0].pop()),
        (NAMES[2], lambda file: file["entries"][0][12].append(1)),
        (NAMES[2], lambda file: file["entries"][0][13].append({})),
        (NAMES[2], lambda file: file["entries"][0][13].append(None)),
        (NAMES[3], lambda file: file["entries"][0][13].pop()),
        (NAMES[3], lambda file: file["required_features"].pop()),
        (NAMES[2], lambda file: file["entries"][0][13].__setitem__(4, [3, 2])),
        (NAMES[2], lambda file: file["entries"][0][13].__setitem__(1, -1)),
        (
            NAMES[2],
            lambda file: file["entries"][0].__setitem__(
                11, [f"data/{'a' * 32}-{'b' * 32}.pdel", 1, 1, 1]
            ),
        ),
    ],
)
def test_a_manifest_that_lies(name, change):
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
