"""A small file of very many rows is verified, deeply too, within a small budget of memory."""

import json
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from encoding_pages import text_page
from forged_segments import Forgery, bounded
from pyroaring import BitMap
from segment_bytes import FILE_ID

import projseg
from projseg.segment_format.footer import (
    TAIL_LAYOUT,
    ColumnEntry,
    DictionaryEntry,
    FieldEntry,
    Footer,
    TableEntry,
    parse_tail,
)
from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.table_layer.commits.commit import append
from projseg.table_layer.metadata.segment_entry import ColumnZone, SegmentEntry
from projseg.table_layer.storage.paths import new_write_id, segment_name

PAGES, PAGE_ROWS = 2_500, 65_536
BUDGET_BYTES = 256 * 2**20
SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])
SCRIPT = """
import json, resource, sys
import projseg

big, warm, budget = json.loads(sys.argv[1])
assert projseg.Table(warm).verify(deep=True) == []
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + budget, used + budget))
print([finding.problem for finding in projseg.Table(big).verify(deep=True)])
"""


def index_of(forgery, pages):
    """One bitmap that holds every row, as runs."""
    rows = BitMap(range(0))
    rows.add_range(0, pages * PAGE_ROWS)
    rows.run_optimize()
    bitmap = rows.serialize()
    block = struct.pack("<II", len(bitmap), 0) + bitmap
    offset, size, checksum = forgery.part(block)
    return np.array([(offset, size, 0, 1, 0, checksum)], INDEX_BLOCK_DTYPE).tobytes()


def constant_table(location, pages):
    """A table of one segment whose every row is (7, 'a')."""
    forgery = Forgery()
    words = forgery.directory([text_page(pa.array(["a"]))])
    numbers = forgery.directory([(struct.pack("<q", 7), bounded(7, 7, PAGE_ROWS, 1))] * pages)
    ids = forgery.directory([(struct.pack("<q", 0), bounded(0, 0, PAGE_ROWS, 1))] * pages)
    index = index_of(forgery, pages)
    columns = (
        ColumnEntry("base", "n", "bigint", "numbers", None, numbers, b""),
        ColumnEntry("base", "word", "string", "ids", 0, ids, index),
    )
    fields = tuple(FieldEntry(column.name, column.type, True) for column in columns)
    table = TableEntry("__base", pages * PAGE_ROWS, "", "", ("word", "n"), columns)
    dictionary = DictionaryEntry("word", "string", 1, words, None)
    content = forgery.finish(Footer(FILE_ID, "a test", fields, (dictionary,), (table,), (), ()))
    made = projseg.Table.create(location, SCHEMA, cluster_by=["word"])
    storage, write_id = made.snapshot.storage, new_write_id()
    name = segment_name(write_id, 0, 0, 0)
    with storage.create(name) as sink:
        sink.write(content)
        sink.commit()
    entry = SegmentEntry(
        file=name,
        write_id=write_id,
        row_count=pages * PAGE_ROWS,
        byte_count=len(content),
        footer_checksum=parse_tail(memoryview(content)[-TAIL_LAYOUT.size :], len(content), name)[1],
        columns={
            "n": ColumnZone(7, 7, 0, False, True, 8 * pages),
            "word": ColumnZone("a", "a", 0, False, True, 8 * pages),
        },
    )
    append(storage, made.snapshot, [entry], write_id=write_id)
    return len(content)


@pytest.mark.slow
def test_constant_pages_are_verified_one_after_the_other(tmp_path):
    assert constant_table(tmp_path / "big", PAGES) < 2**19
    constant_table(tmp_path / "warm", 1)
    arguments = json.dumps([str(tmp_path / "big"), str(tmp_path / "warm"), BUDGET_BYTES])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:]
