"""A stranger finds keys in Bloom files, as projseg does, and no others."""

import decimal
from pathlib import Path

import pyarrow as pa
import pytest
from plain_blooms import PlainBloomFile, indexes, postings
from plain_reader import PlainSegment
from plain_words import runs_of, words_of

import projseg
from projseg.maintenance.gather_blooms import gather_all

COLUMNS = {
    "visit": ("string", lambda n: f"visit {n}"),
    "user": ("bigint", lambda n: n * 7919 - 10**12),
    "price": ("decimal(38,2)", lambda n: decimal.Decimal(n) * 10**30),
    "share": ("double", lambda n: n / 8),
}


@pytest.mark.parametrize("is_gathered", [False, True])
def test_a_stranger_finds_each_key_and_few_others(tmp_path, is_gathered):
    table = projseg.Table.create(
        tmp_path / "t",
        {name: type_ for name, (type_, _) in COLUMNS.items()},
        target_segment_rows=40,
        indexes=[projseg.Index("all", list(COLUMNS))],
    )
    for first in (0, 1000, 2000):
        rows = range(first, first + 120 + first // 10)
        table.append(
            pa.table(
                [
                    pa.array([make(n) for n in rows]).cast(table.schema.field(name).type)
                    for name, (_, make) in COLUMNS.items()
                ],
                names=list(COLUMNS),
            )
        )
    if is_gathered:
        gather_all(table.snapshot)
        table.refresh()
    stated = indexes(Path(table.location), table.version)
    (declared,) = stated["declared"]
    false = 0
    for name, digest in declared["columns"]:
        type_, make = COLUMNS[name]
        files = [
            PlainBloomFile(Path(table.location), one) for one in stated["files"] if one[0] == digest
        ]
        assert len(files) == (1 if is_gathered else 3)
        for n in (0, 119, 1000, 1215, 2300):
            found = set().union(*(file.may_hold(_stored(make(n)), type_) for file in files))
            holders = {
                entry.file
                for entry in table.snapshot.segments
                if n in range(*_numbers(table, entry))
            }
            assert len(holders) == 1
            assert holders <= found
            false += len(found) - 1
        false += sum(
            len(file.may_hold(_stored(make(n)), type_)) for n in range(500, 530) for file in files
        )
    assert false <= 10


def _stored(value):
    """A value as it is hashed: a decimal without its point."""
    return int(value * 100) if isinstance(value, decimal.Decimal) else value


def _numbers(table, entry):
    """The numbers that a segment's rows were made of: [first, end)."""
    zone = entry.columns["user"]
    return (zone.min + 10**12) // 7919, (zone.max + 10**12) // 7919 + 1


@pytest.mark.parametrize(
    ("kind", "keys_of", "type_"), [("token", words_of, "string"), ("ngram", runs_of, "bigint")]
)
def test_a_stranger_finds_words_and_runs_of_texts(tmp_path, kind, keys_of, type_):
    texts = [
        *("Foo-bar_2 für ΣΑΣ 中文", "İstanbul \u0131ss\u0131z K2", "the straße", None),
        *(f"title {n} of a page{n * n}" for n in range(56)),
    ]
    table = projseg.Table.create(
        tmp_path / "t", {"s": "string"}, indexes=[projseg.Index("i", "s", kind=kind)]
    )
    for first in range(0, 60, 20):
        table.append(pa.table({"s": texts[first : first + 20]}))
    stated = indexes(Path(table.location), table.version)
    files = [PlainBloomFile(Path(table.location), one) for one in stated["files"]]
    holders = {}
    for number, one in enumerate(table.snapshot.segments):
        for text in table.query(columns=["s"])["s"].to_pylist()[20 * number : 20 * number + 20]:
            for key in keys_of(text or ""):
                holders.setdefault(key, set()).add(one.file)
    assert len(holders) > 60
    false = 0
    for key, expected in holders.items():
        found = set().union(*(file.may_hold(key, type_) for file in files))
        assert found >= expected
        false += len(found - expected)
    assert false <= 5
    (digest,) = stated["definitions"]
    found = 0
    for one in table.snapshot.segments:
        segment = PlainSegment((Path(table.location) / one.file).read_bytes())
        (column,) = segment.table("__base")["columns"]
        values = segment.dictionaries[column["dictionary"]]
        posted = postings(segment, digest)
        every = {key for text in values for key in keys_of(text or "")}
        assert posted.keys() == every
        for key, places in posted.items():
            holding = [n for n, text in enumerate(values) if key in keys_of(text or "")]
            assert places == (holding if 8 * len(holding) <= len(values) else None)
            found += places is not None
        segment.read_table("__base")
        for number in range(len(segment.dictionaries)):
            segment.hashes(number)
        for entry in segment.table("__base")["columns"]:
            segment.bitmaps(entry)
        segment.check_layout()
    assert found > 60
