"""Both sides of each limit that is cheap to reach, when writing and when reading."""

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from forged_segments import refooted
from golden_files import read_golden
from segment_bytes import FILE_ID, build_segment, open_segment, read_everything

from projseg.errors import InvalidInputError, LimitExceededError
from projseg.segment_format import column_writer, format_limits
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.vectors import Ids, Numbers, Opaque


def encoder():
    return SegmentEncoder(lambda content: None, file_id=FILE_ID, schema=pa.schema([]))


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "a b", "日本", "ﬀ", "-"])
def test_names_up_to_the_limit_are_kept(name):
    content = build_segment({name: Numbers(np.array([1]), pa.int64())})
    assert open_segment(content).schema.names == [name]


@pytest.mark.parametrize(
    "name", ["", "x" * 256, "é" * 128, "a\0", "a\nb", "e\u0301", "\x7f", "\ud800"]
)
def test_names_beyond_are_refused(name):
    with pytest.raises(InvalidInputError):
        encoder().begin_table("__base", 0) or encoder().add_dictionary(
            name, Dictionary(pa.array(["a"]))
        )


def test_rows_of_a_table():
    encoder().begin_table("__base", format_limits.SEGMENT_ROWS_MAX)
    with pytest.raises(LimitExceededError):
        encoder().begin_table("__base", format_limits.SEGMENT_ROWS_MAX + 1)


def test_projections_of_a_segment():
    column = {("state", "n"): Numbers(np.array([1]), pa.int64())}
    base = {"n": Numbers(np.array([1]), pa.int64())}
    most = {f"p{i}": column for i in range(format_limits.PROJECTIONS_MAX)}
    content = build_segment(base, projections=most)
    assert len(open_segment(content).tables) == format_limits.PROJECTIONS_MAX + 1
    with pytest.raises(LimitExceededError):
        build_segment(base, projections=most | {"one more": column})
    table = open_segment(content).tables[1]

    def one_more(footer):
        extra = msgspec.structs.replace(table, name="one more")
        return msgspec.structs.replace(footer, tables=(*footer.tables, extra))

    with pytest.raises(LimitExceededError):
        open_segment(refooted(content, one_more))


def test_columns_of_a_table():
    one = Numbers(np.array([1]), pa.int64())
    most = {f"c{i}": one for i in range(format_limits.COLUMNS_MAX)}
    content = build_segment(most)
    assert len(open_segment(content).schema) == format_limits.COLUMNS_MAX
    with pytest.raises(LimitExceededError):
        build_segment(most | {"one more": one})


def test_a_value_of_the_largest_size():
    largest = b"\xff" * format_limits.VALUE_BYTES_MAX
    content = build_segment({"x": Opaque(pa.array([largest, b"", largest]))})
    assert read_everything(content)["__base", "base", "x"].to_pylist() == [largest, b"", largest]
    assert len(open_segment(content).directory("__base", "base", "x")) == 3
    with pytest.raises(LimitExceededError):
        build_segment({"x": Opaque(pa.array([largest + b"!"]))})


def nested_type(depth):
    arrow_type = pa.int32()
    for _ in range(depth):
        arrow_type = pa.list_(arrow_type)
    return arrow_type


def test_levels_of_a_nested_type():
    deepest = pa.array([None, []], nested_type(format_limits.NESTING_DEPTH_MAX))
    content = build_segment({"x": Opaque(deepest)})
    assert read_everything(content)["__base", "base", "x"].equals(deepest)
    with pytest.raises(InvalidInputError):
        build_segment({"x": Opaque(pa.nulls(2, nested_type(format_limits.NESTING_DEPTH_MAX + 1)))})


def test_a_struct_may_have_many_nested_fields():
    fields = [(f"f {i}`<", pa.list_(pa.int32())) for i in range(100)]
    wide = pa.array([{"f 7`<": [1, None]}, None, {}], pa.struct(fields))
    found = read_everything(build_segment({"x": Opaque(wide)}))["__base", "base", "x"]
    assert found.type == wide.type
    assert found.equals(wide)


def test_items_of_a_list():
    most = pa.array([False] * format_limits.LIST_ITEMS_MAX)
    content = build_segment({"x": Opaque(list_of(most))})
    assert len(content) < 10_000, "items may cost no bytes: a limit on bytes would not hold them"
    assert read_everything(content)["__base", "base", "x"].equals(list_of(most))
    one_more = pa.concat_arrays([most, pa.array([True])])
    with pytest.raises(LimitExceededError):
        build_segment({"x": Opaque(list_of(one_more))})


def list_of(items):
    return pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)


def test_many_items_that_cost_no_bytes_are_cut_into_pages():
    lists = pa.array([[None] * 100] * 60_000, pa.list_(pa.null()))
    content = build_segment({"x": Opaque(lists)})
    assert len(open_segment(content).directory("__base", "base", "x")) == 8
    assert read_everything(content)["__base", "base", "x"].equals(lists)


