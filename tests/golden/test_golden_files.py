"""Files written once and never again: each is read to exactly what its build() says."""

import numpy as np
import pytest
from golden_files import BUILDERS, GOLDEN, read_golden
from segment_bytes import open_segment, read_everything, same_bits

from projseg.errors import CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
from projseg.segment_format.description import describe

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
    open_segment(read_golden(name)).verify()


def test_every_encoding_is_in_a_golden_file():
    used = set()
    for name in BUILDERS:
        description = describe(open_segment(read_golden(name)))
        columns = [column.pages for table in description.tables for column in table.columns]
        for pages in [*columns, *(dictionary.pages for dictionary in description.dictionaries)]:
            used |= {encoding.removesuffix(" + zstd") for encoding in pages.encodings}
    assert len(used) == 12


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
            open_segment(bytes(damaged)).verify()
