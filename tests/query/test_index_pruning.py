"""Segments left out by indexes: no answer changes, what is said is what was opened."""

import datetime
import logging
import math
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import regex_cases
import text_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from scale import tries

import projseg
from projseg.algebra.expressions.patterns import read_pattern
from projseg.algebra.proofs.index_keys import (
    GRAMS_MAX,
    INDEX_REASONS,
    AllOf,
    OneOf,
    _count,
    _grams_of_regex,
)
from projseg.errors import ProjsegError
from projseg.evaluation import by_postings
from projseg.kernels.bloom_blocks import bloom_blocks
from projseg.maintenance import gather_blooms
from projseg.maintenance.row_changes import affected_segments, merge_rows
from projseg.memory.cache import KEPT
from projseg.reader.plan import index_pruning
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.indexes.bloom_file import SegmentFilter, write_filters
from projseg.segment_format.indexes.text_keys import grams_of
from projseg.segment_format.page_directory import PAGE_DTYPE
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.footer_match import open_uncached
from projseg.table_layer.metadata.change import ListBloomFiles
from projseg.table_layer.storage.paths import new_bloom_name, new_write_id
from projseg.writer.segment_filters import write_bloom_file

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SEGMENTS, ROWS = 40, 25
VISITS = projseg.Index("visits", "visit")
BOTH = (VISITS, projseg.Index("users", "user"))


def rows(first, count):
    numbers = range(first, first + count)
    return pa.table(
        {
            "time": [START + datetime.timedelta(hours=n) for n in numbers],
            "visit": [f"visit {n * 7919 % 100_003:06}" for n in numbers],
            "user": pa.array([n * 31 % 977 for n in numbers], pa.int32()),
            "day": [(START + datetime.timedelta(hours=n)).date() for n in numbers],
            "message": ["a message like that of a server's log, " * 20 for n in numbers],
        }
    )


def visit(number):
    return f"visit {number * 7919 % 100_003:06}"


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    return built(tmp_path_factory.mktemp("tables"))


def built(folder, indexes=BOTH):
    return projseg.Table.create(
        folder / "t",
        {
            "time": "timestamp",
            "visit": "string",
            "user": "int",
            "day": "date",
            "message": "string",
        },
        time_column="time",
        target_segment_rows=ROWS,
        indexes=indexes,
        data=rows(0, SEGMENTS * ROWS),
        projections=[{"name": "p", "groupBy": ["visit"], "aggregators": ["count(*) AS n"]}],
    )


def opened(table, filter, **asked):
    """How many segments a query opens, having been compared with its answer without indexes."""
    asked = {"columns": ["visit", "user"]} | asked
    explained = table.explain(filter=filter, **asked)
    plain = table.query(filter=filter, context={"noIndexes": True}, **asked)
    assert table.query(filter=filter, **asked).equals(plain)
    return explained.figures.opened_segments


def reasons(table, filter, **asked):
    asked = {"columns": ["visit"]} | asked
    return table.explain(filter=filter, **asked).indexes["reason"].to_pylist()


def test_a_key_opens_the_segments_that_hold_it(lasting):
    assert opened(lasting, f"visit = '{visit(77)}'") == 1
    assert opened(lasting, f"visit IN ('{visit(77)}', '{visit(900)}', null)") == 2
    assert opened(lasting, f"visit <=> '{visit(77)}'") == 1
    assert opened(lasting, f"visit = '{visit(77)}' OR user = -1") == 1
    assert opened(lasting, f"visit = '{visit(77)}' AND user = 1000") <= 1
    assert opened(lasting, f"visit = '{visit(77)}' AND user > 1") == 1
    assert opened(lasting, "visit = 'none'") == 0
    assert opened(lasting, f"visit = '{visit(77)}' OR user > 900") > SEGMENTS // 2
    assert opened(lasting, f"NOT visit = '{visit(77)}'") == SEGMENTS


