"""A second reader of a table's metadata, written from SPEC.md's part "Table" alone.

Python parses snapshots and manifests, and this file's own JSON writer checks that each is written
exactly as the document says.
"""

import json
import re
import struct
from pathlib import Path

import xxhash
from plain_reader import roaring

ID, NUMBER = "[0-9a-f]{32}", "(?:0|[1-9][0-9]*)"
SEGMENT_NAME = re.compile(f"data/({ID})-{NUMBER}-{NUMBER}-{NUMBER}\\.pseg")
VECTOR_NAME = re.compile(f"data/{ID}-{ID}\\.pdel")
MANIFEST_NAME = re.compile(f"_projseg/manifests/{ID}\\.json")
SNAPSHOT_NAME = re.compile(r"[0-9]{20}\.json")
ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}

SEAL = ["kind", "format_version", "required_features"]
SNAPSHOT = [
    "version",
    "timestamp_us",
    "write_id",
    "change",
    "change_interval",
    "operation",
    "metrics",
    "properties",
    "definitions",
    "transactions",
    "manifests",
]
COMMIT = ["read_version", "parameters", "user_name", "user_metadata", "engine"]
FIELDS_OF_FEATURES = {
    "commit_info": "commit",
    "tags": "tags",
    "vacuum": "kept_from",
    "optional": "optional",
}
IN_PROPERTIES = {"foreign", "foreign_ids"}  # what these add stands in the properties
SOURCE = ["kind", "location", "table_id", "version", "columns", "left_out"]
OF_ENTRIES = {"deletion_vectors", "foreign", "foreign_ids"}
FOREIGN = ["path", "byte_count", "tag", "footer_digest", "row_groups", "partition"]
MANIFEST = ["name", "min_time_us", "max_time_us", "entries"]
PROPERTIES = [
    "table_id",
    "columns",
    "time_column",
    "segment_granularity",
    "cluster_by",
    "target_segment_rows",
    "projections",
    "properties",
]
VECTOR = ["file", "byte_count", "file_checksum", "row_count"]
DELETED = ["deletion_vector"]  # the last field of an entry, left out if no row is deleted
REFERENCE = [
    "name",
    "byte_count",
    "checksum",
    "segment_count",
    "row_count",
    "data_bytes",
    "min_time_us",
    "max_time_us",
    "definition_hashes",
]
ENTRY = [
    "file",
    "write_id",
    "row_count",
    "byte_count",
    "footer_checksum",
    "interval",
    "min_time_us",
    "max_time_us",
    "columns",
    "projections",
    "not_built",
]
ZONE = ["min", "max", "null_count", "has_nan", "exact", "bytes"]
STORED_PROJECTION = ["name", "definition_hash", "row_count", "byte_count", "column_bytes"]


def float_text(value):
    """A float as sealed JSON writes it. Python's repr finds the shortest, nearest digits."""
    if value == 0:
        return "0.0"
    sign, digits, exponent = re.fullmatch(r"(-?)([0-9.]+)(?:e(.*))?", repr(value)).groups()
    whole, _, fraction = digits.partition(".")
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    first = int(exponent or 0) + len(whole) - 1 - leading  # the exponent of the first digit
    digits = (whole + fraction).strip("0")
    if not -5 <= first < 16:
        return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{first}"
    if first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{digits}"
    digits = digits.ljust(first + 1, "0")
    return f"{sign}{digits[: first + 1]}.{digits[first + 1 :] or '0'}"


