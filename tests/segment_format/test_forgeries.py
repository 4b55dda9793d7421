"""Files whose checksums are right and whose claims are not: refused, by one of three errors.

Nothing else may come of them: no other exception, no value outside its type, no memory beyond what
the limits allow.
"""

import contextlib
import struct

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from encoding_pages import COLUMNS, ROWS, forged, page_of, text_page
from forged_segments import Forgery, bounded, forge, refooted, with_record
from golden_files import read_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries
from segment_bytes import (
    assert_read_alike,
    batch_of,
    build_segment,
    open_segment,
    read_everything,
    same_bits,
)

from projseg.errors import CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.encodings.encoding_table import ENCODINGS, INTEGER_ENCODINGS, NESTED
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.footer import PartEntry, Tail, pack_head
from projseg.segment_format.page_directory import PAGE_DTYPE, PageDirectory
from projseg.segment_format.vectors import Ids, Numbers

REFUSED = (CorruptSegmentError, LimitExceededError, UnsupportedFeatureError)
BYTES, BITS, SCALED = ((number, "integers") for number in (2, 3, 6))


def read_or_refuse(content):
    """Read and verify a file that may be refused; any other error goes on."""
    with contextlib.suppress(*REFUSED):
        read_and_verify(content)


def read_and_verify(content):
    read_everything(content)
    verify_segment(open_segment(content))


@pytest.mark.parametrize("key", COLUMNS, ids=str)
def test_forging_itself_is_sound(key):
    content = forged(page_of(key), key)
    verify_segment(open_segment(content))
    assert same_bits(read_everything(content)["__base", "base", "x"], COLUMNS[key].to_arrow())


@pytest.mark.parametrize("key", COLUMNS, ids=str)
def test_cut_and_lengthened_pages_are_refused(key):
    part, claims = page_of(key)
    for size in [*range(min(len(part), 200)), len(part) - 8, len(part) - 1]:
        with pytest.raises(CorruptSegmentError):
            read_everything(forged((part[:size], claims), key))
    with pytest.raises(CorruptSegmentError, match="left over"):
        read_everything(forged((part + bytes(8), claims), key))


@pytest.mark.parametrize("key", COLUMNS, ids=str)
@pytest.mark.parametrize("number", [0, *sorted({record.number for record in ENCODINGS} | {255})])
def test_pages_of_another_encoding_do_nothing_worse_than_being_refused(key, number):
    part, claims = page_of(key)
    read_or_refuse(forged((part, claims | {"encoding": number}), key))


def test_pages_follow_each_other():
    part = struct.pack("<qII", 0, 1, 0) + bytes(range(256)) * 256
    facts = bounded(0, 255, 65_536, 2)
    near = Forgery()
    pages = [(part, facts), (part[:24], bounded(0, 7, 8, 2))]
    assert near.directory(pages)
    far = Forgery()
    records = np.frombuffer(far.directory(pages), PAGE_DTYPE).copy()
    far.part(bytes(8))
    moved = np.frombuffer(far.directory(pages[1:]), PAGE_DTYPE)
    records[1] = moved[0]
    with pytest.raises(CorruptSegmentError, match="where the one before"):
        PageDirectory.parse(
            records.tobytes(),
            row_count=65_544,
            is_uniform=True,
            pages_end=len(far.content),
            where="test.pseg",
        )


def test_bits_of_validity_beyond_the_last_row_are_zero():
    part = struct.pack("<q", 9)
    claims = bounded(9, 9, 12, 1) | {"validity": 2, "null_count": 1}
    for bits, is_read in ((0xFFE, True), (0x1FFE, False), (0x8FFE, False)):
        content = forge([(struct.pack("<Q", bits) + part, claims)], 12)
        with contextlib.nullcontext() if is_read else pytest.raises(REFUSED):
            read_and_verify(content)


def test_padding_inside_a_page_is_zero():
    part, facts = page_of(BYTES)
    assert len(part) == 16 + ROWS + 4
    for at in range(len(part) - 4, len(part)):
        damaged = bytearray(part)
        damaged[at] = 1
        with pytest.raises(CorruptSegmentError, match="padding"):
            read_everything(forge([(bytes(damaged), facts)], ROWS))


