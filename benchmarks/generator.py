"""A seeded stream of Wikipedia-like edits, of any length and in bounded memory.

Blocks of `ROWS_PER_BLOCK` rows are made one at a time, each from its own random streams, one for
each column: a block depends on the seed, its number and the length of the whole stream only. The
same arguments give the same rows in every run, and a worker can make any block alone.

| column | type | values |
|---|---|---|
| time | timestamp[us, UTC] | from 2015-09-01, whole milliseconds, each up to ten seconds late |
| channel, page, user, country, device | string | 50, 200 k, 500 k, 200, 5 values, Zipf |
| robot | boolean | 35 % true |
| added, deleted | int32 | 30 % and 60 % zeros, else log-uniform up to 10,000 |
| price | double | log-uniform from 1.00 to 1,000.00, two decimals |

No value is null and columns are independent. The rank of a value is drawn as
`floor((n + 1)**u) - 1` for uniform `u`, which gives rank k a share of
`log(1 + 1 / (k + 1)) / log(n + 1)`: Zipf's law with exponent 1, without a table.

A text is a function of its rank, so every run, block and machine agrees on it. Ranks are scattered
by an odd multiplier first: the frequent values are then spread over the alphabet instead of
standing at its beginning, which would flatter sorted dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.errors import InvalidInputError

_WIKIS: Final = (
    "en de fr ru it ja vi es zh uk pt pl nl ar sv fa ko he hu ca cs fi no ro tr id el bg da sr hr "
    "sk lt et sl eu hy gl ms ce kk uz hi la th az simple be ur ta"
)
_DEVICES: Final = ("desktop", "mobile web", "android app", "ios app", "api")
_STARTS: Final = (
    "Al Bar Cor Dun El Fen Gar Hol Is Jor Kal Lin Mar Nor Or Pel Quin Ros Sal Tor Ul Vas Wil Yor "
    "Zan É Ö Św Žel Бо Ми 東"
)
_ENDINGS: Final = ("a", "by", "en", "ia", "is", "o", "ton", "ford")
_KINDS: Final = (
    "| album| band| bridge| castle| church| cup| district| election| film| (footballer)| novel"
    "| railway station| river| song| war"
)
_SCATTER: Final = np.uint64(0x9E3779B1)  # odd, so multiplying by it permutes the ranks

ROWS_PER_BLOCK: Final = 131_072
START_US: Final = 1_441_065_600_000_000  # 2015-09-01T00:00:00Z
DAY_US: Final = 86_400_000_000
SPAN_US: Final = 30 * DAY_US
LATENESS_US: Final = 10_000_000  # an edit arrives at most this much late
SCHEMA: Final = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("channel", pa.string()),
        ("page", pa.string()),
        ("user", pa.string()),
        ("country", pa.string()),
        ("device", pa.string()),
        ("robot", pa.bool_()),
        ("added", pa.int32()),
        ("deleted", pa.int32()),
        ("price", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class EditStream:
    """Edits to generate, spread evenly over `span_us` microseconds.

    Another seed gives other rows over the same vocabularies.
    """

    row_count: int
    seed: int = 2015
    span_us: int = SPAN_US

    def __post_init__(self) -> None:
        if self.row_count < 0:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"row_count {self.row_count} is negative; give 0 or more"
            )

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return SCHEMA

    @property
    def block_count(self) -> int:
        """Number of record batches."""
        return -(-self.row_count // ROWS_PER_BLOCK)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, `ROWS_PER_BLOCK` at a time, the last batch shorter."""
        return (self.block(block_index) for block_index in range(self.block_count))

    def reader(self) -> pa.RecordBatchReader:
        """Return the stream as an Arrow reader, to be consumed once."""
        return pa.RecordBatchReader.from_batches(SCHEMA, self.batches())

    def table(self) -> pa.Table:
        """Return all rows in memory: about 110 bytes a row."""
        return pa.Table.from_batches(self.batches(), schema=SCHEMA)

    def block(self, block_index: int) -> pa.RecordBatch:
        """Return one batch, made without the others."""
        start = block_index * ROWS_PER_BLOCK
        row_count = min(ROWS_PER_BLOCK, self.row_count - start)
        draw = _Draw(self.seed, block_index, row_count)
        columns = [
            self._times(draw, start),
            *(_text(draw, name) for name in ("channel", "page", "user", "country", "device")),
            pa.array(draw.uniform("robot") < 0.35),
            _sparse_counts(draw, "added", zero_share=0.3),
            _sparse_counts(draw, "deleted", zero_share=0.6),
            pa.array(np.floor(100.0 * 1000.0 ** draw.uniform("price")) / 100.0),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _times(self, draw: _Draw, start: int) -> pa.Array:
        offsets = np.arange(start, start + draw.row_count) * (self.span_us / self.row_count)
        offsets = np.maximum(offsets - draw.uniform("time") * LATENESS_US, 0.0)
        micros = offsets.astype(np.int64) // 1000 * 1000 + START_US
        return pa.array(micros).cast(SCHEMA.field("time").type)


class _Draw:
    """The random streams of one block, one for each column."""

    def __init__(self, seed: int, block_index: int, row_count: int) -> None:
        self._seed, self._block_index = seed, block_index
        self.row_count = row_count

    def uniform(self, column: str) -> NDArray[np.float64]:
        """Return float64[row_count] in [0, 1), the same at every call."""
        column_index = SCHEMA.get_field_index(column)
        sequence = np.random.SeedSequence([self._seed, self._block_index, column_index])
        return np.random.Generator(np.random.SFC64(sequence)).random(self.row_count)


def _sparse_counts(draw: _Draw, column: str, *, zero_share: float) -> pa.Array:
    """Return int32 counts: zeros for `zero_share` of the rows, else log-uniform in [1, 10,000]."""
    scaled = (draw.uniform(column) - zero_share) * (np.log(10_001) / (1.0 - zero_share))
    return pa.array(np.where(scaled < 0.0, 0.0, np.exp(scaled)).astype(np.int32))


def channels() -> pa.Array:
    """Return the 50 channels, named as Wikipedia's recent-changes rooms are."""
    return pa.array([f"#{wiki}.wikipedia" for wiki in _WIKIS.split()])


def countries() -> pa.Array:
    """Return 200 distinct country names of 5 to 22 characters."""
    suffixes = pa.array(["", "", " Republic", " Islands", " Union", "", " Federation"])
    stems = _words(_scattered(200, bits=8))
    return _joined(stems, suffixes.take(pa.array(np.arange(200) % 7)))


def devices() -> pa.Array:
    """Return the 5 devices."""
    return pa.array(_DEVICES)


def pages() -> pa.Array:
    """Return 200,000 distinct page titles of about 20 characters, some of them not ASCII."""
    scattered = _scattered(200_000, bits=24)
    words = [_words((scattered >> np.uint64(shift)) & np.uint64(255)) for shift in (0, 8)]
    return _joined(words[0], " ", words[1], _title_ends().take(_ids(scattered >> np.uint64(16))))


def users() -> pa.Array:
    """Return 500,000 distinct users: names of about 13 characters, every fourth an IP address."""
    ranks = np.arange(500_000, dtype=np.uint64)
    scattered = _scattered(len(ranks), bits=24)
    names = _joined(
        _words(scattered & np.uint64(255)),
        _words((scattered >> np.uint64(8)) & np.uint64(255)),
        _numbers(scattered >> np.uint64(16)),
    )
    addresses = _addresses(scattered)
    return pc.if_else(pa.array(ranks % 4 == 3), addresses, names)


def _scattered(count: int, *, bits: int) -> NDArray[np.uint64]:
    """Return `count` distinct numbers below `2**bits`, in no visible order."""
    ranks = np.arange(count, dtype=np.uint64)
    return (ranks * _SCATTER) & np.uint64((1 << bits) - 1)


def _words(numbers: NDArray[np.uint64]) -> pa.Array:
    """Return the pseudo-word of each number below 256; different numbers, different words."""
    words = [start + ending for start in _STARTS.split() for ending in _ENDINGS]
    return pa.array(words).take(_ids(numbers))


def _title_ends() -> pa.Array:
    """Return 256 distinct endings of titles: a year, a kind, both, or nothing."""
    years = ["", *(f" {1880 + 9 * step}" for step in range(15))]
    return pa.array([f"{kind}{year}" for year in years for kind in _KINDS.split("|")])


def _addresses(numbers: NDArray[np.uint64]) -> pa.Array:
    octets = [_numbers((numbers >> np.uint64(shift)) & np.uint64(255)) for shift in (16, 8, 0)]
    return _joined("10.", octets[0], ".", octets[1], ".", octets[2])


def _numbers(numbers: NDArray[np.uint64]) -> pa.Array:
    return pa.array(numbers.astype(np.int64)).cast(pa.string())


def _ids(numbers: NDArray[np.uint64]) -> pa.Array:
    return pa.array(numbers.astype(np.int32))


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate row by row."""
    return pc.binary_join_element_wise(*parts, "")


_VOCABULARIES: Final[dict[str, Callable[[], pa.Array]]] = {
    "channel": channels,
    "page": pages,
    "user": users,
    "country": countries,
    "device": devices,
}


@lru_cache(maxsize=len(_VOCABULARIES))
def _vocabulary(column: str) -> pa.Array:
    return _VOCABULARIES[column]()


def _text(draw: _Draw, column: str) -> pa.Array:
    values = _vocabulary(column)
    ranks = np.exp(draw.uniform(column) * np.log(len(values) + 1)).astype(np.int32) - 1
    # Rounding may carry u just below 1 to rank n, one past the last.
    return values.take(pa.array(np.minimum(ranks, len(values) - 1)))
