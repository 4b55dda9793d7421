"""The walk over a Parquet footer finds what its slow twin finds."""

import io
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle import parquet_footer as oracle
from parquet_mutants import footer_mutant, footer_of
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.parquet_footers import misfit

TABLE = pa.table(
    {
        "n": pa.array([1, 2, None], pa.int64()),
        "day": pa.array([1, 2, None], pa.date32()),
        "text": ["a", "b", None],
        "list": [[[1]], [[], None], None],
        "flag": pa.array([True, False, True]),
    },
    schema=pa.schema(
        [
            pa.field("n", pa.int64()),
            pa.field("day", pa.date32()),
            pa.field("text", pa.string()),
            pa.field("list", pa.list_(pa.list_(pa.int64()))),
            pa.field("flag", pa.bool_(), nullable=False),
        ]
    ),
)
# Physical type, repetitions, definitions, bytes of a bound.
COLUMNS = [(2, 0, 1, 8), (1, 0, 1, 4), (6, 0, 1, 0), (2, 2, 5, 8), (0, 0, 0, 0)]


def file_of(**options):
    content = io.BytesIO()
    pq.write_table(TABLE, content, row_group_size=2, **options)
    return content.getvalue()


FILES = [file_of(), file_of(write_page_index=True, store_schema=False)]


def found(footer, columns=COLUMNS):
    array = np.array(columns, np.int64).reshape(-1, 4).transpose()
    return misfit(np.frombuffer(footer, np.uint8), array)


@pytest.mark.parametrize("content", FILES)
def test_a_whole_footer_fits_and_no_beginning_of_it_does(content):
    footer = footer_of(content)
    assert oracle.encode(oracle.decode(footer)) == footer
    assert found(footer) is None
    assert found(footer + b"more") is None
    assert found(footer, COLUMNS[:-1]) is not None
    for end in range(0, len(footer), 7):
        assert found(footer[:end]) <= end


def test_footers_fit_where_the_slow_twin_says_so():
    fitting = 0
    for seed in range(tries(20_000, by_day=400)):
        drawn = random.Random(seed)
        footer = footer_of(footer_mutant(drawn.choice(FILES), seed))
        if seed % 3 == 0:
            changed = bytearray(footer)
            for _ in range(drawn.randint(1, 3)):
                changed[drawn.randrange(len(changed))] ^= 1 << drawn.randrange(8)
            footer = bytes(changed)
        fits = oracle.fits(footer, COLUMNS)
        assert (found(footer) is None) == fits, seed
        fitting += fits
    assert fitting > 20


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x19\xfc" + b"\xff" * 9 + b"\x01",  # more items than bytes
        b"\x19\xfc" + b"\xff" * 11,
        b"\x18" + b"\xff" * 9 + b"\x7f",
        b"\x19" * 99,  # lists of lists
        b"\x1c" * 99,  # structs of structs
        b"\x1b\x00\x00",  # a map
        b"\x05\x01\x00\x00",  # field -1
        b"\x05\x80\x80\x04\x00\x00",  # field 32,768
        b"\x4c\x00\x00",  # row groups that are no list
    ],
)
def test_hostile_bytes_do_not_fit(footer):
    assert not oracle.fits(footer, [])
    assert found(footer, []) is not None


def test_the_longest_numbers_and_unknown_fields_fit():
    longest = b"\x16" + b"\xff" * 9 + b"\x01"
    lists = b"\x09\xc8\x01\x39\x18\x01\x18\x01a"  # field 100: three lists, of texts
    assert oracle.fits(longest + b"\x00", [])
    assert found(longest + b"\x00", []) is None
    for one, two in pairwise(
        [longest, b"\x17" + bytes(8), b"\x13\x01", b"\x11", b"\x1a\x21\x01\x02"]
    ):
        footer = one + two + b"\x00"
        assert (found(footer, []) is None) == oracle.fits(footer, [])
    assert (found(lists, []) is None) == oracle.fits(lists, [])


def test_columns_of_other_shapes_are_refused():
    with pytest.raises(InvalidInputError):
        misfit(np.zeros(1, np.uint8), np.zeros((3, 1), np.int64))
