"""Files written once and never again: each is read to exactly what its build() says."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from golden_files import BUILDERS, GOLDEN, read_golden
from segment_bytes import open_segment, read_everything, same_bits

from projseg.errors import CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
from projseg.segment_format.encodings.encoding_table import ENCODING_NAMES
from projseg.segment_format.file.description import describe
from projseg.segment_format.file.verify_file import verify_segment

REFUSED = (CorruptSegmentError, LimitExceededError, UnsupportedFeatureError)
TRUNCATED = ["every_type", "projections"]  # of at most 16 KiB


def expected_arrays(name):
    columns, projections = BUILDERS[name]()
    tables = {"__base": {("base", column): vector for column, vector in columns.items()}}
    return {
        (table, role, column): vector.to_arrow()
        for table, stored in (tables | projections).items()
        for (role, column), vector in stored.items()
    }


def test_every_golden_file_has_its_builder():
    assert {path.stem for path in GOLDEN.glob("*.pseg")} == set(BUILDERS)


@pytest.mark.parametrize("name", BUILDERS)
def test_golden_file_holds_what_it_was_built_from(name):
    found, expected = read_everything(read_golden(name)), expected_arrays(name)
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert found[key].type == array.type, key
        assert same_bits(found[key], array), key


@pytest.mark.parametrize("name", BUILDERS)
def test_golden_file_verifies(name):
    verify_segment(open_segment(read_golden(name)))


def test_every_encoding_is_in_a_golden_file():
    used = set()
    for name in BUILDERS:
        description = describe(open_segment(read_golden(name)))
        columns = [column.pages for table in description.tables for column in table.columns]
        for pages in [*columns, *(dictionary.pages for dictionary in description.dictionaries)]:
            used |= {encoding.removesuffix(" + zstd") for encoding in pages.encodings}
    assert used == {*ENCODING_NAMES.values()}


def test_projections_share_dictionaries_and_are_indexed():
    segment = open_segment(read_golden("projections"))
    index = segment.bitmap_index("__base", "base", "word")
    ids = segment.column("__base", "base", "word").ids
    for wanted in ([0], [30], [3, 17, 4], list(range(31)), []):
        expected = np.flatnonzero(np.isin(ids, wanted))
        np.testing.assert_array_equal(index.row_ids(np.array(wanted, int)), expected)
        assert index.count(np.array(wanted, int)) == len(expected)
    assert describe(segment).bytes_saved_by_sharing > 0


@pytest.mark.parametrize("name", TRUNCATED)
def test_truncation_at_every_byte_is_refused(name):
    content = read_golden(name)
    for size in range(len(content)):
        with pytest.raises(CorruptSegmentError):
            open_segment(content[:size])


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDERS)
def test_every_flipped_bit_is_found(name):
    content = read_golden(name)
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(REFUSED):
            verify_segment(open_segment(bytes(damaged)))


READ_UNDER_AUDIT = """
import sys
from golden_files import BUILDERS, read_golden
from segment_bytes import open_segment, read_everything

from projseg.kernels.runtime.kernel import interpreter
from projseg.segment_format.file.verify_file import verify_segment

interpreter.retire()  # so that kernels are compiled, and loaded, before anybody listens
files = [read_golden(name) for name in BUILDERS]


def read_all():
    for content in files:
        read_everything(content)
        verify_segment(open_segment(content))


read_all()
seen = []
def hook(event, arguments):
    # Arrow asks whether these are installed, each time they are not; no file has a say in that.
    if event != "import" or arguments[0].split(".")[0] not in ("pandas", "dateutil", "pytz"):
        seen.append(event)
sys.addaudithook(hook)
read_all()
sys.exit(f"reading raised audit events {sorted(set(seen) - QUIET)}" if set(seen) - QUIET else 0)
"""
QUIET = {"object.__getattr__", "object.__setattr__", "code.__new__", "sys._getframe"}


def test_reading_a_file_runs_opens_and_imports_nothing():
    folders = [str(Path(__file__).parents[1] / name) for name in ("support", "oracle")]
    script = f"import sys; sys.path[:0] = {folders!r}\nQUIET = {QUIET!r}\n{READ_UNDER_AUDIT}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