TYPES = ["bigint", "tinyint", "date", "decimal(38,0)", "double", "float"]
PAGE_TYPES = [
    (key, column_type)
    for key in COLUMNS
    for column_type in (
        TYPES if key[1] == "integers" else [None, *TYPES[-1:] * (key[1] == "floats")]
    )
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("key", "column_type"), PAGE_TYPES, ids=str)
@settings(max_examples=tries(2_000, 30))
@given(data=st.data())
def test_changed_pages_do_nothing_worse_than_being_refused(key, column_type, data):
    part, claims = page_of(key)
    damaged = bytearray(part)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(part) - 1, 40)) | st.integers(0, len(part) - 1))
        damaged[at] = data.draw(st.sampled_from([0, 1, 7, 32, 64, 65, 127, 128, 255]))
    read_or_refuse(forged((bytes(damaged), claims), key, column_type))


@settings(max_examples=tries(20_000, 150))
@given(
    body=st.binary(max_size=120),
    encoding=st.integers(0, 2 + max(record.number for record in ENCODINGS)),
    rows=st.sampled_from([1, 5, 64, 65_536]),
    validity=st.integers(0, 4),
    null_count=st.sampled_from([0, 1, 5]),
    flags=st.sampled_from([0, 1, 2, 3]),
    column=st.sampled_from(
        [
            ("bigint", "numbers"),
            ("double", "numbers"),
            ("float", "numbers"),
            ("boolean", "numbers"),
            ("decimal(10,2)", "numbers"),
            ("string", "opaque"),
            ("binary", "opaque"),
            ("array<array<int>>", "opaque"),
            ("map<string,double>", "opaque"),
            ("struct<a:int,b:string>", "opaque"),
        ]
    ),
)
def test_garbage_pages_do_nothing_worse_than_being_refused(
    body, encoding, rows, validity, null_count, flags, column
):
    claims = {
        "row_count": rows,
        "encoding": encoding,
        "validity": validity,
        "null_count": null_count,
        "flags": flags,
    }
    read_or_refuse(forge([(body, claims)], rows, column_type=column[0], kind=column[1]))


def test_a_chain_of_equal_texts_is_refused_before_it_grows():
    long_text = pa.array(["x" * 255, *("x" * 255 + f"{i:05d}" for i in range(9))])
    honest = text_page(long_text, is_sorted=True)
    read_and_verify(forge([honest], 10, column_type="string", kind="opaque"))
    equal = text_page(pa.array(["x" * 255] * 10), is_sorted=True)
    assert {claims["encoding"] for _, claims in (honest, equal)} == {11}
    with pytest.raises(REFUSED):
        read_and_verify(forge([equal], 10, column_type="string", kind="opaque"))


@pytest.mark.parametrize("item_count", [2**22 + 1, 2**31, 2**32 - 1])
def test_lists_of_too_many_items_are_refused(item_count):
    level = struct.pack("<BBHI", 12, 0, 0, 0) + struct.pack("<II", 1, item_count)
    part = struct.pack("<II", 1, 1) + struct.pack("<q", 1) + level + struct.pack("<q", item_count)
    claims = {"row_count": 1, "encoding": 12}
    with pytest.raises(LimitExceededError):
        read_everything(forge([(part, claims)], 1, column_type="array<array<int>>", kind="opaque"))


def ids_file(ids, cardinality=3, texts=("a", "b", "c"), **claims):
    values = text_page(pa.array(texts))
    found, part = INTEGER_ENCODINGS.choose(np.array(ids, np.int64)).encode()
    facts = bounded(min(ids), max(ids), len(ids), found) | claims
    return forge(
        [(part, facts)],
        len(ids),
        column_type="string",
        kind="ids",
        dictionary=("string", cardinality, [values]),
    )


@pytest.mark.parametrize("ids", [[0, 1, 3], [0, 1, 2**31], [-1, 0, 1], [0, 2**40, 1]])
@pytest.mark.parametrize("claimed", [None, 2])
def test_ids_outside_the_dictionary_are_refused(ids, claimed):
    claims = {} if claimed is None else {"minimum": 0, "maximum": claimed}
    content = ids_file(ids, **claims)
    with pytest.raises(CorruptSegmentError):
        read_and_verify(content)


def test_an_id_that_wraps_is_found_before_it_is_used():
    content = ids_file([0, 1, 255], minimum=0, maximum=2)
    with pytest.raises(CorruptSegmentError, match="dictionary of 3"):
        read_everything(content)


@pytest.mark.parametrize(
    "texts", [("b", "a", "c"), ("a", "a", "b"), ("a", "ab", "aa"), ("", "", "x"), ("é", "e", "f")]
)
def test_dictionaries_out_of_order_are_refused(texts):
    with pytest.raises(CorruptSegmentError, match="ascending"):
        read_everything(ids_file([0, 1, 2], texts=texts))


