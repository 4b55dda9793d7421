"""Metadata with repaired checksums and random changes: an error of ours, or a valid table."""

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from small_tables import HOURLY, hourly_of, new_table, new_write_id, put_segment

from projseg.errors import CorruptTableError, LimitExceededError, UnsupportedFeatureError
from projseg.table_layer.commits.commit import append
from projseg.table_layer.metadata.manifest import ManifestReference, load_manifest
from projseg.table_layer.metadata.snapshot import read_version
from projseg.table_layer.storage.paths import snapshot_name

TOKENS = [
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e308",
    b"NaN",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"9" * 400,
    b"[]",
    b"{}",
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"../../../etc/passwd"',
    b",",
    b":",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"\xff",
    b" ",
]
ALLOWED = (CorruptTableError, LimitExceededError, UnsupportedFeatureError)


class BytesStorage:
    """A storage of one file in memory."""

    location = "memory"

    def __init__(self, name, payload):
        self.name = name
        self.payload = payload

    def read_sized(self, name, offset, size):
        if name != self.name:
            raise FileNotFoundError(name)
        return self.payload[offset : offset + size], len(self.payload)

    def read_range(self, name, offset, size):
        return self.payload[offset : offset + size]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    storage, base = new_table(tmp_path_factory.mktemp("hostile"), projections=(HOURLY,))
    write_id = new_write_id()
    entries = [put_segment(storage, write_id, number=n, projections=hourly_of()) for n in (0, 1)]
    snapshot = append(storage, base, entries, write_id=write_id)
    (reference,) = snapshot.file.manifests
    names = (snapshot_name(1), reference.name)
    return [storage.read_range(name, 0, storage.size(name)) for name in names], reference


def reseal(payload):
    return payload[:13] + xxhash.xxh3_128_hexdigest(payload[47:]).encode() + payload[45:]


def tokens_of(payload):
    """Return the [start, end) of each JSON scalar and punctuation mark after the checksum."""
    places, start = [], 47
    for position in range(47, len(payload)):
        if payload[position] in b'{}[]:,"':
            if start < position:
                places.append((start, position))
            places.append((position, position + 1))
            start = position + 1
    return places


@st.composite
def edits(draw):
    return [
        (
            draw(st.floats(0, 1, exclude_max=True)),
            draw(st.sampled_from(TOKENS)),
            draw(st.integers(0, 3)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]


def edited(payload, changes):
    for where, token, kind in changes:
        places = tokens_of(payload)
        start, end = places[int(where * len(places))]
        other = places[int(where * 7919) % len(places)]
        middle = {0: token, 1: b"", 2: payload[slice(*other)], 3: payload[start:end] * 2}[kind]
        payload = payload[:start] + middle + payload[end:]
    return reseal(payload)


@given(changes=edits())
def test_snapshots(files, changes):
    (payload, _), _ = files
    changed = edited(payload, changes)
    try:
        snapshot = read_version(BytesStorage(snapshot_name(1), changed), 1)
    except ALLOWED:
        return
    # What is accepted is a snapshot: typed, canonical, with a usable schema.
    assert snapshot.version == 1
    assert snapshot.properties.schema.names
    assert msgspec.json.encode(snapshot.file) == changed


@given(changes=edits())
def test_manifests(files, changes):
    (_, payload), reference = files
    changed = edited(payload, changes)
    stated = {
        "byte_count": len(changed),
        "checksum": changed[13:45].decode(),
    }
    relisted: ManifestReference = msgspec.structs.replace(reference, **stated)
    storage = BytesStorage(reference.name, changed)
    try:
        manifest = load_manifest(storage, relisted)
        entries = [manifest.entry(index) for index in range(len(manifest))]
        files_listed = manifest.files()
    except ALLOWED:
        return
    assert [entry.file for entry in entries] == list(files_listed)
    for entry in entries:
        assert entry.row_count >= 0
        assert entry.file.startswith(f"data/{entry.write_id}-")


@given(st.binary(max_size=300))
def test_any_bytes(payload):
    for sealed in (payload, b'{"checksum":"' + b"0" * 32 + b'",' + payload):
        for content in (sealed, reseal(sealed)):
            with pytest.raises(ALLOWED):
                read_version(BytesStorage(snapshot_name(1), content), 1)
