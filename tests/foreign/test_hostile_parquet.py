"""Parquet files of strangers: an error within bounded memory, or the rows that they have."""

import random
import resource
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_source import rows, write
from scale import tries

import projseg
from projseg.errors import ProjsegError

MEGABYTES = 400


def held_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def refusal_of(path):
    before = held_megabytes()
    with pytest.raises(ProjsegError) as caught:
        projseg.Table.attach(path.parent / "ours", f"parquet:{path}")
    assert held_megabytes() - before < MEGABYTES
    assert not (path.parent / "ours").exists()
    return caught.value


def framed(footer):
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def varint(number):
    content = b""
    while number > 127:
        content += bytes([number & 127 | 128])
        number >>= 7
    return content + bytes([number])


def test_a_footer_of_two_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "a.parquet"
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.seek(5 << 30)
        file.write((2**31 - 1).to_bytes(4, "little") + b"PAR1")
    assert refusal_of(path).code == "PROJSEG_BAD_SOURCE"


@pytest.mark.parametrize("count", [10**9, 2**31 - 1, 10**6])
@pytest.mark.parametrize("field", [0x19, 0x29, 0x49])
def test_lists_that_claim_a_billion_parts_are_not_made(tmp_path, count, field):
    """A list of `count` structs, of none of which there is a byte, as a field of the footer."""
    path = tmp_path / "a.parquet"
    path.write_bytes(framed(b"\x15\x02" + bytes([field]) + b"\xfc" + varint(count) + b"\x00" * 64))
    assert refusal_of(path).code == "PROJSEG_BAD_SOURCE"


def test_very_many_row_groups_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(framed(b"\x15\x02\x19\x1c\x48\x01a\x15\x00\x00\x16\x00\x19\xfc" + varint(2**20)
                            + b"\x19\x0c\x16\x00\x16\x00\x00" * 2**20 + b"\x00"))  # fmt: skip
    assert refusal_of(path).code == "PROJSEG_BAD_SOURCE"


@pytest.mark.parametrize("seed", range(tries(60)))
def test_damaged_footers_are_errors_or_the_same_rows(tmp_path, seed):
    drawn = random.Random(seed)
    path = tmp_path / "a.parquet"
    write(path, rows(np.random.default_rng(1), 300))
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[-8:-4], "little")
    for _ in range(drawn.randint(1, 4)):
        content[-9 - drawn.randrange(size)] ^= 1 << drawn.randrange(8)
    path.write_bytes(content)
    before = held_megabytes()
    with suppress(ProjsegError):
        table = projseg.Table.attach(tmp_path / "ours", f"parquet:{path}")
        table.sql("SELECT count(*), max(added), count(city) FROM t")
    assert held_megabytes() - before < MEGABYTES


def test_few_bytes_that_stand_for_many_texts_stay_few(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(np.zeros(2_000_000, np.int32), ["x" * 100_000])
    pq.write_table(pa.table({"t": texts, "n": np.zeros(2_000_000, np.int64)}), path)
    before = held_megabytes()
    table = projseg.Table.attach(tmp_path / "ours", f"parquet:{path}")
    assert table.sql("SELECT count(DISTINCT t) AS n FROM t").to_pylist() == [{"n": 1}]
    assert table.sql("SELECT sum(n) AS n FROM t WHERE t > 'x'").to_pylist() == [{"n": 0}]
    assert held_megabytes() - before < MEGABYTES