def test_group_bys_projections_and_their_base_rows_are_pruned_alike(lasting):
    asked = {"columns": (), "group_by": "visit", "aggregators": "count(*) AS n"}
    explained = lasting.explain(filter=f"visit = '{visit(77)}'", **asked)
    assert explained.sources == {"p": 1}
    assert opened(lasting, f"visit = '{visit(77)}'", **asked) == 1
    without = {"context": {"noProjections": True}}
    assert lasting.explain(filter=f"visit = '{visit(77)}'", **asked, **without).sources == {
        "base": 1
    }
    assert lasting.sql(f"SELECT count(*) FROM t WHERE visit = '{visit(77)}'").to_pylist() == [
        {"count(1)": 1}
    ]


def test_explain_says_what_was_done(lasting):
    explained = lasting.explain(columns=["user"], filter=f"visit = '{visit(3)}'", analyze=True)
    (use,) = explained.indexes.to_pylist()
    assert use.pop("bytes") > 0
    assert use == {
        "index": "visits",
        "column": "visit",
        "condition": f"visit = '{visit(3)}'",
        "used": True,
        "reason": None,
        "segments": SEGMENTS,
        "left": 1,
        "files": 1,
        "false_segments": 0,
        "postings_segments": 0,
    }
    assert f"index visits on visit: {SEGMENTS} segments to 1, of 1 file, 0.0 MB" in str(explained)
    assert explained.figures.index_pruned_segments == SEGMENTS - 1
    assert "visits" in explained.to_json()
    assert "visits" in explained._repr_html_()


def test_each_kind_of_index_has_its_own_reason(tmp_path):
    table = built(tmp_path, [VISITS, projseg.Index("parts", "visit", kind="ngram")])

    def said(condition):
        uses = table.explain(columns=["user"], filter=condition).indexes.to_pylist()
        return {use["index"]: use["reason"] for use in uses if not use["used"]}

    assert said("visit LIKE '%none%'") == {"visits": "NO_KEY"}
    assert said("visit LIKE '%e_n%'") == {"visits": "NO_KEY", "parts": "PATTERN_TOO_SHORT"}
    assert said("visit RLIKE 'n.?o.?n.?e|x'") == {"visits": "NO_KEY", "parts": "NO_KEY"}
    assert said("visit RLIKE '(?i)^(NONE|nobody)+$'") == {"visits": "NO_KEY"}
    assert said("visit = 'vi'") == {"parts": "PATTERN_TOO_SHORT"}
    assert said("visit = 'none'") == {}


def test_a_false_segment_is_counted(lasting):
    tried = (f"visit = 'visit {n:06}x'" for n in range(2000))
    wrong = next(text for text in tried if lasting.explain(columns=["user"], filter=text).segments)
    explained = lasting.explain(columns=["user"], filter=wrong, analyze=True)
    assert explained.indexes["false_segments"].to_pylist() == [explained.figures.opened_segments]


def test_every_reason_against_an_index(tmp_path):
    table = built(tmp_path)
    key = f"visit = '{visit(3)}'"
    seen = set()

    def said(expected, *given, **asked):
        (found,) = reasons(table, *given, **asked)
        assert found.split(" ")[0] == expected
        seen.add(expected)
        return found

    said("NO_KEY", "visit > 'a'")
    said("NO_KEY", f"NOT {key}")
    said("NO_KEY", "lower(visit) = 'a'")
    said("NO_KEY", "CAST(visit AS BIGINT) = 5", args=None)
    table.add_index(projseg.Index("parts", "message", kind="ngram"), materialize=True)
    said("PATTERN_TOO_SHORT", "message LIKE '%ab_cd%'")
    values = ", ".join(f"'v{n}'" for n in range(1025))
    said("TOO_MANY_VALUES", f"visit IN ({values})")
    said("DISABLED", key, context={"noIndexes": True})
    said("EXCLUDED", key, context={"excludeIndexes": "VISITS"})
    said("NOTHING_LEFT", key, interval="2024-05-01T00:00:00Z/2024-05-01T01:00:00Z")
    filters = sum(one.byte_count for one in table.snapshot.bloom_files)
    monkey = index_pruning.COSTLIER_SHARE
    index_pruning.COSTLIER_SHARE = 1e-9 * filters
    try:
        said("COSTLIER", f"visit = '{visit(4)}'")
    finally:
        index_pruning.COSTLIER_SHARE = monkey
    table.add_index(projseg.Index("days", "day"), build="deferred")
    assert said("NOT_BUILT", "day = DATE'2024-05-03'") == f"NOT_BUILT {SEGMENTS}"
    table.widen_column("user", "double")
    said("TYPE_CHANGED", "user = 7")
    damage(table, lambda path: path.unlink())
    said("DAMAGED", key)
    assert seen == set(INDEX_REASONS)


