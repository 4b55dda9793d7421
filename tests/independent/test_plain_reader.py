"""The document suffices: a reader written from SPEC.md alone reads what projseg writes.

The reader in this folder was written by somebody who had not seen the project's code. Where the two
differ, either the document or the code is wrong.
"""

import json
import random
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from generated_rows import SCHEMA, generated_rows, plain
from plain_names import columns_of, definition_hash, stored_name
from plain_reader import PageRecord, PlainSegment, records
from plain_states import bits, close, distinct, grouped, order, state_value
from plain_table import deleted_rows, float_text, read_manifest, read_snapshot
from segment_bytes import read_everything

import projseg

GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLES = json.loads((GOLDEN / "canonical_texts.json").read_text(encoding="utf-8"))
ROW_COUNT = 3000
PROJECTIONS = [
    projseg.Projection(
        "hourly",
        ["date_trunc('HOUR', time)", "channel"],
        [
            *(
                "count(*)",
                "count(i)",
                "sum(i)",
                "sum(m)",
                "avg(x)",
                "var_samp(x)",
                "bool_and(flag)",
            ),
            *("min(d)", "max(d)", "max(user)", "min(payload)", "min(odd)", "max(odd)", "max(day)"),
            *("first(user)", "last(i)", "min_by(m, local)", "max_by(channel, s)", "min(f)"),
            *("bit_and(s)", "bit_or(t)", "bit_xor(i)", "sum(i) FILTER (WHERE flag)"),
            *("hll_sketch_agg(user)", "approx_count_distinct(odd)", "theta_sketch_agg(payload)"),
            *("count(DISTINCT user)", "count(DISTINCT odd)", "sum(DISTINCT m) FILTER (WHERE flag)"),
        ],
    ),
    projseg.Projection(
        "odd",
        ["f", "flag"],
        ["count(*)", "hll_sketch_agg(i, 6)", "hll_sketch_agg(n)", "theta_sketch_agg(user, 5)"],
        where="i > 0 AND channel != '#1.wikipedia'",
    ),
    projseg.Projection(
        "all",
        [],
        [
            *("hll_sketch_agg(n)", "hll_sketch_agg(user, 4)", "hll_sketch_agg(user, 14)"),
            *("theta_sketch_agg(i, 4)", "approx_count_distinct(d)", "approx_count_distinct(flag)"),
        ],
    ),
]


@pytest.fixture(scope="module")
def rows():
    return generated_rows(ROW_COUNT, seed=7)


@pytest.fixture(scope="module")
def location(rows, tmp_path_factory):
    """A table of two days in two commits; the tests read only its files."""
    location = tmp_path_factory.mktemp("independent") / "table"
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        cluster_by=["channel"],
        projections=PROJECTIONS,
    )
    table.append(rows.slice(0, ROW_COUNT - 500))
    table.append(rows.slice(ROW_COUNT - 500))
    return location


@pytest.fixture(scope="module")
def segments(location):
    """(manifest entry, segment) of each segment of the newest version."""
    references = read_snapshot(location)["manifests"]
    entries = [entry for one in references for entry in read_manifest(location, one)]
    return [(entry, PlainSegment((location / entry["file"]).read_bytes())) for entry in entries]


