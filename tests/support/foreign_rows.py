"""Arrow arrays of drawn types, encodings and slices, each appended in a process of its own.

`python foreign_rows.py FIRST COUNT` tries cases by seed and prints what goes wrong.
"""

from __future__ import annotations

import datetime
import os
import random
import shutil
import sys
import tempfile
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

import projseg
from projseg.segment_format.logical_types import normal_type

DAY = datetime.date(2024, 5, 1)
NOON = datetime.datetime(2024, 5, 1, 12, 30, 15, 123000)
LEAVES = {
    pa.null(): [None],
    pa.bool_(): [True, False],
    pa.int8(): [-128, 0, 127],
    pa.uint8(): [0, 255],
    pa.int16(): [-(2**15), 7],
    pa.uint16(): [0, 2**16 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.uint32(): [0, 2**32 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float16(): [0.5, -2.0],
    pa.float32(): [0.5, -1.25],
    pa.float64(): [0.1, -1e300],
    pa.decimal32(7, 2): [Decimal("12345.67"), Decimal("-0.01")],
    pa.decimal64(15, 3): [Decimal("123456789012.345"), Decimal("0.000")],
    pa.decimal128(38, 10): [Decimal("-1234567890123456789012345678.0123456789")],
    pa.decimal256(38, 5): [Decimal("123456789012345678901234567890123.12345")],
    pa.decimal128(5, -2): [Decimal("1200"), Decimal("-9999900")],
    pa.string(): ["", "a", "längerer Text als zwölf Zeichen"],
    pa.large_string(): ["b", "日本"],
    pa.string_view(): ["c", "a text that stands in no view itself", ""],
    pa.binary(): [b"", b"\x00\xff"],
    pa.large_binary(): [b"xy"],
    pa.binary_view(): [b"x" * 20, b"y"],
    pa.binary(3): [b"abc", b"\x00\x01\x02"],
    pa.date32(): [DAY, datetime.date(1, 1, 1)],
    pa.date64(): [DAY],
    pa.timestamp("s"): [NOON.replace(microsecond=0)],
    pa.timestamp("ms"): [NOON],
    pa.timestamp("us", "UTC"): [NOON.replace(tzinfo=datetime.UTC)],
    pa.timestamp("ns", "Europe/Berlin"): [NOON.replace(tzinfo=datetime.UTC)],
}
INDEX_TYPES = tuple(
    getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)
)
RUN_TYPES = (pa.int16(), pa.int32(), pa.int64())
ROWS_MAX = 30
WARM_UP = 0


def encoded(values: pa.Array, encoding: pa.DataType, rng: random.Random) -> pa.Array:
    """Return values under an index type as a dictionary, unsigned or not, or as runs."""
    count = len(values)
    if rng.random() < 0.5:
        if count == 0:
            return pa.DictionaryArray.from_arrays(pa.array([], encoding), values)
        # Some indices are null, and some values stand twice or for no row.
        return pa.DictionaryArray.from_arrays(
            pa.array([rng.choice((None, rng.randrange(count))) for _ in range(count)], encoding),
            values,
        )
    ends, last = [], 0
    for _ in range(count):
        last += rng.randint(1, 3)
        ends.append(last)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, rng.choice(RUN_TYPES)), values)


def drawn(rng: random.Random, depth: int, count: int) -> pa.Array:
    """Return an array of a drawn type, of about so many rows, mostly a slice of a longer one."""
    before, after = rng.choice((0, 0, 1, 9)), rng.choice((0, 0, 2, 11))
    array = _drawn_whole(rng, depth, count + before + after)
    if rng.random() < 0.3:
        array = (
            pa.concat_arrays([array.slice(0, 1), array.slice(1)]) if _joins(array.type) else array
        )
    return array.slice(before, max(0, len(array) - before - after))


def _joins(arrow_type: pa.DataType) -> bool:
    return not pa.types.is_dictionary(arrow_type) and not pa.types.is_run_end_encoded(arrow_type)


def _drawn_whole(rng: random.Random, depth: int, count: int) -> pa.Array:
    kind = rng.choice(("leaf", "encoded", "struct", "list", "map", "fixed")) if depth else "leaf"
    nulls = pa.array([rng.random() < 0.3 for _ in range(count)], pa.bool_())
    if kind == "leaf":
        leaf = rng.choice(list(LEAVES))
        return pa.array([rng.choice([None, *LEAVES[leaf]]) for _ in range(count)], leaf)
    if kind == "encoded":
        return encoded(
            drawn(rng, rng.choice((0, 0, depth - 1)), count), rng.choice(INDEX_TYPES), rng
        )
    if kind == "struct":
        names = [f"f{number}" for number in range(rng.randint(0, 3))]
        fields = [drawn(rng, depth - 1, count) for _ in names]
        shortest = min((len(field) for field in fields), default=count)
        return pa.StructArray.from_arrays(
            [field.slice(0, shortest) for field in fields], names, mask=nulls.slice(0, shortest)
        )
    if kind == "fixed":
        size = rng.randint(1, 3)
        items = drawn(rng, depth - 1, count * size)
        count = len(items) // size
        return pa.FixedSizeListArray.from_arrays(
            items.slice(0, count * size), size, mask=nulls.slice(0, count)
        )
    return _drawn_lists(rng, depth, count, kind, nulls)