def test_text_that_is_not_utf8_is_refused():
    page = text_page(pa.array([b"\xff\xfe", b"\xc3"], pa.binary()))
    with pytest.raises(CorruptSegmentError, match="not string"):
        read_everything(forge([page], 2, column_type="string", kind="opaque"))
    read_and_verify(forge([page], 2, column_type="binary", kind="opaque"))


def test_a_null_list_holds_no_items():
    lists = pa.array([[1], [2], [3]], pa.list_(pa.int32()))
    validity = struct.pack("<Q", 0b101)
    claims = {"row_count": 3, "encoding": 12, "validity": 2, "null_count": 1}
    page = (validity + NESTED.codec.offer(lists).make(), claims)
    with pytest.raises(CorruptSegmentError, match="null list"):
        read_everything(forge([page], 3, column_type="array<int>", kind="opaque"))


@pytest.mark.parametrize(
    "path", [("dictionaries", 1), ("tables", 2), ("fields", 1), ("tables", 0, "columns", 1)]
)
def test_names_are_unique(path):
    footer = open_segment(read_golden("projections")).footer
    first = {
        "dictionaries": footer.dictionaries[0],
        "tables": footer.tables[1],
        "fields": footer.fields[0],
    }[path[0]]
    name = footer.tables[0].columns[0].name if len(path) > 2 else first.name
    with pytest.raises(CorruptSegmentError, match="two of a"):
        open_segment(refooted(read_golden("projections"), changed("name", name, *path)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("file_offset", 0),
        ("file_offset", 33),
        ("file_offset", 2**64 - 8),
        ("file_offset", 2**63),
        ("stored_bytes", 2**32 - 1),
        ("stored_bytes", 0),
        ("raw_bytes", 2**32 - 1),
        ("raw_bytes", 0),
        ("row_count", 0),
        ("row_count", 65_537),
        ("row_count", 299),
        ("null_count", 301),
        ("null_count", 1),
        ("encoding", 0),
        ("encoding", 255),
        ("compression", 1),
        ("compression", 9),
        ("validity", 4),
        ("flags", 4),
        ("flags", 0),
        ("reserved", 1),
        ("minimum", -(2**63)),
        ("maximum", 2**63 - 1),
        ("checksum", 0),
    ],
)
def test_each_lie_of_a_page_record_is_refused(field, value):
    honest = forge([page_of(BITS)], ROWS)
    content = with_record(honest, **{field: value})
    with pytest.raises(REFUSED):
        read_and_verify(content)


def changed(name, value, *path):
    """A change of a footer: the field `name` of the struct at `path` becomes `value`."""

    def apply(structure, steps):
        if not steps:
            return msgspec.structs.replace(structure, **{name: value})
        field, *rest = steps
        if isinstance(field, int):
            items = list(structure)
            items[field] = apply(items[field], rest)
            return tuple(items)
        return msgspec.structs.replace(structure, **{field: apply(getattr(structure, field), rest)})

    return lambda footer: apply(footer, list(path))


FOOTER_LIES = [
    changed("file_id", b"short"),
    changed("file_id", b"another file id."),
    changed("tables", ()),
    changed("fields", ()),
    changed("name", "elsewhere", "tables", 0),
    changed("name", "__base", "tables", 1),
    changed("name", "a\0b", "tables", 1),
    changed("name", "e\u0301", "tables", 1),
    changed("name", "x" * 256, "tables", 1),
    changed("name", "", "fields", 0),
    changed("row_count", 2**32, "tables", 0),
    changed("row_count", -1, "tables", 0),
    changed("row_count", 9_999, "tables", 0),
    changed("type", "integer", "fields", 0),
    changed("type", "array<" * 40 + "int" + ">" * 40, "tables", 0, "columns", 0),
    changed("type", "bigint", "tables", 0, "columns", 0),
    changed("kind", "numbers", "tables", 0, "columns", 0),
    changed("kind", "opaque", "tables", 0, "columns", 2),
    changed("dictionary", 7, "tables", 0, "columns", 0),
    changed("dictionary", -1, "tables", 0, "columns", 0),
    changed("dictionary", None, "tables", 0, "columns", 0),
    changed("dictionary", 1, "tables", 0, "columns", 0),
    changed("name", "day", "tables", 0, "columns", 0),
    changed("columns", (), "tables", 1),
    changed("role", "grouping", "tables", 0, "columns", 0),
    changed("role", "base", "tables", 1, "columns", 0),
    changed("sort_order", ("nothing",), "tables", 0),
    changed("pages", b"", "tables", 0, "columns", 0),
    changed("pages", bytes(55), "tables", 0, "columns", 0),
    changed("index_blocks", bytes(31), "tables", 0, "columns", 0),
    changed("index_blocks", bytes(32), "tables", 0, "columns", 0),
    changed("cardinality", 2**24 + 1, "dictionaries", 0),
    changed("cardinality", -1, "dictionaries", 0),
    changed("cardinality", 30, "dictionaries", 0),
    changed("type", "array<int>", "dictionaries", 0),
    changed("hashes", PartEntry(0, 8, 0), "dictionaries", 0),
    changed("hashes", PartEntry(32, 2**62, 0), "dictionaries", 0),
    changed("hashes", PartEntry(2**63, 31 * 8, 0), "dictionaries", 0),
    changed("hashes", PartEntry(32, 31 * 8, 0), "dictionaries", 0),
    changed("hashes", None, "dictionaries", 0),
]