def test_an_integer_of_the_widest_type():
    edge = 10**38 - 1
    content = build_segment({"x": Numbers(np.array([edge, -edge], object), pa.decimal128(38, 0))})
    found = read_everything(content)["__base", "base", "x"]
    assert [int(value) for value in found.to_pylist()] == [edge, -edge]
    with pytest.raises(InvalidInputError):
        build_segment({"x": Numbers(np.array([edge + 1], object), pa.decimal128(38, 0))})


def test_values_their_type_does_not_hold_are_not_written():
    for value, arrow_type in [(128, pa.int8()), (2, pa.bool_()), (2**31, pa.date32())]:
        with pytest.raises(InvalidInputError):
            build_segment({"x": Numbers(np.array([value]), arrow_type)})
        content = build_segment({"x": Numbers(np.array([value - 1]), arrow_type)})
        assert verify_segment(open_segment(content))


def test_the_size_of_a_file():
    with pytest.raises(LimitExceededError):
        SegmentFile.open(
            lambda offset, size: b"", format_limits.SEGMENT_BYTES_MAX + 1, path="big.pseg"
        )


def test_the_size_of_a_file_while_writing(monkeypatch):
    monkeypatch.setattr(column_writer, "SEGMENT_BYTES_MAX", 10_000)
    build_segment({"x": Numbers(np.arange(2_000) ** 3, pa.int64())})
    with pytest.raises(LimitExceededError):
        build_segment({"x": Numbers(np.arange(20_000) ** 4, pa.int64())})


def test_the_number_of_parts_while_writing(monkeypatch):
    monkeypatch.setattr(column_writer, "PARTS_MAX", 2)
    build_segment({"x": Numbers(np.arange(131_072), pa.int64())})
    with pytest.raises(LimitExceededError):
        build_segment({"x": Numbers(np.arange(131_073), pa.int64())})


def test_the_values_of_a_dictionary():
    dictionary = read_golden("projections")

    def too_many(footer):
        entry = msgspec.structs.replace(
            footer.dictionaries[0], cardinality=format_limits.DICTIONARY_VALUES_MAX + 1
        )
        return msgspec.structs.replace(footer, dictionaries=(entry, *footer.dictionaries[1:]))

    with pytest.raises(LimitExceededError):
        open_segment(refooted(dictionary, too_many))


def test_an_encoder_refuses_calls_out_of_order():
    column = Numbers(np.array([1]), pa.int64())
    words = Dictionary(pa.array(["a", "b"]))
    with pytest.raises(InvalidInputError, match="before end_table"):
        encoder().finish()
    with pytest.raises(InvalidInputError, match="out of its place"):
        encoder().begin_table("projection", 1)
    open_table = encoder()
    open_table.begin_table("__base", 1)
    for call in (
        lambda: open_table.begin_table("p", 1),
        lambda: open_table.add_dictionary("d", words),
        lambda: open_table.add_column("n", column.slice(0, 0), role="base"),
        lambda: open_table.add_column("n", column, role="base", dictionary="d"),
        lambda: open_table.add_column("i", Ids(np.array([0], np.uint8), words), role="base"),
        open_table.finish,
    ):
        with pytest.raises(InvalidInputError):
            call()
    open_table.add_column("n", column, role="base")
    with pytest.raises(InvalidInputError, match="already"):
        open_table.add_column("n", column, role="base")
    open_table.end_table()
    with pytest.raises(InvalidInputError, match="schema"):
        open_table.finish()


@pytest.mark.parametrize("values", [["b", "a"], ["a", "a"], ["a", None], [None, None]])
def test_an_encoder_refuses_what_is_no_dictionary(values):
    with pytest.raises(InvalidInputError):
        encoder().add_dictionary("d", Dictionary(pa.array(values, pa.string())))


def test_an_encoder_refuses_ids_without_a_value():
    words = Dictionary(pa.array(["a", "b"]))
    with pytest.raises(InvalidInputError, match="no value"):
        build_segment({"x": Ids(np.array([0, 2], np.uint8), words)})


def test_a_projection_that_passes_a_limit_is_given_up_and_the_rest_kept():
    written = []
    schema = pa.schema([("n", pa.int64())])
    encoder = SegmentEncoder(written.append, file_id=FILE_ID, schema=schema)
    count = Numbers(np.array([1, 2]), pa.int64())
    too_large = Opaque(pa.array([b"x" * (format_limits.VALUE_BYTES_MAX + 1), b""]))
    with pytest.raises(InvalidInputError):
        encoder.abandon_table()
    for name in ("__base", "given up", "kept"):
        encoder.begin_table(name, 2)
        encoder.add_column("n", count, role="base" if name == "__base" else "state")
        if name == "given up":
            with pytest.raises(LimitExceededError):
                encoder.add_column("sketch", too_large, role="state")
            encoder.abandon_table()
            encoder.add_not_built(name, "hash", "a value is too large")
        else:
            encoder.end_table()
    encoder.finish()
    segment = open_segment(b"".join(written))
    verify_segment(segment)
    assert [table.name for table in segment.tables] == ["__base", "kept"]
    assert [entry.name for entry in segment.footer.not_built] == ["given up"]
    assert [extra.kind for extra in segment.footer.extra_sections] == ["abandoned"]