def damage(table, change):
    """Do something to the Bloom files of the visits, and forget what is cached."""
    digest = table.properties.declared_indexes[0].columns[0].definition_hash
    for one in table.snapshot.bloom_files:
        if one.definition_hash == digest:
            change(Path(table.location, one.name))
    KEPT.clear()


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 0x40
    path.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: flip(path, -60),
        lambda path: path.write_bytes(path.read_bytes()[:60] + bytes(path.stat().st_size - 60)),
        lambda path: [flip(path, place) for place in range(32, path.stat().st_size // 2, 32)],
    ],
)
def test_a_damaged_file_costs_time_only(tmp_path, change, caplog):
    table = built(tmp_path, [VISITS])
    index_pruning._WARNED.clear()
    key = f"visit = '{visit(77)}'"
    damage(table, change)
    with caplog.at_level(logging.WARNING, "projseg.table"):
        assert opened(table, key) == SEGMENTS
        assert opened(table, key) == SEGMENTS
    assert reasons(table, key) == ["DAMAGED"]
    (warning,) = [record for record in caplog.records if "Bloom file" in record.message]
    (file,) = table.snapshot.bloom_files
    assert file.name in warning.message
    assert [finding.file for finding in table.verify()] == [file.name]
    table.materialize_index()
    assert opened(table, key) == 1
    assert table.verify(deep=True) == []


def test_what_damage_left_in_is_not_cached(tmp_path):
    table = built(tmp_path, [VISITS])
    (file,) = table.snapshot.bloom_files
    path = Path(table.location, file.name)
    content = path.read_bytes()
    path.unlink()
    KEPT.clear()
    key = f"visit = '{visit(77)}'"
    assert opened(table, key) == SEGMENTS
    path.write_bytes(content)
    assert opened(table, key) == 1


def test_a_file_that_lies_is_found_by_deep_verification(tmp_path):
    table, other = built(tmp_path / "a", [VISITS]), built(tmp_path / "b", [VISITS])
    for one in (table, other):
        one.delete("hour(time) = 3", dry_run=False)
    assert table.verify(deep=True) == []
    digest = table.snapshot.bloom_files[0].definition_hash
    assert digest == other.snapshot.bloom_files[0].definition_hash

    write_id, base = new_write_id(), table.snapshot
    victim = base.segments[0]
    lie = SegmentFilter(victim.file, ROWS, "built", bloom_blocks(np.arange(3, dtype=np.uint64), 2))
    listed = write_bloom_file(
        base.storage,
        new_bloom_name(write_id),
        table.properties.declared_indexes[0].columns[0],
        [(0, 1)],
        lambda writer: write_filters(writer, [lie]),
    )
    change = ListBloomFiles((listed,), frozenset(one.name for one in base.bloom_files))
    commit(base.storage, base, change, write_id=write_id, operation="forge")
    table.refresh()
    assert table.verify() == []
    (finding,) = table.verify(deep=True)
    assert finding.file == listed.name
    assert victim.file in finding.problem