@pytest.mark.parametrize("lie", FOOTER_LIES, ids=range(len(FOOTER_LIES)))
def test_each_lie_of_a_footer_is_refused(lie):
    content = refooted(read_golden("projections"), lie)
    with pytest.raises(REFUSED):
        read_and_verify(content)


@pytest.mark.parametrize("lie", FOOTER_LIES, ids=range(len(FOOTER_LIES)))
def test_a_lie_beside_honest_footers_of_its_shape_is_not_read(lie):
    honest = read_golden("projections")
    assert assert_read_alike([honest, honest]) > 10
    with contextlib.suppress(*REFUSED):
        assert_read_alike([honest, refooted(honest, lie), honest])


def test_a_table_of_rows_without_columns_is_refused():
    """Nothing would bound how many rows it claims: columns added later read as null in all."""

    def change(footer):
        table = msgspec.structs.replace(footer.tables[0], columns=(), row_count=4 * 10**9)
        return msgspec.structs.replace(footer, fields=(), tables=(table,))

    with pytest.raises(CorruptSegmentError, match="4000000000 rows and no column"):
        open_segment(refooted(read_golden("smallest"), change))


def test_an_honest_footer_survives_the_test_of_lies():
    assert refooted(read_golden("projections"), lambda footer: footer) == read_golden("projections")


@pytest.mark.parametrize(
    "encoded", [b"", b"\x80", b"\xc0", b"\x93\x01\x02\x03", b"\x81\xa4" * 50_000, b"\x91" * 100_000]
)
def test_footers_that_are_no_directory_are_refused(encoded):
    head = pack_head(bytes(16))
    with pytest.raises(CorruptSegmentError):
        open_segment(head + encoded + Tail(len(head), len(encoded)).pack(encoded))


def zstd_frame(raw, **options):
    return zstandard.ZstdCompressor(**options).compress(raw)


def bomb_files():
    """Frames that hold more, less or other than the directory says."""
    part, facts = page_of(BITS)
    honest = facts | {"compression": 1, "raw_bytes": len(part)}
    zeros = zstd_frame(bytes(2**26))
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(part)
    yield zeros, honest
    yield zeros, honest | {"raw_bytes": 2**26}
    yield zeros, honest | {"raw_bytes": 2**32 - 1}
    yield zstd_frame(part), honest | {"raw_bytes": len(part) + 8}
    yield zstd_frame(part), honest | {"raw_bytes": len(part) - 8}
    yield zstd_frame(part), honest | {"raw_bytes": 0}
    yield zstd_frame(part) + zstd_frame(part), honest
    yield zstd_frame(part)[:-1], honest
    yield zstd_frame(part) + b"\0", honest
    yield streamed, honest
    yield b"", honest
    yield b"\x28\xb5\x2f\xfd", honest
    yield part, honest
    yield zstd_frame(part), honest | {"compression": 0}


@pytest.mark.parametrize("case", list(bomb_files()), ids=range(14))
def test_frames_that_lie_about_their_size_are_refused(case):
    with pytest.raises(REFUSED):
        read_everything(forge([case], ROWS))


@pytest.mark.parametrize("column_type", ["string", "bigint"])
def test_files_that_hold_little_and_claim_much_are_not_decoded_together(column_type):
    if column_type == "string":
        page = text_page(pa.array(["a" * 2**21]))
        page = (zstd_frame(page[0]), page[1] | {"compression": 1, "raw_bytes": len(page[0])})
        values, ids = ("string", 1, [page]), (struct.pack("<q", 0), bounded(0, 0, 1, 1))
    else:
        page = (struct.pack("<qqII", 0, 1, 0, 0), bounded(0, 65_535, 65_536, 5))
        values, ids = ("bigint", 65_536, [page]), (struct.pack("<q", 0), bounded(0, 0, 1, 1))
    content = forge([ids], 1, column_type=column_type, kind="ids", dictionary=values)
    assert len(content) < 2000
    assert assert_read_alike([content]) == 1
    batch = batch_of([content] * 40)
    assert batch.column(batch.files[:20], "__base", "base", "x") is not None
    assert batch.column(batch.files, "__base", "base", "x") is None


