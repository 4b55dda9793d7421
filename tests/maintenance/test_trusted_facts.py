"""Every fact that a reader trusts, forged with checksums repaired: deep verification names it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from forged_tables import Lie, Original
from using_tables import SCHEMA, sound_table

import projseg
from projseg.algebra.projection.spec import from_definition
from projseg.maintenance.findings import Finding

FILE, ROWS, BYTES, CHECKSUM, INTERVAL, MIN_TIME, MAX_TIME, COLUMNS, PROJECTIONS, NOT_BUILT = (
    *(0, 2, 3, 4, 5, 6, 7, 8, 9, 10),
)
DAY_US = 86_400_000_000
SEGMENT_ROWS = 3000


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    location = tmp_path_factory.mktemp("sound") / "t"
    sound_table(location, counts=(SEGMENT_ROWS,))
    return Original(location)


def verified(original, location, lies, *, deep=True):
    original.forged(location, lies)
    return projseg.Table(location).verify(deep=deep)


def manifest_of(original):
    return original.documents[original.manifests[0]]


def entry_of(original):
    return manifest_of(original)["entries"][0]


def in_entry(original, *keys, value):
    return Lie((original.manifests[0], "entries", 0, *keys), value)


def in_reference(original, index, value):
    return Lie((original.snapshot, "manifests", 0, index), value)


def in_segment(original, *keys, value):
    (segment,) = original.parts
    return Lie((segment, *keys), value)


def footer_of(original):
    (segment,) = original.parts
    return original.documents[segment]


def place_of(original, table, column):
    """Return the keys of a column in the footer."""
    tables = footer_of(original)["tables"]
    at = next(i for i, found in enumerate(tables) if found["name"] == table)
    names = [found["name"] for found in tables[at]["columns"]]
    return "tables", at, "columns", names.index(column)


def found_at(original, keys):
    value = footer_of(original)
    for key in keys:
        value = value[key]
    return value


def exchanged(original, table, one, other, field):
    """Return lies by which two columns of a table have each other's `field`."""
    places = [(*place_of(original, table, name), field) for name in (one, other)]
    values = [found_at(original, place) for place in places]
    return [
        in_segment(original, *place, value=value)
        for place, value in zip(places, reversed(values), strict=True)
    ]


def page_lie(field, value, table="__base", column="big"):
    def lies(original):
        place = (*place_of(original, table, column), "pages", 0, field)
        wanted = value(found_at(original, place)) if callable(value) else value
        return [in_segment(original, *place, value=wanted)]

    return lies


def entry_lie(*keys, value):
    def lies(original):
        found = entry_of(original)
        for key in keys:
            found = found[key]
        return [in_entry(original, *keys, value=value(found) if callable(value) else value)]

    return lies


def reference_lie(index, value):
    return lambda original: [in_reference(original, index, value)]


def time_lies(original):
    """A smallest time that is a second early, in all places that state it."""
    early = entry_of(original)[MIN_TIME] + 1_000_000
    name = original.manifests[0]
    return [
        in_entry(original, MIN_TIME, value=early),
        Lie((name, "min_time_us", 0), early),
        in_reference(original, 6, early),
    ]


def listed_twice(original):
    manifest, name = manifest_of(original), original.manifests[0]
    doubled = {key: manifest[key] * 2 for key in ("min_time_us", "max_time_us", "entries")}
    return [Lie((name, key), value) for key, value in doubled.items()]


def other_definition(original):
    """A projection that is consistently declared with a filter that its rows were not built by."""
    tables = footer_of(original)["tables"]
    at = next(i for i, table in enumerate(tables) if table["name"] == "robots")
    old = tables[at]["definition_hash"]
    definition = tables[at]["definition"].replace("code > 2", "code > 3")
    new = from_definition(definition, SCHEMA).definition_hash
    assert new != old
    snapshot = original.documents[original.snapshot]
    definitions = {
        (new if key == old else key): (definition if key == old else text)
        for key, text in snapshot["definitions"].items()
    }
    declared = snapshot["properties"]["projections"]
    which = next(i for i, found in enumerate(declared) if found["name"] == "robots")
    changed = {"name": "robots", "definition_hash": new, "definition": definition}
    hashes = sorted({new if key == old else key for key in snapshot["manifests"][0][8]})
    return [
        in_segment(original, "tables", at, "definition", value=definition),
        in_segment(original, "tables", at, "definition_hash", value=new),
        in_entry(original, PROJECTIONS, 1, 1, value=new),
        Lie((original.snapshot, "definitions"), dict(sorted(definitions.items()))),
        Lie((original.snapshot, "properties", "projections", which), changed),
        in_reference(original, 8, hashes),
    ]