def test_deletes_updates_and_merges_read_the_segments_that_may_match(tmp_path, monkeypatch):
    table = built(tmp_path)
    read = []
    plain = affected_segments.matched_rows
    monkeypatch.setattr(
        affected_segments, "matched_rows", lambda *given: read.append(1) or plain(*given)
    )
    assert table.delete(f"visit = '{visit(5)}'").deleted_rows == 1
    assert table.update({"user": "-5"}, f"visit = '{visit(6)}'").updated_rows == 1
    assert len(read) == 2
    merged = merge_rows._merged_segment
    monkeypatch.setattr(
        merge_rows, "_merged_segment", lambda *given: read.append(1) or merged(*given)
    )
    keys = [visit(n) for n in range(0, 1000, 10)]
    new = rows(5000, 3).to_pylist()
    done = table.merge(
        [{**row, "visit": key} for row, key in zip(new, keys, strict=False)] + new[:1], on=["visit"]
    )
    assert (done.updated_rows, done.inserted_rows) == (3, 1)
    assert len(read) <= 2 + 4
    assert table.verify(deep=True) == []


def test_changes_by_a_hundred_keys_open_the_segments_that_hold_them(tmp_path, monkeypatch):
    """And false ones, of which there are 0.001 for each key and segment."""
    count, rows_each = 300, 2
    visits = [f"visit {n * 7919 % 100_003:06}" for n in range(count * rows_each)]
    table = projseg.Table.create(
        tmp_path / "t",
        {"visit": "string", "x": "long"},
        target_segment_rows=rows_each,
        indexes=[VISITS],
        properties={"compactMinSegments": "100000"},
        data={"visit": visits, "x": range(len(visits))},
    )
    assert len(table.snapshot.segments) == count
    opened_files = set()
    plain = SegmentFile.open.__func__

    def opening(cls, *given, path, **named):
        opened_files.add(path)
        return plain(cls, *given, path=path, **named)

    monkeypatch.setattr(SegmentFile, "open", classmethod(opening))
    keys = visits[:: 2 * rows_each][:100]
    false_count = round(0.001 * count * len(keys))

    def assert_few(change, done, expected):
        KEPT.clear()
        opened_files.clear()
        found = change()
        assert getattr(found, done) == expected
        assert len(opened_files) <= expected + false_count
        return found

    listed = ", ".join(f"'{key}'" for key in keys)
    changed = [{"visit": key, "x": -1} for key in keys]
    assert_few(lambda: table.merge(changed, on=["visit"]), "updated_rows", 100)
    assert_few(lambda: table.update({"x": "-2"}, f"visit IN ({listed})"), "updated_rows", 100)
    found = table.query(columns=["visit"], filter="x = -2")["visit"].to_pylist()
    assert sorted(found) == sorted(keys)
    assert_few(lambda: table.delete(f"visit IN ({listed})"), "deleted_rows", 100)
    absent = [{"visit": f"{key}!", "x": 0} for key in keys]
    assert_few(
        lambda: table.merge(absent, on=["visit"], when_not_matched="ignore"), "updated_rows", 0
    )
    assert table.query(aggregators="count(*) AS n")["n"].to_pylist() == [len(visits) - 100]