def _drawn_lists(
    rng: random.Random, depth: int, count: int, kind: str, nulls: pa.Array
) -> pa.Array:
    """Return lists or maps, of which those that are null hide items."""
    offsets = [rng.randint(0, 2)]
    for _ in range(count):
        offsets.append(offsets[-1] + rng.randint(0, 3))
    if kind == "map":
        keys = pa.array([f"k{number}" for number in range(offsets[-1])], pa.string())
        items = _padded(drawn(rng, depth - 1, len(keys)), len(keys))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=nulls)
    items = _padded(drawn(rng, depth - 1, offsets[-1]), offsets[-1])
    form = rng.choice(("list", "large", "view", "large view"))
    width = pa.int64() if "large" in form else pa.int32()
    if "view" not in form:
        made = pa.LargeListArray if width == pa.int64() else pa.ListArray
        return made.from_arrays(pa.array(offsets, width), items, mask=nulls)
    made = pa.LargeListViewArray if width == pa.int64() else pa.ListViewArray
    pairs = list(pairwise(offsets))
    rng.shuffle(pairs)  # views stand in any order
    starts = pa.array([start for start, _ in pairs], width)
    sizes = pa.array([end - start for start, end in pairs], width)
    return made.from_arrays(starts, sizes, items, mask=nulls)


def _padded(items: pa.Array, count: int) -> pa.Array:
    """Return so many items, nulls where fewer were drawn."""
    if len(items) >= count:
        return items.slice(0, count)
    return pa.nulls(count, items.type if _joins(items.type) else pa.int8())


def plain(value: object) -> object:
    """Return a value in the one Python form that it has in every type."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


def python_values(array: pa.Array) -> list[object]:
    """Return the values of an array row by row, by Arrow's scalars alone."""
    return [plain(_scalar_value(array[row])) for row in range(len(array))]


def _scalar_value(scalar: pa.Scalar) -> object:
    if isinstance(scalar, pa.DictionaryScalar | pa.RunEndEncodedScalar | pa.ExtensionScalar):
        return _scalar_value(scalar.value) if scalar.value is not None else None
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _scalar_value(scalar[name]) for name in scalar}
    if isinstance(scalar, pa.MapScalar):
        entries = scalar.values
        return [
            (_scalar_value(entries[row]["key"]), _scalar_value(entries[row]["value"]))
            for row in range(len(entries))
        ]
    if isinstance(scalar, pa.ListScalar):
        return [_scalar_value(item) for item in scalar.values]
    return scalar.as_py()


def try_case(seed: int) -> None:
    """Append one drawn column, in chunks, to a table of its type, and compare the rows."""
    rng = random.Random(seed)
    try:
        array = drawn(rng, rng.randint(1, 3), rng.randint(1, ROWS_MAX))
    except pa.ArrowException:
        return  # Arrow does not make it, such as lists of a fixed size over a slice of runs
    cut = rng.randint(0, len(array))
    chunks = [array.slice(0, cut), array.slice(cut)] if rng.random() < 0.5 else [array]
    column = pa.chunked_array(chunks, array.type)
    expected = python_values(array)
    folder, kind = tempfile.mkdtemp(), normal_type(array.type)
    try:
        table = projseg.Table.create(
            os.path.join(folder, "t"), pa.schema([("c", _without_void(kind) if seed % 2 else kind)])
        )
        table.append(pa.table({"c": column}))
        found = [plain(row["c"]) for row in table.query().to_pylist()]
        assert found == expected, f"{array.type}: {found} != {expected}"
    finally:
        shutil.rmtree(folder)


def _without_void(kind: pa.DataType) -> pa.DataType:
    """Return a type whose values are nulls where they are of no type so far."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_void(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _without_void(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_without_void(kind.value_type))
    return pa.int32() if pa.types.is_null(kind) else kind


def run(first: int, count: int) -> list[str]:
    """Try cases, each in a fork of this process; return what went wrong."""
    wrong = []
    try_case(WARM_UP)  # so that no fork loads code again
    for seed in range(first, first + count):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                try_case(seed)
                os._exit(0)
            except BaseException as error:  # noqa: BLE001 - the process ends
                os.write(writing, f"{type(error).__name__}: {error}"[:2000].encode())
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as said:
            message = said.read().decode(errors="replace")
        _, status = os.waitpid(child, 0)
        if status:
            wrong.append(f"seed {seed}: status {status}: {message}")
            print(wrong[-1], flush=True)
    return wrong


if __name__ == "__main__":
    failures = run(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(failures))
    sys.exit(bool(failures))
