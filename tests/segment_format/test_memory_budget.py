"""Small hostile files end in an error within a small budget of memory, whatever they declare.

Each file is opened and scanned page by page in one subprocess whose address space is limited to
what it had after start-up and 256 MiB: an allocation that believes a declared size would fail with
MemoryError instead of one of our errors.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUDGET_BYTES = 256 * 2**20
SCRIPT = """
import gc, resource, struct, sys
import zstandard
from forged_segments import bounded, forge
from segment_bytes import open_segment, read_everything
from test_forgeries import BITS, REFUSED, ROWS, bomb_files, ids_file, page_of, zstd_frame


def scan(content):
    segment = open_segment(content)
    for table in segment.tables:
        for column in table.columns:
            key = (table.name, column.role, column.name)
            for page in range(len(segment.directory(*key))):
                segment.column(*key, page, page + 1).to_arrow()


def text_file(part, rows, encoding, column_type="string", **claims):
    page = (part, {"row_count": rows, "encoding": encoding} | claims)
    return forge([page], rows, column_type=column_type, kind="opaque")


def constant(value):
    return struct.pack("<q", value)


def gibibyte_of_zeros():
    stream = zstandard.ZstdCompressor().compressobj(size=2**30)
    pieces = [stream.compress(bytes(2**20)) for _ in range(2**10)]
    return b"".join([*pieces, stream.flush()])


zeros = zstd_frame(bytes(17 * 2**20))
bomb = gibibyte_of_zeros()
hostile = [forge([case], ROWS) for case in bomb_files()]
hostile += [
    forge([(bomb, bounded(0, 9, ROWS, 3, compression=1, raw_bytes=2**20))], ROWS),
    text_file(bomb, 65_536, 10, compression=1, raw_bytes=17 * 2**20),
    ids_file([0, 1, 2], cardinality=2**24),
    forge([page_of(BITS)], 2**32 - 1),
    forge([(constant(7), bounded(7, 7, 65_536, 1))] * 4, 2**32 - 1),
    text_file(struct.pack("<II", 1, 0) + constant(2**24), 65_536, 10),
    text_file(struct.pack("<II", 1, 0) + constant(2**62), 65_536, 10),
    text_file(struct.pack("<II", 1, 1) + constant(255) + constant(0), 65_536, 11),
    text_file(struct.pack("<II", 1, 1) + constant(2**62) + constant(1), 65_536, 11),
    text_file(struct.pack("<II", 1, 2**32 - 1) + constant(65_535), 65_536, 12, "array<int>"),
    text_file(zeros, 65_536, 10, compression=1, raw_bytes=17 * 2**20),
    text_file(zeros, 65_536, 12, "array<array<int>>", compression=1, raw_bytes=17 * 2**20),
    text_file(zeros, 1, 12, "array<" * 20 + "int" + ">" * 20, compression=1, raw_bytes=17 * 2**20),
]
for encoding, layout, fields in [
    (3, "<qII", (0, 64, 0)),
    (4, "<qIHBB", (0, 65_536, 64, 8, 0)),
    (7, "<IHH", (65_536, 2, 2)),
]:
    part = struct.pack(layout, *fields)
    hostile.append(forge([(part, bounded(0, 9, 65_536, encoding))], 65_536))

scan(forge([page_of(BITS)], ROWS))
gc.collect()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + BUDGET, used + BUDGET))
try:
    bytearray(2 * BUDGET)
    sys.exit("the limit does not hold")
except MemoryError:
    pass
refused = 0
for number, content in enumerate(hostile):
    assert len(content) < 2**20
    try:
        scan(content)
    except REFUSED:
        refused += 1
    else:
        sys.exit(f"file {number} was read")
print(refused)
"""


def test_hostile_files_are_refused_within_the_budget():
    folders = [ROOT / "tests" / name for name in ("support", "oracle", "segment_format")]
    paths = f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n"
    script = f"{paths}BUDGET = {BUDGET_BYTES}\n{SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 25