TYPES = {
    "n": ("bigint", st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)),
    "s": ("string", st.sampled_from(["", "a", "b", "é", "a\0", "aa"]) | text_cases.TEXTS),
    "f": ("double", st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf, -math.inf])),
    "g": ("float", st.sampled_from([0.0, -0.0, math.nan, 0.1, 1.5])),
    "d": ("decimal(38,2)", st.decimals(-(10**30), 10**30, places=2) | st.just(Decimal("1.00"))),
    "b": ("binary", st.sampled_from([b"", b"\0", b"ab"])),
    "t": ("date", st.dates(datetime.date(2024, 1, 1), datetime.date(2024, 1, 4))),
}
LITERALS = st.text("abkK", min_size=2, max_size=5)
SIGNS = st.sampled_from(["", "", "", "", "?", "+", "*", "{2}", "{1,2}", "{3}", "{4,}"])
PATTERNS = regex_cases.PATTERNS | st.builds(
    lambda flag, parts: flag + "".join(parts),
    st.sampled_from(["", "(?i)"]),
    st.lists(
        st.one_of(
            LITERALS,
            st.builds("({}|{}){}".format, LITERALS, LITERALS, SIGNS),
            st.builds("(?:{}){}".format, LITERALS, SIGNS),
            st.builds("{}{}".format, LITERALS, SIGNS),
            regex_cases.PATTERNS.map("({})".format),
            st.sampled_from([".", "[aA]", "\\w*", "\u0307", "^", "$", "\u212a"]),
        ),
        min_size=1,
        max_size=4,
    ),
)
"""Patterns of which many hold three characters in a row."""


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


TEXTS = st.one_of(
    text_cases.conditions("s"),
    PATTERNS.map(lambda pattern: f"s RLIKE {quoted(pattern)}"),
) | st.sampled_from(
    [
        *("n = 1", "n IN (1, 2, null)", "n = 1.0", "n = 1.5", "n <=> 3", "n = CAST(2 AS TINYINT)"),
        *("s = 'a'", "s IN ('', 'é')", "s = 'a\\u0000'", "s <=> 'b'", "s = 1", "s = NULL"),
        *("f = 0", "f = -0.0D", "f = CAST('nan' AS DOUBLE)", "f IN (1.5, 0)", "f = '1.5'"),
        *("g = 0.1F", "g = CAST(0.1 AS FLOAT)", "g = 0.1D", "g IN (0, 1.5)"),
        *("d = 1", "d = 1.00", "d IN (1.0, 2.5)", "d = 1.005", "d = 1D"),
        *("b = X'00'", "b = X''", "b = 'ab'", "t = DATE'2024-01-02'", "t = '2024-01-03'"),
        *("t IN ('2024-01-01', null)", "n = 100 / 0", "n IS NULL", "n > 0"),
    ]
)


def holds(needed, grams):
    if isinstance(needed, OneOf):
        return any(value.value in grams for value in needed.values)
    parts = [holds(part, grams) for part in needed.parts]
    return all(parts) if isinstance(needed, AllOf) else any(parts)


def matched_text(draw, pattern):
    """A text that holds what the pattern needs, as often as such a text is easily made."""
    python = pattern.replace("(?<n>", "(?P<n>").replace("\\z", "\\Z")
    try:
        return draw(st.from_regex(python)) if "\\p" not in python else draw(regex_cases.TEXTS)
    except (re.error, OverflowError, ValueError, InvalidArgument, FutureWarning):
        return draw(regex_cases.TEXTS)


SEEN = Counter()


