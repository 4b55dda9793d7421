"""Values found by postings: no answer changes, damage costs time only, every writer makes them."""

import logging
import random
import shutil
import tracemalloc
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from forged_tables import Lie, Original, other_values
from scale import tries
from words import grams, words

import projseg
from projseg.cli.segment_report import describe_segment, opened, postings_rows
from projseg.errors import CorruptSegmentError, InvalidInputError, LimitExceededError
from projseg.evaluation import by_postings
from projseg.memory.cache import KEPT
from projseg.segment_format.file.postings import StoredPostings
from projseg.segment_format.page_directory import PAGE_DTYPE
from projseg.table_layer.commits.footer_match import open_uncached

TOKEN = projseg.Index("words", "page", kind="token")
NGRAM = projseg.Index("parts", "page", kind="ngram")
SCHEMA = {"page": "string", "n": "bigint"}
COUNT = 3000
WORDS = [f"{first}{second}{n}" for n in range(9) for first in "abcdefgh" for second in ("o", "ÉT")]


def texts(seed=7, count=COUNT):
    drawn = random.Random(seed)
    made = [f"the {' '.join(drawn.choices(WORDS, k=3))} №{n}" for n in range(count)]
    made[:2] = ["ao1 bo2 №207", "of ét1 №217"]  # what few or none are drawn like
    return [None if n % 97 == 5 else text for n, text in enumerate(made)]


def rows(seed=7, count=COUNT):
    return pa.table({"page": texts(seed, count), "n": pa.array(range(count), pa.int64())})


def made(folder, indexes=(TOKEN, NGRAM), data=None, **options):
    data = rows() if data is None else data
    options = {"cluster_by": ["page"], **options}
    return projseg.Table.create(folder / "t", SCHEMA, indexes=indexes, data=data, **options)


@pytest.fixture
def always(monkeypatch):
    """Postings are read however few the values are."""
    monkeypatch.setattr(by_postings, "_WORDS_VALUES_MIN", 0)
    monkeypatch.setattr(by_postings, "_GRAMS_BYTES_MIN", 0)


def stored(table):
    """The postings of each segment by kind, as stored."""
    found = []
    for entry in table.snapshot.segments:
        segment = open_uncached(table.snapshot.storage, entry)
        of = [StoredPostings(segment, one) for one in segment.footer.postings]
        found.append({one.definition.kind: one for one in of})
    return found


def asked(table, condition, **context):
    KEPT.clear()
    found = table.query(columns=["n"], filter=condition, context=context)
    return sorted(found["n"].to_pylist())


CONDITIONS = [
    "text_match(page, 'ao1')",
    "text_match(page, 'AO1 bo2')",
    "text_match(page, 'nothing')",
    "text_match(page, 'the')",
    "text_match(page, 'the bo2')",
    "text_match(page, '\"ao1 bo2\"')",
    "text_match(page, '\"the co3\" OR hét0')",
    "text_match(page, 'do4 -eo5')",
    "text_match(page, '-do4')",
    "text_match(page, '-the')",
    "text_match(page, '-\"ao1 bo2\"')",
    "text_match(page, 'do4 OR (fo6 go7)')",
    "text_match(page, 'h*')",
    "text_match(page, '*o8')",
    "text_match(page, 'aé*3 OR b*9')",
    "NOT text_match(page, 'ao1')",
    "text_match(page, 'ao1') OR n < 7",
    "text_match(page, 'ao1') OR page LIKE '%co3 №1%'",
    "text_match(page, 'ao1') AND page LIKE '%№1%'",
    "page LIKE '%bo2 co3%'",
    "page LIKE '%ét1 %№2_7'",
    "page LIKE '%ÉT1%'",
    "page ILIKE '%ét1 %№2_7'",
    "lower(page) LIKE '%ét1 co%'",
    "page LIKE '%no such%'",
    "page LIKE '%the%'",
    "page RLIKE 'go7 .*(ao1|bo2)'",
    "contains(page, 'o3 aÉT')",
    "startswith(page, 'the ao1 ')",
    "endswith(page, '№2999')",
    "page = 'the ao1'",
    "page IS NULL OR text_match(page, 'ao1')",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_answer_changes(always, condition, lasting):
    expected = asked(lasting, condition, noIndexes=True)
    assert asked(lasting, condition) == expected
    if "no" not in condition and "= 'the" not in condition and "b*9" not in condition:
        assert expected
    assert asked(lasting, condition, excludeIndexes=["words"]) == expected


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tables"))


def test_postings_say_which_values_hold_a_key(lasting):
    (found,) = stored(lasting)
    (entry,) = lasting.snapshot.segments
    values = open_uncached(lasting.snapshot.storage, entry).dictionary("page").values.to_pylist()
    assert values[0] is None
    for kind, keys_of in (("token", words), ("ngram", grams)):
        holders = {}
        for place, text in enumerate(values):
            for key in keys_of(text or ""):
                holders.setdefault(key, set()).add(place)
        postings = found[kind]
        assert postings.keys.values.to_pylist() == sorted(
            holders, key=lambda key: key.encode() if isinstance(key, str) else key
        )
        pairs = [
            (postings.keys.values[key].as_py(), place)
            for keys, places in postings.pages()
            for key, place in zip(keys.tolist(), places.tolist(), strict=True)
        ]
        common = {key for key, places in holders.items() if 8 * len(places) > len(values)}
        assert common
        assert pairs == [
            (key, place)
            for key in postings.keys.values.to_pylist()
            if key not in common
            for place in sorted(holders[key])
        ]


@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        ("text_match(page, 'ao1 -bo2')", ["token"]),
        ("text_match(page, 'h* OR ao1')", ["token"]),
        ("page LIKE '%bo2 co3%'", ["ngram"]),
    ],
)
def test_words_alone_decode_no_value(always, monkeypatch, lasting, condition, kinds):
    """What is evaluated are the candidates: none for words, few for a pattern."""
    evaluated = []
    real = by_postings.evaluate
    monkeypatch.setattr(
        by_postings, "evaluate", lambda *args: evaluated.append(args[2]) or real(*args)
    )
    count = len(asked(lasting, condition))
    assert evaluated == [] if kinds == ["token"] else count <= sum(evaluated) < 200


