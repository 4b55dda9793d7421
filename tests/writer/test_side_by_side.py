"""Columns encoded by several threads make the file that one thread makes."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pyarrow as pa
import pytest
from segment_bytes import FILE_ID, open_segment

from projseg.evaluation.rows import MemorySource
from projseg.segment_format import format_limits
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.vectors import Opaque
from projseg.writer import segment_contents
from projseg.writer.column_vectors import column_vector
from projseg.writer.segment_contents import BuiltProjection, NotBuilt, SegmentContents

ROWS = pa.table(
    {
        "number": pa.array(range(70_000)),
        "word": pa.array(["one", "two", None, "two"] * 17_500),
        "text": pa.array([f"text {number * number}" for number in range(70_000)]),
        "list": pa.array([[1], [], None, [2, 3]] * 17_500),
    }
)
SPEC = SimpleNamespace(name="p", definition="{}", definition_hash="hash", stored_order=())


@pytest.fixture(autouse=True)
def few_rows_are_worth_threads(monkeypatch):
    monkeypatch.setattr(segment_contents, "_ROWS_MIN", 0)


def written(pool, projections=()):
    """The bytes of a file, and what became of each projection."""
    parts = []
    encoder = SegmentEncoder(parts.append, file_id=FILE_ID, schema=ROWS.schema)
    contents = SegmentContents(encoder, pool)
    vectors = {n: column_vector(ROWS[n], wants_dictionary=False) for n in ROWS.column_names}
    contents.add_base(MemorySource(len(ROWS), vectors), ())
    found = [contents.add_projection(projection) for projection in projections]
    for result in found:
        if isinstance(result, NotBuilt):
            contents.add_not_built(result)
    encoder.finish()
    return b"".join(parts), found


def projection(state):
    states = {"a": column_vector(pa.chunked_array([[1, 2]]), wants_dictionary=False), "s": state}
    return BuiltProjection(SPEC, 2, {}, states)


def test_the_file_is_the_same_with_and_without_a_pool():
    with ThreadPoolExecutor(3) as pool:
        assert written(pool) == written(None)


def test_a_projection_that_passes_a_limit_in_a_thread_is_given_up_and_the_rest_kept():
    too_large = Opaque(pa.array([b"x" * (format_limits.VALUE_BYTES_MAX + 1), b""]))
    both = [projection(too_large), projection(Opaque(pa.array([b"x", b""])))]
    with ThreadPoolExecutor(3) as pool:
        content, (given_up, kept) = written(pool, both)
    assert isinstance(given_up, NotBuilt)
    assert kept is both[1]
    segment = open_segment(content)
    verify_segment(segment)
    assert [table.name for table in segment.tables] == ["__base", "p"]
