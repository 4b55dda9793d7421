"""How a segment is read: few range reads, from many threads, and zone maps that tell the truth."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from segment_bytes import build_segment, open_segment, same_bits

from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.vectors import Ids, Numbers, Opaque

ROWS = 200_000


@pytest.fixture(scope="module")
def content():
    rng = np.random.default_rng(5)
    words = Dictionary(pa.array([None, *(f"w{i:04d}" for i in range(999))]))
    valid = rng.random(ROWS) < 0.5
    measures = np.where(rng.random(ROWS) < 0.01, np.nan, rng.normal(size=ROWS))
    measures[:70_000] = np.nan
    return build_segment(
        {
            "sorted": Ids(np.sort(rng.integers(0, 1000, ROWS)).astype(np.uint16), words),
            "mixed": Ids(rng.integers(0, 1000, ROWS).astype(np.uint16), words),
            "n": Numbers(np.where(valid, rng.integers(-9, 9, ROWS), 0), pa.int64(), 0, valid),
            "x": Numbers(measures, pa.float64()),
            "text": Opaque(pa.array([f"{i}" for i in range(ROWS)])),
        }
    )


class CountedReads:
    """Range reads over bytes, each written down."""

    def __init__(self, content):
        self.content, self.reads = content, []

    def __call__(self, offset, size):
        self.reads.append((offset, size))
        return self.content[offset : offset + size]


def test_opening_takes_one_read_and_a_column_one_more(content):
    reads = CountedReads(content)
    segment = SegmentFile.open(reads, len(content), path="test.pseg")
    assert len(reads.reads) == 1
    segment.page_zones("__base", "base", "n")
    assert len(reads.reads) == 1, "zone maps are part of the footer"
    segment.column("__base", "base", "n")
    assert len(reads.reads) == 2
    segment.column("__base", "base", "n", 2, 3)
    page = segment.directory("__base", "base", "n").records[2]
    assert reads.reads[-1] == (int(page["file_offset"]), int(page["stored_bytes"]))


def test_a_large_footer_takes_a_second_read():
    columns = {f"column {i:04d}": Numbers(np.arange(3), pa.int64()) for i in range(1_000)}
    content = build_segment(columns)
    reads = CountedReads(content)
    segment = SegmentFile.open(reads, len(content), path="test.pseg")
    assert segment.tail.footer_bytes > 64 * 1024
    assert len(reads.reads) == 2
    assert len(segment.schema) == 1_000


def test_a_dictionary_is_loaded_once(content):
    reads = CountedReads(content)
    segment = SegmentFile.open(reads, len(content), path="test.pseg")
    first = segment.column("__base", "base", "sorted", 0, 1).dictionary
    before = len(reads.reads)
    assert segment.column("__base", "base", "mixed", 0, 1).dictionary is first
    assert len(reads.reads) == before + 1


def test_any_number_of_threads_may_read(content):
    segment = open_segment(content)
    names = [field.name for field in segment.schema] * 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: segment.column("__base", "base", name), names))
    for name, vector in zip(names, found, strict=True):
        assert same_bits(vector.to_arrow(), found[names.index(name)].to_arrow()), name
    assert len({id(v.dictionary) for v in found if isinstance(v, Ids)}) == 1


def test_zone_maps_bound_what_pages_hold(content):
    segment = open_segment(content)
    for name in ("sorted", "mixed", "n", "x"):
        zones = segment.page_zones("__base", "base", name)
        for page in range(len(zones)):
            vector = segment.column("__base", "base", name, page, page + 1)
            if isinstance(vector, Ids):
                known, nulls = vector.ids, int((vector.ids == 0).sum())
            else:
                known = vector.wide() if vector.validity is None else vector.wide()[vector.validity]
                nulls = len(vector) - len(known)
            assert zones.null_count[page] == nulls
            assert zones.has_nan[page] == bool(np.isnan(known).any())
            known = known[~np.isnan(known)]
            assert zones.has_bounds[page] == (len(known) > 0)
            if len(known):
                assert (zones.minimum[page], zones.maximum[page]) == (known.min(), known.max())
        assert zones.row_starts[-1] == ROWS


def test_a_page_of_nan_has_no_bounds(content):
    zones = open_segment(content).page_zones("__base", "base", "x")
    assert zones.has_nan[0]
    assert not zones.has_bounds[0]


def test_a_bitmap_index_gives_the_rows_of_ids(content):
    segment = open_segment(content)
    assert segment.bitmap_index("__base", "base", "mixed") is None, "it would not pay"
    index = segment.bitmap_index("__base", "base", "sorted")
    ids = segment.column("__base", "base", "sorted").ids
    for wanted in ([0], [999], [5, 6, 7, 500], list(range(0, 1000, 2)), []):
        expected = np.flatnonzero(np.isin(ids, wanted))
        found = index.row_ids(np.array(wanted, np.int64))
        assert found.dtype == np.uint32
        np.testing.assert_array_equal(found, expected)
        assert index.count(np.array(wanted, np.int64)) == len(expected)


def test_a_few_ids_read_a_few_blocks():
    words = Dictionary(pa.array([f"w{i:06d}" for i in range(40_000)]))
    ids = np.sort(np.random.default_rng(2).integers(0, 40_000, 8_000_000)).astype(np.uint16)
    content = build_segment({"x": Ids(ids, words)})
    reads = CountedReads(content)
    segment = SegmentFile.open(reads, len(content), path="test.pseg")
    index = segment.bitmap_index("__base", "base", "x")
    assert len(index.records) > 4
    before = len(reads.reads)
    np.testing.assert_array_equal(index.row_ids(np.array([777])), np.flatnonzero(ids == 777))
    assert len(reads.reads) == before + 1
    assert reads.reads[-1][1] < 80_000


def test_threads_may_load_dictionaries_at_the_same_time():
    """One thread counts the bytes of those that are loaded while another loads one more."""
    names = [f"c{number}" for number in range(60)]
    content = build_segment(
        {
            name: Ids(np.zeros(1, np.uint8), Dictionary(pa.array([name])))  # each has its own
            for name in names
        }
    )
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(10):
                segment = open_segment(content)
                loaded = list(pool.map(segment.dictionary, names))
                assert [one.values.to_pylist() for one in loaded] == [[name] for name in names]
    finally:
        sys.setswitchinterval(interval)