def postings_segments(table, condition, **context):
    explained = table.explain(columns=["n"], filter=condition, analyze=True, context=context)
    rows = explained.indexes.to_pylist()
    used = {row["index"]: row["postings_segments"] for row in rows if row["postings_segments"]}
    assert ("name the values" in str(explained)) == bool(used)
    return used


def test_explain_says_where_postings_name_values(always, tmp_path, monkeypatch):
    table = made(tmp_path, data=rows(count=600), target_segment_rows=300)
    assert len(table.snapshot.segments) == 2
    for condition, used in [
        ("text_match(page, 'ao1') AND n < 400", {"words": 2}),
        ("text_match(page, 'h*')", {"words": 2}),
        ("text_match(page, 'the')", {}),
        ("page LIKE '%bo2 co3%'", {"parts": 2}),
        ("page LIKE '%bo2 co3%' AND text_match(page, 'bo2')", {"words": 2, "parts": 2}),
        ("text_match(page, 'bo2') OR page LIKE '%co3 aé%'", {"words": 2, "parts": 2}),
    ]:
        assert postings_segments(table, condition) == used, condition
        assert postings_segments(table, condition, noIndexes=True) == {}
    monkeypatch.setattr(by_postings, "_WORDS_VALUES_MIN", 10_000)
    assert postings_segments(table, "text_match(page, 'ao1')") == {}


def kept(table):
    """The declared definitions that each segment has postings of."""
    table.refresh()
    declared = {
        one.definition_hash
        for index in table.snapshot.properties.declared_indexes
        for one in index.columns
        if one.postings
    }
    for entry in table.snapshot.segments:
        footer = open_uncached(table.snapshot.storage, entry).footer
        yield {one.definition_hash for one in footer.postings} >= declared


def test_every_verb_leaves_postings_in_all_segments(tmp_path):
    table = made(tmp_path, data=rows(count=200), target_segment_rows=50)
    spec = {"name": "p", "groupBy": ["page"], "aggregators": ["count(*) AS n"]}
    verbs = [
        lambda: table.append(rows(8, 120)),
        lambda: table.delete("n = 3"),
        lambda: table.update({"page": "concat(page, ' new')"}, "n < 20"),
        lambda: table.merge(rows(9, 30), on=["n"]),
        lambda: table.add_projection(spec, materialize=True),
        lambda: table.rename_column("page", "title"),
        lambda: table.append(rows(10, 60).rename_columns(["title", "n"])),
        lambda: table.overwrite(rows(11, 3).rename_columns(["title", "n"]), filter="n < 3"),
        lambda: table.compact(),
        lambda: table.restore(version=3),
        lambda: table.erase("n = 30"),
        lambda: table.add_index(projseg.Index("more", "page", kind="token", fpp=0.01), True),
        lambda: table.materialize_index(),
        lambda: table.drop_index("parts"),
        lambda: table.compact(target_segment_rows=500),
        lambda: table.overwrite(rows(12, 90)),
    ]
    for number, verb in enumerate(verbs):
        verb()
        assert all(kept(table)), number
        assert table.verify(deep=True) == [], number
        for row in table.indexes().to_pylist():
            assert row["covered"] == row["segments"]
            assert row["postings_bytes"] > 0