def other_values(original):
    """The groups of a projection by the values of another dictionary."""
    tables = footer_of(original)["tables"]
    at = next(i for i, table in enumerate(tables) if table["name"] == "robots")
    place = place_of(original, "robots", "channel")
    dictionaries = [dictionary["name"] for dictionary in footer_of(original)["dictionaries"]]
    records = found_at(original, (*place, "pages"))
    return [
        in_segment(original, *place, "dictionary", value=dictionaries.index("page")),
        in_segment(original, *place, "index_blocks", value=[]),
        *(
            in_segment(original, *place, "pages", page, "null_count", value=0)
            for page in range(len(records))
        ),
        in_segment(original, "tables", at, "name", value="robots"),
    ]


def bytes_of(original, records, at, change):
    """A change of stored bytes of the first of these parts."""
    (segment,) = original.parts
    return Lie((segment, "bytes", records[0]["file_offset"], at), change)


def dictionary_lie(original):
    """The last page name ends in a character below that of the name before it."""
    at = next(i for i, d in enumerate(footer_of(original)["dictionaries"]) if d["name"] == "page")
    records = found_at(original, ("dictionaries", at, "pages"))
    (segment,) = original.parts
    start, size = records[0]["file_offset"], records[0]["stored_bytes"]
    last = len(original.parts[segment][start : start + size].rstrip(b"\0")) - 1
    return [bytes_of(original, records, last, b"!")]


def hashes_lie(original):
    hashes = found_at(original, ("dictionaries", 0, "hashes"))
    return [bytes_of(original, [hashes], hashes["byte_count"] - 1, b"\x55")]


def index_lie(original):
    """The rows of one bitmap, which is runs, begin one later."""
    records = found_at(original, (*place_of(original, "__base", "channel"), "index_blocks"))
    (segment,) = original.parts
    start, count = records[0]["file_offset"], records[0]["id_count"]
    sizes = np.frombuffer(original.parts[segment], "<u4", count, start)
    first_run = 4 * count + 4 * (count % 2) + int(sizes[0]) - 4
    return [bytes_of(original, records, first_run, b"\x01")]


def dropped(field):
    return lambda entry: {name: zone for name, zone in entry.items() if name != field}


FACTS = {
    "rows of a segment": (entry_lie(ROWS, value=SEGMENT_ROWS - 1), "rows"),
    "size of a file": (entry_lie(BYTES, value=lambda n: n + 1), "bytes, not the"),
    "footer checksum": (entry_lie(CHECKSUM, value=7), "footer checksum"),
    "smallest time": (time_lies, "smallest and largest time"),
    "column listed": (entry_lie(COLUMNS, value=dropped("wide")), "columns"),
    "zone minimum": (entry_lie(COLUMNS, "big", 0, value=0), "minimum of column 'big'"),
    "zone maximum": (entry_lie(COLUMNS, "page", 1, value="z"), "maximum of column 'page'"),
    "zone null count": (entry_lie(COLUMNS, "code", 2, value=0), "null count of column 'code'"),
    "zone NaN": (entry_lie(COLUMNS, "price", 3, value=False), "NaN of column 'price'|is NaN"),
    "zone exactness": (entry_lie(COLUMNS, "big", 4, value=False), "bounds are values of .*'big'"),
    "zone of wide numbers": (entry_lie(COLUMNS, "wide", 0, value=5), "minimum of column 'wide'"),
    "zone of a float": (entry_lie(COLUMNS, "price", 1, value="Infinity"), "maximum .*'price'"),
    "zone of nested values": (entry_lie(COLUMNS, "tags", 2, value=1), "null count .*'tags'"),
    "column bytes": (entry_lie(COLUMNS, "big", 5, value=1), "bytes of column 'big'"),
    "projection name": (entry_lie(PROJECTIONS, 0, 0, value="other"), "projections"),
    "projection rows": (entry_lie(PROJECTIONS, 0, 2, value=1), "projections"),
    "projection bytes": (entry_lie(PROJECTIONS, 0, 3, value=1), "bytes of projection 'hourly'"),
    "projection column bytes": (entry_lie(PROJECTIONS, 0, 4, value={}), "'hourly' by column"),
    "projections not built": (entry_lie(NOT_BUILT, value=[]), "projections not built"),
    "listed rows": (reference_lie(4, SEGMENT_ROWS + 1), "rows of all segments"),
    "listed bytes": (reference_lie(5, 1), "bytes of all segments"),
    "listed smallest time": (reference_lie(6, 0), "smallest time in the snapshot's list"),
    "listed largest time": (reference_lie(7, 2**62), "largest time in the snapshot's list"),
    "listed definitions": (reference_lie(8, []), "definition hashes"),
    "listed once": (listed_twice, "times that the version lists it"),
    "page minimum": (page_lie("minimum", lambda n: n - 1), "zone map of page 0"),
    "page maximum": (page_lie("maximum", 2**40), "zone map of page 0"),
    "page bounds": (page_lie("flags", 1, column="price"), "zone map of page 0"),
    "page nulls": (page_lie("null_count", 1, column="channel"), "zone map of page 0"),
    "page of a projection": (page_lie("minimum", 0, "hourly", "sum(big).sum"), "zone map of page"),
    "dictionary order": (dictionary_lie, "ascending"),
    "value hashes": (hashes_lie, "hashes of dictionary"),
    "bitmaps": (index_lie, "bitmap"),
    "order of rows": (
        lambda original: [in_segment(original, "tables", 0, "sort_order", value=["big"])],
        "rows sorted by big",
    ),
    "definition of a projection": (
        lambda original: [
            in_segment(
                original,
                *("tables", 1, "definition"),
                value=footer_of(original)["tables"][2]["definition"],
            )
        ],
        "projection 'hourly': definition hash",
    ),
    "states": (
        lambda o: exchanged(o, "hourly", "sum(big).sum", "sum(code).sum", "pages"),
        r"projection 'hourly': state 'sum\(.*\).sum', row 0",
    ),
    "groups": (other_values, "projection 'robots': grouping column 'channel', row"),
    "filter of a projection": (other_definition, r"projection 'robots': (rows|state)"),
}