@settings(max_examples=tries(300), deadline=None)
@given(st.data())
def test_a_text_that_matches_holds_the_grams_of_the_regular_expression(data):
    pattern = data.draw(PATTERNS)
    try:
        regex = read_pattern(pattern)
    except ProjsegError:
        assert _grams_of_regex(pattern) is None
        return
    needed = _grams_of_regex(pattern)
    texts = [data.draw(regex_cases.TEXTS), *(matched_text(data.draw, pattern) for _ in range(2))]
    found = regex.search(pa.array(texts, pa.string())).to_pylist()
    SEEN["patterns"] += 1
    SEEN["with grams"] += needed is not None
    assert needed is None or _count(needed) <= GRAMS_MAX
    for text, is_found in zip(texts, found, strict=True):
        SEEN["found"] += is_found and needed is not None
        assert not is_found or needed is None or holds(needed, set(grams_of(text)))


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("abcd", ["abc", "bcd"]),
        ("ab(c|d)ef", None),
        ("(?i)KABC?", ["kab"]),
        ("a{5}b", ["aaa", "aab"]),
        ("a{2,}bc", ["aab", "abc"]),
        ("x(ab)+y", ["xab", "aby"]),
        ("ab.cde", ["cde"]),
        ("ab\u0307cde", ["cde"]),
        ("(abc)?(def)*ghi", ["ghi"]),
        ("(abc)?", None),
        ("abc|de", None),
        ("\\Qa.b\\E", ["a.b"]),
        ("[kK]ab", ["kab"]),
        ("[k\u212a]ab", None),
        ("|".join(f"{n:03}" for n in range(17)), None),
    ],
)
def test_the_grams_of_a_regular_expression(pattern, texts):
    needed = _grams_of_regex(pattern)
    if texts is None:
        assert needed is None
    else:
        assert {part.values[0].value for part in getattr(needed, "parts", (needed,))} == {
            gram for text in texts for gram in grams_of(text)
        }


def test_options_and_many_literals_keep_at_most_sixteen_grams():
    options = _grams_of_regex("|".join(f"{n:03}" for n in range(16)))
    assert _count(options) == GRAMS_MAX
    long = _grams_of_regex("(abcdefghijklmnop|qrstuvwxyz0123)")
    assert 2 <= _count(long) <= GRAMS_MAX


@st.composite
def conditions(draw, depth=2):
    if depth == 0 or draw(st.booleans()):
        return draw(TEXTS)
    parts = [draw(conditions(depth - 1)) for _ in range(2)]
    joined = f" {draw(st.sampled_from(['AND', 'OR']))} ".join(f"({part})" for part in parts)
    return draw(st.sampled_from([joined, f"NOT ({joined})"]))


@st.composite
def lives(draw):
    row = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()})
    batch = st.tuples(st.just("append"), st.lists(row, min_size=1, max_size=6))
    verb = st.one_of(
        batch,
        batch,
        st.tuples(st.sampled_from(["delete", "update"]), conditions()),
        st.sampled_from(
            ["compact", "gather", "materialize", "widen", "restore", "damage", "damage postings"]
        ).map(lambda name: (name, None)),
        st.tuples(st.just("merge"), st.lists(row, min_size=1, max_size=3)),
    )
    columns = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, unique=True))
    kinds = draw(st.sets(st.sampled_from(["token", "ngram"])))
    if (copies := draw(st.sampled_from([1, 8]))) > 1:
        kinds = {"token", "ngram"}
    return (
        [
            projseg.Index("i", columns),
            *(projseg.Index(kind, "s", kind=kind) for kind in sorted(kinds)),
        ],
        [draw(batch), *draw(st.lists(verb, max_size=6))],
        draw(st.lists(conditions(), min_size=2, max_size=6)),
        copies,
    )


def result(table, **asked):
    try:
        return sorted(map(repr, table.query(**asked).to_pylist()))
    except ProjsegError as error:
        return [error.code]


def merge(table, given):
    keys = {row["s"]: row for row in given if row["s"] is not None}
    if keys:
        table.merge(list(keys.values()), on=["s"])


def repeated(rows_, copies):
    return rows_ if copies == 1 else [*rows_, *({"s": text} for text in REPEATED)] * copies


def hurt_postings(table):
    """Flip a byte of the first page of places of each other segment."""
    for entry in table.snapshot.segments[::2]:
        for one in open_uncached(table.snapshot.storage, entry).footer.postings:
            for page in np.frombuffer(one.table.columns[1].pages, PAGE_DTYPE):
                flip(Path(table.location, entry.file), int(page["file_offset"]) + 1)
    KEPT.clear()


def hurt(table):
    for one in table.snapshot.bloom_files[::2]:
        path = Path(table.location, one.name)
        if path.exists():
            flip(path, 61)
    KEPT.clear()