def base_pages(table):
    """The bytes of base columns and dictionaries of each segment, by their order."""
    found = []
    for entry in table.snapshot.segments:
        segment = open_uncached(table.snapshot.storage, entry)
        for column in segment.tables[0].columns:
            records = segment.directory("__base", "base", column.name).records
            found += [segment.read(int(r["file_offset"]), int(r["stored_bytes"])) for r in records]
    return found


def test_old_segments_get_postings_by_copying_their_parts(tmp_path):
    table = made(tmp_path, (), rows(count=400), target_segment_rows=100)
    table.delete("n = 30")
    before, pages = table.version, base_pages(table)[3:]
    seen = []
    table.add_index(TOKEN)
    assert table.indexes().to_pylist()[0]["covered"] == 0
    table.materialize_index(on_progress=lambda *done: seen.append(done))
    assert all(kept(table))
    assert table.verify(deep=True) == []
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]
    assert len(set(pages) & set(base_pages(table))) >= len(pages) - 3
    version = table.version
    table.materialize_index()
    assert table.version == version
    operations = [row["operation"] for row in table.history().to_pylist()]
    assert "materialize index" in operations
    changes = projseg.Table(table.location).snapshot
    assert sum(entry.live_row_count for entry in changes.segments) == 399
    assert before < version


def test_without_postings_nothing_is_stored(tmp_path):
    table = made(tmp_path, [projseg.Index("i", "page", kind="ngram", postings=False)])
    assert stored(table) == [{}]
    (entry,) = table.snapshot.segments
    segment = open_uncached(table.snapshot.storage, entry)
    assert segment.tail.optional_features == 0
    content = Path(table.location, entry.file).read_bytes()
    footer = content[segment.tail.footer_offset : -40]
    assert "postings" not in msgspec.msgpack.decode(footer)
    assert table.indexes().to_pylist()[0]["postings_bytes"] == 0


def test_a_column_without_a_dictionary_has_filters_only(tmp_path):
    many = pa.table({"page": [f"row {n} of {n * 7919}" for n in range(5000)], "n": range(5000)})
    table = made(tmp_path, data=many, cluster_by=["n"])
    assert stored(table) == [{}]
    for row in table.indexes().to_pylist():
        assert (row["status"], row["postings"], row["postings_bytes"]) == ("ENABLED", True, 0)
    version = table.version
    table.materialize_index()
    assert table.version == version
    assert asked(table, "text_match(page, '4711')") == [4711]
    assert table.verify(deep=True) == []


@pytest.mark.parametrize("postings", ["yes", 1, None])
def test_postings_are_true_or_false(tmp_path, postings):
    index = projseg.Index("i", "page", kind="token", postings=postings)
    if postings is None:
        assert made(tmp_path, [index]).indexes()["postings"].to_pylist() == [True]
        return
    with pytest.raises(InvalidInputError, match="postings") as refused:
        made(tmp_path, [index])
    assert refused.value.code == "PROJSEG_BAD_INDEX"


def test_bloom_has_no_postings(tmp_path):
    with pytest.raises(InvalidInputError, match="false for bloom"):
        made(tmp_path, [projseg.Index("i", "page", postings=True)])
    assert made(tmp_path, [projseg.Index("i", "page")]).indexes()["postings"].to_pylist() == [False]


def test_inspect_counts_postings(lasting):
    (entry,) = lasting.snapshot.segments
    path = f"{lasting.location}/{entry.file}"
    described = describe_segment(*opened(path), path)
    assert [row["index"] for row in postings_rows(described)] == ["token", "ngram"]
    for row, found in zip(postings_rows(described), stored(lasting)[0].values(), strict=True):
        assert row["keys"] == len(found.keys)
        assert row["rows"] == sum(len(keys) for keys, _ in found.pages())
        assert row["bytes"] > 0
    by_purpose = described.bytes_by_purpose
    assert by_purpose["pages of postings"] == sum(r["bytes"] for r in postings_rows(described))
    assert 0 <= by_purpose["padding"] < 8 * 200


# Damage, and files made by somebody else.


def test_damaged_postings_cost_time_only(tmp_path, always, caplog):
    table = made(tmp_path)
    conditions = CONDITIONS[:24]
    expected = [asked(table, condition) for condition in conditions]
    (entry,) = table.snapshot.segments
    path = Path(table.location, entry.file)
    content = bytearray(path.read_bytes())
    segment = open_uncached(table.snapshot.storage, entry)
    hurt = 0
    for one in segment.footer.postings:
        for column in one.table.columns:
            for record in np.frombuffer(column.pages, PAGE_DTYPE):
                content[int(record["file_offset"]) + 9] ^= 0xFF
                hurt += 1
    assert hurt >= 4
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "projseg.table"):
        assert [asked(table, condition) for condition in conditions] == expected
    assert "goes on without postings" in caplog.text
    assert any("postings" in finding.what for finding in table.verify())