def canonical(value):
    """A parsed JSON value written by the rules of sealed JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        escaped = "".join(ESCAPES.get(c) or (c if c >= " " else f"\\u{ord(c):04x}") for c in value)
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{','.join(canonical(item) for item in value)}]"
    return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in value.items()) + "}"


def fields(values, names):
    """The object whose fields a JSON array holds in order, or the object itself."""
    if isinstance(values, dict):
        assert list(values) == names
        return values
    return dict(zip(names, values, strict=True))


def read_sealed(content, kind, names):
    """The fields of a sealed file, after checking its checksum and spelling."""
    written = content.decode()
    found = json.loads(written)
    assert canonical(found) == written
    checksum = found.pop("checksum")
    before = len('{"checksum":"",') + len(checksum)
    assert xxhash.xxh3_128_hexdigest(content[before:]) == checksum
    features = found["required_features"]
    of_definitions = [name for name in ("row_projections", "time_zone_rules") if name in features]
    assert features[len(features) - len(of_definitions) :] == of_definitions
    named = features[: len(features) - len(of_definitions)]
    of_fields = [feature for feature in named if feature not in IN_PROPERTIES]
    added = [FIELDS_OF_FEATURES[feature] for feature in of_fields if kind == "snapshot"]
    assert list(found) == SEAL + names + added
    assert (found["kind"], found["format_version"]) == (kind, 1)
    return {"checksum": checksum} | found


def read_snapshot(table):
    """The newest snapshot of the table in this directory, with its lists turned into objects."""
    versions = sorted(p for p in (table / "_projseg").iterdir() if SNAPSHOT_NAME.fullmatch(p.name))
    assert [int(p.stem) for p in versions] == list(range(len(versions)))
    found = read_sealed(versions[-1].read_bytes(), "snapshot", SNAPSHOT)
    assert found["version"] == int(versions[-1].stem)
    features = found["required_features"]
    fields(found["properties"], PROPERTIES + ["source"] * ("foreign" in features))
    if "foreign" in features:
        source, names = found["properties"]["source"], list(SOURCE)
        names += [one for one in ("field_ids", "name_mapping") if one in source]
        assert (
            ("field_ids" in source) == ("foreign_ids" in features) == (source["kind"] == "iceberg")
        )
        fields(source, names)
    fields(found["optional"]["commit"], COMMIT)
    of_rows = any('"orderBy":' in definition for definition in found["definitions"].values())
    assert of_rows == ("row_projections" in found["required_features"])
    of_zones = any('"timeZones":{' in definition for definition in found["definitions"].values())
    assert of_zones == ("time_zone_rules" in found["required_features"])
    found["manifests"] = [fields(one, REFERENCE) for one in found["manifests"]]
    return found


def read_manifest(table, reference):
    """The entries of a manifest, after checking what its reference says of it."""
    assert MANIFEST_NAME.fullmatch(reference["name"])
    content = (Path(table) / reference["name"]).read_bytes()
    found = read_sealed(content, "manifest", MANIFEST)
    features = found["required_features"]
    if "foreign" in features:
        assert features == ["foreign", "foreign_ids"][: len(features)]
        names = FOREIGN + ["names"] * ("foreign_ids" in features)
        entries = [fields(one, [*ENTRY, *DELETED, "empty", "foreign"]) for one in found["entries"]]
        for entry in entries:
            assert (entry.pop("deletion_vector"), entry.pop("empty")) == (None, [])
            entry["foreign"] = fields(entry["foreign"], names)
    else:
        listed = found["entries"]
        entries = [fields(one, ENTRY + DELETED[: len(one) - len(ENTRY)]) for one in listed]
    hidden = [fields(e["deletion_vector"], VECTOR) for e in entries if "deletion_vector" in e]
    assert ("deletion_vectors" in features) == bool(hidden)
    assert set(features) <= OF_ENTRIES
    for entry in entries:
        assert SEGMENT_NAME.fullmatch(entry["file"]).group(1) == entry["write_id"]
        entry["columns"] = {name: fields(zone, ZONE) for name, zone in entry["columns"].items()}
        entry["projections"] = [fields(one, STORED_PROJECTION) for one in entry["projections"]]
    least = [2**63 - 1 if e["min_time_us"] is None else e["min_time_us"] for e in entries]
    most = [-(2**63) if e["max_time_us"] is None else e["max_time_us"] for e in entries]
    hashes = {p["definition_hash"] for e in entries for p in e["projections"]}
    hashes |= {definition_hash for e in entries for _, definition_hash, _ in e["not_built"]}
    assert (found["name"], found["min_time_us"], found["max_time_us"]) == (
        reference["name"],
        least,
        most,
    )
    assert set(reference["definition_hashes"]) == hashes
    assert {key: reference[key] for key in REFERENCE[:-1]} == {
        "name": found["name"],
        "byte_count": len(content),
        "checksum": found["checksum"],
        "segment_count": len(entries),
        "row_count": sum(e["row_count"] for e in entries) - sum(v["row_count"] for v in hidden),
        "data_bytes": sum(e["byte_count"] for e in entries),
        "min_time_us": min(least),
        "max_time_us": max(most),
    }
    return entries


def deleted_rows(table, entry):
    """The deleted rows of a segment, after checking what its entry says of their file."""
    if "deletion_vector" not in entry:
        return []
    listed = fields(entry["deletion_vector"], VECTOR)
    assert VECTOR_NAME.fullmatch(listed["file"])
    content = (Path(table) / listed["file"]).read_bytes()
    magic, version, count, owner = struct.unpack("<8sIIQ", content[:24])
    (stated,) = struct.unpack("<Q", content[-8:])
    assert (magic, version) == (bytes.fromhex("89 50 53 45 47 44 45 4c"), 1)
    assert stated == xxhash.xxh3_64_intdigest(content[:-8]) == listed["file_checksum"]
    assert (len(content), count) == (listed["byte_count"], listed["row_count"])
    assert owner == entry["footer_checksum"]
    rows = list(roaring(content[24:-8]))
    assert len(rows) == count
    assert 0 <= rows[0] <= rows[-1] < entry["row_count"]
    return rows