def base_rows(segment):
    """The rows of the base table as {column: value}."""
    columns = {name: values for (_, name), values in segment.read_table("__base").items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def stored_bytes(directory):
    return sum(page.stored_bytes for page in records(directory, "QIIIIBBBBIqqQ", PageRecord))


def check_segment(segment):
    """Compare what a segment stores twice; return how many bitmaps and value hashes it has."""
    bitmap_count = hash_count = 0
    for table in segment.footer["tables"]:
        for column in table["columns"]:
            segment.values(table, column)
            bitmaps = segment.bitmaps(column)
            bitmap_count += len(bitmaps)
            if bitmaps:
                expected = [[] for _ in segment.dictionaries[column["dictionary"]]]
                for row, number in enumerate(segment.ids(column)):
                    expected[number].append(row)
                assert bitmaps == expected
    for number, values in enumerate(segment.dictionaries):
        assert all(order(low) < order(high) for low, high in pairwise(values))
        stored = segment.hashes(number)
        assert stored in (None, segment.own_hashes(number))
        hash_count += len(stored or ())
    segment.check_layout()
    return bitmap_count, hash_count


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.pseg")), ids=lambda path: path.stem)
def test_a_golden_file_is_read_from_the_document_as_by_the_project(path):
    content = path.read_bytes()
    segment = PlainSegment(content)
    check_segment(segment)
    found = {
        (table["name"], *key): values
        for table in segment.footer["tables"]
        for key, values in segment.read_table(table["name"]).items()
    }
    expected = read_everything(content)
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert bits(found[key]) == bits(plain(array)), key


def test_every_changed_byte_of_the_smallest_file_is_found():
    content = (GOLDEN / "smallest.pseg").read_bytes()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1
        with pytest.raises(AssertionError):
            check_segment(PlainSegment(bytes(damaged)))


def test_a_written_table_holds_the_rows_that_were_written(rows, segments):
    assert len(segments) == 4
    found = sorted(
        (row for _, segment in segments for row in base_rows(segment)), key=lambda row: row["n"]
    )
    for name in SCHEMA.names:
        assert bits([row[name] for row in found]) == bits(plain(rows[name].combine_chunks())), name


def test_rows_are_sorted_as_the_footer_says(segments):
    for _, segment in segments:
        for table in segment.footer["tables"]:
            found = segment.read_table(table["name"])
            role = "base" if table["name"] == "__base" else "grouping"
            keys = [found[role, name] for name in table["sort_order"]]
            keys = [[order(value) for value in row] for row in zip(*keys, strict=True)]
            assert keys == sorted(keys)


def test_bitmaps_and_hashes_say_what_the_values_say(segments):
    counts = [check_segment(segment) for _, segment in segments]
    assert min(hashes for _, hashes in counts) > 0
    assert sum(bitmaps for bitmaps, _ in counts) > 0


@pytest.mark.parametrize("name", [projection.name for projection in PROJECTIONS])
def test_a_projection_is_what_its_definition_makes_of_the_base_rows(location, segments, name):
    for entry, segment in segments:
        table = segment.table(name)
        assert (
            read_snapshot(location)["definitions"][table["definition_hash"]] == table["definition"]
        )
        assert definition_hash(table["definition"]) == table["definition_hash"]
        columns = columns_of(table["definition"])
        assert [(c["role"], c["name"]) for c in table["columns"]] == [c[:2] for c in columns]
        found = segment.read_table(name)
        kept = base_rows(segment)
        if json.loads(table["definition"])["filter"]:
            kept = [row for row in kept if (row["i"] or 0) > 0 and row["channel"] is not None]
            kept = [row for row in kept if row["channel"] != "#1.wikipedia"]
        groups = grouped(kept, [what for role, _, what in columns if role == "grouping"])
        keys = [values for (role, _), values in found.items() if role == "grouping"]
        if keys:
            assert bits(list(zip(*keys, strict=True))) == bits([key for key, _ in groups])
        types = {c["name"]: c["type"] for c in segment.table("__base")["columns"]}
        for _, column, (state, part) in [c for c in columns if c[0] == "state"]:
            expected = [state_value(state, part, members, types) for _, members in groups]
            values = found["state", column]
            if part == "values":
                assert all(len(one) == len(distinct(one)) for one in values)
                values = [distinct(one) for one in values]
            if part in ("mean", "squares") or column == "sum(x).sum":
                assert all(map(close, values, expected)), column
            else:
                assert bits(values) == bits(expected), (entry["file"], column)


def test_a_projection_of_rows_is_base_rows_in_another_order(rows, tmp_path):
    names = ["channel", "x"]
    declared = projseg.Projection(
        "sorted", columns=["x", "user", "channel", "flag"], order_by=names, where="i > 0"
    )
    table = projseg.Table.create(tmp_path / "t", SCHEMA, time_column="time", projections=[declared])
    table.append(rows)
    read_snapshot(tmp_path / "t")
    (path,) = (tmp_path / "t").glob("data/*.pseg")
    segment = PlainSegment(path.read_bytes())
    check_segment(segment)
    stored = segment.table("sorted")
    assert definition_hash(stored["definition"]) == stored["definition_hash"]
    assert stored["sort_order"] == names
    columns = columns_of(stored["definition"])
    assert [(c["role"], c["name"]) for c in stored["columns"]] == [c[:2] for c in columns]
    found, base = segment.read_table("sorted"), base_rows(segment)
    numbers = found["state", "row number"]
    assert sorted(numbers) == [n for n, row in enumerate(base) if (row["i"] or 0) > 0]
    for name in ("x", "user", "channel", "flag"):
        assert bits(found["grouping", name]) == bits([base[n][name] for n in numbers])
    places = zip(*(found["grouping", name] for name in names), numbers, strict=True)
    keys = [(*(order(value) for value in values), number) for *values, number in places]
    assert keys == sorted(keys)


def test_the_manifest_sums_up_its_segments(segments):
    for entry, segment in segments:
        base = segment.table("__base")
        values = {name: column for (_, name), column in segment.read_table("__base").items()}
        assert entry["byte_count"] == len(segment.content)
        assert entry["footer_checksum"] == segment.footer_checksum
        assert entry["row_count"] == base["row_count"]
        assert [entry["min_time_us"], entry["max_time_us"]] == [
            f(values["time"]) for f in (min, max)
        ]
        start, end = entry["interval"]
        assert start <= min(values["time"]) <= max(values["time"]) < end
        for column in base["columns"]:
            zone = dict(entry["columns"][column["name"]])
            assert zone.pop("bytes") == stored_bytes(column["pages"])
            assert zone == expected_zone(column, values[column["name"]]), column["name"]
        for stored, projection in zip(
            entry["projections"], segment.footer["tables"][1:], strict=True
        ):
            pages = {c["name"]: stored_bytes(c["pages"]) for c in projection["columns"]}
            assert stored["column_bytes"] == pages
            assert stored["byte_count"] == sum(pages.values())  # none of these has an index
            assert not any(c["index_blocks"] for c in projection["columns"])
            for field in ("name", "definition_hash", "row_count"):
                assert stored[field] == projection[field]


def expected_zone(column, values):
    """The zone of a column, without its bytes."""
    held = [value for value in values if value is not None]
    zone = {"min": None, "max": None, "null_count": len(values) - len(held), "has_nan": False}
    if "<" in column["type"]:
        return zone | {"exact": False}
    kept = sorted((value for value in held if value == value), key=order)
    (low, low_exact), (high, high_exact) = bound(kept[0], False), bound(kept[-1], True)
    zone |= {"min": low, "max": high, "has_nan": len(held) > len(kept)}
    return zone | {"exact": low_exact and high_exact}


def bound(value, is_maximum):
    """(bound, whether it is the value): text and binary are cut to 64 bytes."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity", True
    if not isinstance(value, (str, bytes)):
        return value, True
    cut = value
    while len(cut.encode() if isinstance(cut, str) else cut) > 64:
        cut = cut[:-1]
    exact = cut == value
    if is_maximum and not exact:
        cut = cut.rstrip(b"\xff") if isinstance(cut, bytes) else cut
        cut = cut[:-1] + (chr(ord(cut[-1]) + 1) if isinstance(cut, str) else bytes([cut[-1] + 1]))
    return cut.hex() if isinstance(cut, bytes) else cut, exact


def written(location, rows, **declared):
    """The manifest entry and the segment of a table of these rows."""
    projseg.Table.create(location, rows.schema, **declared).append(rows)
    ((entry,),) = [read_manifest(location, one) for one in read_snapshot(location)["manifests"]]
    return entry, PlainSegment((location / entry["file"]).read_bytes())


def test_zones_of_long_values_enclose_them(tmp_path):
    rows = {
        "low_first": [b"a" * 65, b"b"],
        "raised_before_the_last": [b"a", b"\xfe" + b"\xff" * 70],
        "not_to_be_raised": [b"a", b"\xff" * 70],
        "text": ["a" * 63 + "é", "z" * 63 + "é"],
        "over_the_surrogates": ["a", "\ud7ff" * 30],
        "no_value": pa.array([None, None], pa.string()),
    }
    entry, _ = written(tmp_path / "table", pa.table(rows))
    zones = entry["columns"].items()
    assert {name: (zone["min"], zone["max"], zone["exact"]) for name, zone in zones} == {
        "low_first": ((b"a" * 64).hex(), b"b".hex(), False),
        "raised_before_the_last": (b"a".hex(), "ff", False),
        "not_to_be_raised": (b"a".hex(), None, False),
        "text": ("a" * 63, "z" * 62 + "{", False),
        "over_the_surrogates": ("a", "\ud7ff" * 20 + "\ue000", False),
        "no_value": (None, None, True),
    }


def test_odd_names_are_written_in_backticks(tmp_path):
    odd = {"a b": 1, "c:d": 2, "e,f": [3], "g<h": None, "`": "5"}
    rows = pa.table(
        {
            "my time": pa.array([1, 2, 3], pa.timestamp("us")),
            "odd": [odd] * 3,
            "zero": [-0.0, float("nan"), None],
        }
    )
    aggregators = ["first(zero)", "count(DISTINCT zero)", "sum(CASE WHEN zero > 1 THEN 1 END)"]
    condition = "zero IS NULL OR NOT (zero = 77 OR zero = 3)"
    declared = [projseg.Projection("p", ["zero"], aggregators, where=condition)]
    _, segment = written(tmp_path / "t", rows, time_column="my time", projections=declared)
    assert segment.read_table("__base")["base", "odd"] == [(1, 2, [3], None, "5")] * 3
    table = segment.table("p")
    assert definition_hash(table["definition"]) == table["definition_hash"]
    found = segment.read_table("p")
    assert list(found) == [column[:2] for column in columns_of(table["definition"])]
    assert bits(found["state", "min_by(zero, `my time`).value"]) == bits([None, -0.0, float("nan")])
    assert bits(found["state", "distinct(zero).values"]) == bits([[], [0.0], [float("nan")]])


def test_a_sum_of_too_many_digits_is_recorded_as_not_built(tmp_path):
    rows = pa.table({"d": pa.array([Decimal("9" * 38)] * 2, pa.decimal128(38, 0))})
    declared = [projseg.Projection("p", [], ["sum(d)"])]
    entry, segment = written(tmp_path / "table", rows, projections=declared)
    definitions = read_snapshot(tmp_path / "table")["definitions"]
    ((name, its_hash, reason),) = entry["not_built"]
    assert (name, its_hash) == ("p", definition_hash(definitions[its_hash]))
    stated = {"name": name, "definition_hash": its_hash, "reason": reason}
    assert segment.footer["not_built"] == [stated]
    assert [table["name"] for table in segment.footer["tables"]] == ["__base"]
    check_segment(segment)


def test_many_pages_and_every_form_of_container(tmp_path):
    pick = random.Random(3)
    rows = [
        "a run"
        if 30_000 <= n < 40_000 or n >= 66_000
        else "a half"
        if n % 2
        else f"{pick.randrange(280)}"
        for n in range(70_000)
    ]
    numbers = [None if n % 7 == 0 else n * n for n in range(len(rows))]
    table = pa.table({"word": rows, "number": numbers})
    _, segment = written(tmp_path / "table", table)
    check_segment(segment)
    assert segment.read_table("__base") == {("base", "word"): rows, ("base", "number"): numbers}
    (word, _) = segment.table("__base")["columns"]
    values = segment.dictionaries[word["dictionary"]]
    bitmaps = dict(zip(values, segment.bitmaps(word), strict=True))
    assert len(bitmaps["a run"]) == 14_000
    assert len(bitmaps["a half"]) == sum(word == "a half" for word in rows)


@pytest.mark.parametrize("example", EXAMPLES["definitions"], ids=lambda e: e["declaration"]["name"])
def test_a_definition_hash_follows_from_the_document(example):
    assert definition_hash(json.dumps(example["definition"])) == example["hash"]


def test_long_names_follow_from_the_document():
    assert {text: stored_name(text) for text in EXAMPLES["stored_names"]} == EXAMPLES[
        "stored_names"
    ]


def test_floats_of_sealed_json_follow_from_the_document():
    found = {exact: float_text(float.fromhex(exact)) for exact in EXAMPLES["floats"]}
    assert found == EXAMPLES["floats"]


def test_deleted_rows_follow_from_the_document(tmp_path):
    table = projseg.Table.create(tmp_path / "t", pa.schema([("n", pa.int64())]))
    for first in (0, 1000):
        table.append({"n": list(range(first, first + 1000))})
    table.delete("n < 70 OR n % 200 = 199")
    table.delete("n = 500")
    references = read_snapshot(tmp_path / "t")["manifests"]
    entries = [entry for one in references for entry in read_manifest(tmp_path / "t", one)]
    left = []
    for entry in entries:
        segment = PlainSegment((tmp_path / "t" / entry["file"]).read_bytes())
        gone = set(deleted_rows(tmp_path / "t", entry))
        numbers = segment.read_table("__base")["base", "n"]
        left += [number for row, number in enumerate(numbers) if row not in gone]
    assert sorted(left) == table.query(columns="n", order_by="n")["n"].to_pylist()
    assert len(left) == 2000 - 70 - 10 - 1