def test_an_honest_frame_is_read():
    part, facts = page_of(BITS)
    claims = facts | {"compression": 1, "raw_bytes": len(part)}
    found = read_everything(forge([(zstd_frame(part), claims)], ROWS))
    assert found["__base", "base", "x"].equals(COLUMNS[BITS].to_arrow())


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (struct.pack("<qII", 0, 0, 0), 3),
        (struct.pack("<qII", 0, 65, 0), 3),
        (struct.pack("<qII", 0, 3, 0), 2),
        (struct.pack("<IHH", 2**31, 2, 2), 7),
        (struct.pack("<IHH", 0, 2, 2), 7),
        (struct.pack("<IHH", 1, 7, 2), 7),
        (struct.pack("<qQII", 0, 5, 6, 0), 6),
        (struct.pack("<qIHBB", 0, 2**32 - 1, 4, 8, 0), 4),
        (struct.pack("<qqII", 0, 0, 65, 0), 5),
    ],
)
def test_headers_out_of_range_are_refused_before_anything_is_allocated(header, encoding):
    claims = bounded(0, 100, ROWS, encoding)
    with pytest.raises(CorruptSegmentError):
        read_everything(forge([(header + bytes(64), claims)], ROWS))


def test_an_index_of_other_rows_is_found_by_verify():
    words = Dictionary(pa.array(["a", "b"]))
    halves = [np.repeat([0, 1], 40_000), np.repeat([1, 0], 40_000)]
    one, other = (build_segment({"x": Ids(ids.astype(np.uint8), words)}) for ids in halves)
    blocks = [open_segment(c).footer.tables[0].columns[0].index_blocks for c in (one, other)]
    assert all(blocks)
    swapped = refooted(one, changed("index_blocks", blocks[1], "tables", 0, "columns", 0))
    with pytest.raises(CorruptSegmentError):
        verify_segment(open_segment(swapped))


def test_a_value_beyond_its_type_is_found_by_verify():
    content = forge([page_of(BITS)], ROWS, column_type="tinyint")
    with pytest.raises(CorruptSegmentError, match="tinyint"):
        verify_segment(open_segment(content))


def test_values_are_numbers_of_their_page():
    vector = open_segment(forge([page_of(SCALED)], ROWS)).column("__base", "base", "x")
    assert isinstance(vector, Numbers)
    np.testing.assert_array_equal(vector.wide(), COLUMNS[SCALED].values)


def change_of_sorted_rows(**claims):
    """Return the golden file of sorted rows with the fields of its projection changed."""

    def change(footer):
        table = msgspec.structs.replace(footer.tables[1], **claims)
        return msgspec.structs.replace(footer, tables=(footer.tables[0], table))

    return change


def forged_rows(change, features=1):
    """Return the golden file of sorted rows with another footer."""
    content = read_golden("sorted_rows")
    return refooted(content, change, required_features=features)


def test_projections_of_rows_are_announced_and_know_their_base_rows():
    verify_segment(open_segment(forged_rows(lambda footer: footer)))
    table = open_segment(read_golden("sorted_rows")).tables[1]
    word, n, numbers = table.columns
    other_type = msgspec.structs.replace(numbers, type="int")
    other_name = msgspec.structs.replace(numbers, name="row")
    forgeries = [
        (forged_rows(lambda footer: footer, 0), "features"),
        (forged_rows(lambda footer: footer, 3), "features"),
        (forged_rows(lambda footer: footer, 9), "columns, and rows in another file"),
        (forged_rows(change_of_sorted_rows(definition="")), "features"),
        (forged_rows(change_of_sorted_rows(columns=(word, n))), "no row numbers"),
        (forged_rows(change_of_sorted_rows(columns=(word, n, other_type))), "no row numbers"),
        (forged_rows(change_of_sorted_rows(columns=(word, n, other_name))), "no row numbers"),
        (forged_rows(change_of_sorted_rows(columns=(word, n, numbers, other_name))), "or states"),
        (forged_rows(change_of_sorted_rows(sort_order=())), "no order"),
        (forged_rows(change_of_sorted_rows(row_count=1_001)), "1001 of 1000 rows"),
    ]
    for content, problem in forgeries:
        with pytest.raises(CorruptSegmentError, match=problem):
            open_segment(content)
    with pytest.raises(UnsupportedFeatureError):
        open_segment(forged_rows(lambda footer: footer, 17))
