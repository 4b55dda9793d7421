"""Bloom files that are cut, flipped or forged: no answer changes, little memory, all is named."""

import copy
import logging
import tracemalloc
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.memory.cache import KEPT
from projseg.segment_format.checksum_and_compression import file_seed, part_checksum
from projseg.segment_format.footer import TAIL_LAYOUT, Tail
from projseg.segment_format.indexes.bloom_file import BLOOM_TAIL_MAGIC
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.coverage import open_bloom
from projseg.table_layer.metadata.change import ListBloomFiles
from projseg.table_layer.storage.paths import new_bloom_name, new_write_id

SEGMENTS, ROWS = 6, 8
CONDITIONS = {
    "bloom": "page = 'Page 17 of Many'",
    "token": "text_match(page, '\"page 17\" -absent')",
    "ngram": "page LIKE '%17 of%' OR page RLIKE 'e 2[1] o'",
}
MEMORY_MAX = 32 << 20


@pytest.fixture(scope="module", params=sorted(CONDITIONS))
def indexed(request, tmp_path_factory):
    """(kind, a table with one Bloom file, its reference, its bytes)."""
    kind, count = request.param, SEGMENTS * ROWS
    pages = pa.table({"n": range(count), "page": [f"Page {n} of Many" for n in range(count)]})
    table = projseg.Table.create(
        tmp_path_factory.mktemp(kind) / "t",
        {"n": "bigint", "page": "string"},
        target_segment_rows=ROWS,
        indexes=[projseg.Index("pages", "page", kind=kind)],
        data=pages,
    )
    (listed,) = table.snapshot.bloom_files
    return kind, table, listed, Path(table.location, listed.name).read_bytes()


@pytest.fixture(autouse=True)
def no_warnings(caplog):
    caplog.set_level(logging.CRITICAL, "projseg.table")


def answers(table, kind, **asked):
    query = {"columns": ["n"], "filter": CONDITIONS[kind], "order_by": ["n"]} | asked
    return table.query(**query)["n"].to_pylist()


def assert_no_answer_changes(table, kind):
    """With an open file and none cached, and in little memory."""
    KEPT.clear()
    tracemalloc.start()
    found = answers(table, kind)
    assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    tracemalloc.stop()
    assert found == answers(table, kind, context={"noIndexes": True}) != []


def list_instead(table, listed, body, footer, segment_count):
    """List a file of these bytes instead, in a list that agrees with it."""
    write_id, base = new_write_id(), table.refresh().snapshot
    tail = Tail(len(body), len(footer))
    name = new_bloom_name(write_id)
    packed = body + footer + tail.pack(footer, BLOOM_TAIL_MAGIC)
    Path(table.location, name).write_bytes(packed)
    other = msgspec.structs.replace(
        listed,
        name=name,
        byte_count=len(packed),
        checksum=tail.checksum(footer),
        segment_count=segment_count,
    )
    change = ListBloomFiles((other,), frozenset(one.name for one in base.bloom_files))
    commit(base.storage, base, change, write_id=write_id, operation="forge")
    table.refresh()
    return name


def test_a_cut_or_flipped_file_costs_time_only(indexed):
    kind, table, listed, content = indexed
    path = Path(table.location, listed.name)

    @settings(max_examples=tries(60), deadline=None)
    @given(st.integers(0, len(content) - 1), st.integers(0, 8))
    def tried(place, bit):
        damaged = bytearray(content)
        if bit < 8:
            damaged[place] ^= 1 << bit
        path.write_bytes(damaged if bit < 8 else damaged[:place])
        assert_no_answer_changes(table, kind)
        for deep in (False, True):
            assert {finding.file for finding in table.verify(deep=deep)} == {listed.name}

    try:
        tried()
    finally:
        path.write_bytes(content)
    assert table.verify(deep=True) == []


VALUES = st.sampled_from(
    [None, -1, 0, 1, 2, 3, 255, 2**31, 2**40, 2**63 - 1, 2**64 - 1, 1.5, "", "built", b"", [], {}]
)


def leaves(tree, path=()):
    """The places of all values in a tree of lists and maps."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


def changed(data, footer):
    """A directory with one or two values replaced, or taken from elsewhere in it."""
    for _ in range(data.draw(st.integers(1, 2))):
        *outer, last = data.draw(st.sampled_from(list(leaves(footer))))
        inside, other = footer, footer
        for key in outer:
            inside = inside[key]
        for key in data.draw(st.sampled_from(list(leaves(footer)))):
            other = other[key]
        inside[last] = data.draw(VALUES | st.just(copy.deepcopy(other)))
    return footer


def test_a_forged_directory_is_refused_or_found(indexed):
    """Its checksums are repaired, in the file and in the list."""
    kind, table, listed, content = indexed
    body, tail = content[: listed.footer_offset], TAIL_LAYOUT.size
    whole = content[listed.footer_offset : -tail]

    def outcome(changed_footer):
        footer = msgspec.msgpack.encode(changed_footer)
        segments = msgspec.msgpack.decode(footer)
        segments = segments.get("segments") if isinstance(segments, dict) else None
        count = len(segments) if isinstance(segments, list) else SEGMENTS
        name = list_instead(table, listed, body, footer, count)
        KEPT.clear()
        uses = table.explain(columns=["n"], filter=CONDITIONS[kind]).indexes
        findings = table.verify(deep=True)
        is_refused = set(uses["reason"].to_pylist()) == {"DAMAGED"}
        if is_refused:
            assert {finding.file for finding in findings} == {name}
            assert_no_answer_changes(table, kind)
        elif not findings:  # a segment is said to have no filter, or the same is said again
            assert_no_answer_changes(table, kind)
        else:
            assert {finding.file for finding in findings} == {name}
        return is_refused, bool(findings)

    @settings(max_examples=tries(120), deadline=None)
    @given(st.data())
    def tried(data):
        outcome(changed(data, msgspec.msgpack.decode(whole)))

    tried()
    moved, counted = msgspec.msgpack.decode(whole), msgspec.msgpack.decode(whole)
    moved["bands"][0][2] += 8
    assert outcome(moved) == (True, True)
    counted["segments"][0][3] += 1
    assert outcome(counted) == (False, True)


def test_a_forged_page_is_found_by_deep_verification(indexed):
    """Its checksum is repaired, so only the values can tell."""
    _, table, listed, content = indexed
    list_instead(table, listed, *parts_of(content, listed), SEGMENTS)
    KEPT.clear()
    file = open_bloom(table.snapshot.storage, table.snapshot.bloom_files[0])
    assert table.verify(deep=True) == []
    for number, band in enumerate(file.footer.bands):
        offset, size = band.page(0)
        page = bytearray(content[offset : offset + size - 8])
        page[7] ^= 0x10  # of the first segment of the band
        forged = part_checksum(bytes(page), file_seed(file.footer.file_id), offset)
        body, footer = parts_of(content, listed)
        body = body[:offset] + page + forged.to_bytes(8, "little") + body[offset + size :]
        name = list_instead(table, listed, body, footer, SEGMENTS)
        (lying,) = [one.file for one in file.footer.segments if (one.band, one.slot) == (number, 0)]
        assert table.verify() == []
        (finding,) = table.verify(deep=True)
        assert finding.file == name
        assert lying in finding.problem


def parts_of(content, listed):
    return content[: listed.footer_offset], content[listed.footer_offset : -TAIL_LAYOUT.size]