VERBS = {
    "append": projseg.Table.append,
    "merge": merge,
    "delete": projseg.Table.delete,
    "update": lambda table, given: table.update({"n": "try_add(n, 1)"}, given),
    "compact": lambda table, _: table.compact(),
    "gather": lambda table, _: gather_blooms.gather_all(table.snapshot),
    "materialize": lambda table, _: table.materialize_index(),
    "widen": lambda table, _: table.widen_column("g", "double"),
    "restore": projseg.Table.restore,
    "damage": lambda table, _: hurt(table),
    "damage postings": lambda table, _: hurt_postings(table),
}
SEARCHED = Counter()
REPEATED = ["aaa", "kab b", "abKa", "x kabx é", "K", "Kaab bkk", "ab\u0307ka", "ß aKb", "é", "bb b"]
"""So many texts that a word of one of them is posted."""
OF_REPEATED = ["text_match(s, 'kabx OR (k* -ab*)')", "s LIKE '%abx%'", "s RLIKE '(?i)BKK|kabx'"]


@settings(max_examples=tries(80), deadline=None)
@given(lives())
def live(tmp_path_factory, life):
    """Lead a life with indexes and one without, and compare their answers."""
    indexed, verbs, asked, copies = life  # of rows, so that texts repeat and have dictionaries
    folder = tmp_path_factory.mktemp("life")
    schema = {name: kind for name, (kind, _) in TYPES.items()}
    tables = [
        projseg.Table.create(folder / "with", schema, target_segment_rows=2 * copies * copies),
        projseg.Table.create(folder / "without", schema, target_segment_rows=2 * copies * copies),
    ]
    versions = [[table.version] for table in tables]
    for place, (verb, given_) in enumerate(verbs):
        if place == len(verbs) // 2:
            # Half of the segments are there already, and stay without until somebody builds.
            for index in indexed:
                tables[0].add_index(index)
            tables[1].add_projection({"name": "p", "groupBy": ["n"], "aggregators": ["count(*)"]})
        codes = set()
        for table, before in zip(tables, versions, strict=True):
            # Of the table with indexes more versions hold the same rows.
            wanted = before[-2:][0] if verb == "restore" else given_
            wanted = repeated(wanted, copies) if verb == "append" else wanted
            try:
                VERBS[verb](table, wanted)
            except ProjsegError as error:
                codes.add(error.code)
            else:
                codes.add(None)
            table.refresh()
            before.append(table.version)
        if len(codes) > 1:
            return  # a row of a segment that is left out raises nothing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_pruning, "COSTLIER_SHARE", 1e9)
        patch.setattr(by_postings, "_WORDS_VALUES_MIN", 0)
        patch.setattr(by_postings, "_GRAMS_BYTES_MIN", 0)
        patch.setattr(by_postings, "_CANDIDATE_SHARE", 1)
        patch.setattr(by_postings, "_of_query", counted("words", by_postings._of_query))
        patch.setattr(by_postings, "_of_keys", counted("parts", by_postings._of_keys))
        for condition in [*asked, *OF_REPEATED]:
            query = {"columns": ["*"], "filter": condition, "order_by": ["n", "s", "d", "t"]}
            found, plain = (result(table, **query) for table in tables)
            unpruned = result(tables[0], **query, context={"noIndexes": True})
            if not unpruned[:1] or not unpruned[0].startswith("PROJSEG"):
                assert found == unpruned == plain


def counted(name, function):
    """Return the function; what it finds is counted."""

    def found(*given_):
        result_ = function(*given_)
        mask = getattr(result_, "mask", result_)
        SEARCHED[name] += mask is not None and bool(mask.any())
        return result_

    return found


def test_no_index_changes_an_answer_over_a_random_life(tmp_path_factory):
    SEARCHED.clear()
    live(tmp_path_factory)
    assert min(SEARCHED["words"], SEARCHED["parts"]) > 0, SEARCHED