@pytest.mark.parametrize("fact", FACTS)
def test_each_trusted_fact_is_verified(original, tmp_path, fact):
    lies, named = FACTS[fact]
    problems = [f.problem for f in verified(original, tmp_path / "t", lies(original))]
    assert any(re.search(named, problem) for problem in problems), problems


def test_without_a_lie_nothing_is_found(original, tmp_path):
    assert verified(original, tmp_path / "t", []) == []


def test_a_finding_says_file_fact_claim_and_truth(original, tmp_path):
    lie = in_entry(original, COLUMNS, "big", 0, value=-9999)
    (finding,) = verified(original, tmp_path / "t", [lie])
    minimum = entry_of(original)[COLUMNS]["big"][0]
    file = entry_of(original)[FILE]
    assert finding == Finding(file, "minimum of column 'big'", "-9999", str(minimum))
    assert finding.problem == f"minimum of column 'big': expected -9999, found {minimum}"


def test_a_definition_under_another_hash_is_found(original, tmp_path):
    definitions = dict(original.documents[original.snapshot]["definitions"])
    first, second, *_ = definitions
    definitions[first] = definitions[second]
    lie = Lie((original.snapshot, "definitions"), definitions)
    found = verified(original, tmp_path / "t", [lie], deep=False)
    assert [(f.file, f.expected, f.found) for f in found][:1] == [
        (original.snapshot, first, second)
    ]


class TestPastEveryCache:
    """A table that was opened and queried, whose files then change."""

    @pytest.fixture
    def table(self, original, tmp_path):
        original.forged(tmp_path / "t", [])
        table = projseg.Table(tmp_path / "t")
        assert table.query(group_by="channel", aggregators="sum(big) AS b").num_rows == 8
        assert table.verify(deep=True) == []
        return table

    def overwrite(self, original, table, tmp_path, lies):
        original.forged(tmp_path / "other", lies)
        shutil.rmtree(table.location)
        shutil.copytree(tmp_path / "other", table.location)

    def test_of_a_manifest(self, original, table, tmp_path):
        lies = entry_lie(COLUMNS, "big", 0, value=0)(original)
        self.overwrite(original, table, tmp_path, lies)
        assert any("content" in f.what for f in table.verify())
        assert any(f.what == "minimum of column 'big'" for f in table.verify(deep=True))

    def test_of_a_segment(self, original, table, tmp_path):
        self.overwrite(original, table, tmp_path, page_lie("minimum", -9999)(original))
        assert any("zone map" in f.problem for f in table.verify())

    def test_of_files_that_are_gone(self, original, table):
        for name in (entry_of(original)[FILE], original.manifests[0], original.snapshot):
            (Path(table.location) / name).unlink()
            files = [finding.file for finding in table.verify()]
            assert files == [name]


def test_not_built_has_a_reason_in_both_places(original):
    """The forged table would prove nothing if the sound one had nothing to forge."""
    assert entry_of(original)[NOT_BUILT]
    assert footer_of(original)["not_built"]