LIES = {
    "count": (("count",), COUNT),
    "huge count": (("count",), 2**40),
    "negative count": (("count",), -1),
    "no count": (("count",), None),
    "of": (("of",), "rows"),
    "definition": (("definition",), "{}"),
    "no text": (("definition",), 7),
    "hash": (("definition_hash",), "0" * 32),
    "rows": (("table", "row_count"), 2**31),
    "many rows": (("table", "row_count"), 2**60),
    "columns": (("table", "columns"), []),
    "dictionary": (("table", "columns", 0, "dictionary"), 77),
    "no dictionary": (("table", "columns", 0, "dictionary"), None),
    "dictionary of pages": (("table", "columns", 0, "dictionary"), 0),
    "type": (("table", "columns", 1, "type"), "string"),
    "kind": (("table", "columns", 0, "kind"), "opaque"),
    "directory": (("table", "columns", 1, "pages"), []),
    "pages": (("table", "columns", 0, "pages", 0, "row_count"), 65_537),
    "place of a page": (("table", "columns", 0, "pages", 0, "file_offset"), 2**62),
    "size of a page": (("table", "columns", 0, "pages", 0, "raw_bytes"), 2**31),
    "bounds": (("table", "columns", 0, "pages", 0, "maximum"), -5),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    location = tmp_path_factory.mktemp("sound")
    made(location)
    return Original(location / "t")


@pytest.mark.parametrize("lie", LIES)
def test_postings_that_contradict_themselves_cost_time_only(
    tmp_path, always, original, lasting, lie
):
    """All checksums are right: only what the footer says of postings is not."""
    path, value = LIES[lie]
    ((name, _),) = original.parts.items()
    original.forged(
        tmp_path / "t", [Lie((name, "postings", number, *path), value) for number in (0, 1)]
    )
    table = projseg.Table(tmp_path / "t")
    for condition in (*CONDITIONS[:8], *CONDITIONS[19:22]):
        assert asked(table, condition) == asked(lasting, condition, noIndexes=True)
    if lie != "of":
        findings = [finding for finding in table.verify(deep=True) if finding.file == name]
        assert any("postings" in f"{one.what} {one.found}" for one in findings)


MEMORY_MAX = 32 << 20


def lies_of_postings(original, draw):
    """Endless lies about the postings of a segment: fields, and bytes of their parts."""
    ((name, document),) = [(n, original.documents[n]) for n in original.parts]
    fields = [(p, v) for p, v in original.places() if p[:2] == (name, "postings")]
    keys = {one["table"]["columns"][0]["dictionary"] for one in document["postings"]}
    for number in keys:
        inside = (name, "dictionaries", number)
        fields += [(p, v) for p, v in original.places() if p[:3] == inside]
    parts = [(place, value) for place, value in fields if place[-1] == "file_offset" and value]
    sizes = dict(fields)
    while True:
        if draw.random() < 0.5:
            place, value = draw.choice(fields)
            yield Lie(place, draw.choice(other_values(value, draw)))
            continue
        place, start = draw.choice(parts)
        size = sizes[(*place[:-1], "stored_bytes")]
        at = draw.randrange(min(size, 40)) if draw.random() < 0.7 else draw.randrange(size)
        change = draw.randbytes(draw.choice([1, 1, 2, 4, 8]))[: size - at]
        yield Lie((name, "bytes", start, at), change)


def test_forged_postings_take_little_memory_and_are_found(tmp_path, always, original, lasting):
    """All checksums are right. Postings that name other values are trusted, as zone maps are."""
    draw = random.Random(28)
    conditions = [CONDITIONS[n] for n in (0, 7, 12, 19, 25)]
    expected = [asked(lasting, condition, noIndexes=True) for condition in conditions]
    ((name, _),) = original.parts.items()
    lies, seen = lies_of_postings(original, draw), Counter()
    for number in range(tries(120)):
        lie = next(lies)
        location = tmp_path / str(number)
        original.forged(location, [lie])
        for path in original.location.glob("data/*.pblm"):
            shutil.copy(path, location / "data")
        table = projseg.Table(location)
        try:
            sound = [asked(table, condition, noIndexes=True) for condition in conditions]
        except (CorruptSegmentError, LimitExceededError):
            seen["refused"] += 1  # what is not of postings alone, as the list of dictionaries
            continue
        assert sound == expected
        tracemalloc.start()
        found = [asked(table, condition) for condition in conditions]
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX, lie
        tracemalloc.stop()
        findings = {finding.file for finding in table.verify(deep=True)}
        assert found == expected or name in findings, lie
        seen["found" if findings else "harmless"] += 1
        shutil.rmtree(location)
    assert seen["found"] > 5, seen
