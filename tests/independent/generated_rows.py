"""Make rows of every type, and turn Arrow arrays into plain values."""

import datetime
import random
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "time": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "channel": pa.string(),
        "user": pa.string(),
        "payload": pa.binary(),
        "flag": pa.bool_(),
        "t": pa.int8(),
        "s": pa.int16(),
        "i": pa.int32(),
        "f": pa.float32(),
        "x": pa.float64(),
        "odd": pa.float64(),
        "m": pa.decimal128(12, 2),
        "d": pa.decimal128(38, 3),
        "tags": pa.list_(pa.string()),
        "pair": pa.struct({"left": pa.int32(), "right": pa.string()}),
        "facts": pa.map_(pa.string(), pa.int64()),
        "deep": pa.list_(pa.struct({"a": pa.list_(pa.bool_()), "b": pa.decimal128(38, 2)})),
    }
)
ODD = [float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1e-7, 1.5]


def row(n, pick):
    """Row number `n`, its values chosen by the random generator `pick`."""
    moment = START + datetime.timedelta(seconds=pick.randrange(2 * 86_400))
    values = {
        "local": moment.replace(tzinfo=None, microsecond=n),
        "day": moment.date(),
        "channel": f"#{pick.randrange(7)}.wikipedia",
        "user": pick.choice(["", "é" * 40, f"user {pick.randrange(2000)}"]),
        "payload": pick.choice([b"", b"\1\xfe" + b"\xff" * 70, pick.randbytes(3)]),
        "flag": pick.random() < 0.5,
        "t": pick.randrange(-128, 128),
        "s": pick.randrange(-(2**15), 2**15),
        "i": pick.randrange(-1000, 1000),
        "f": pick.choice([-0.0, 0.0, float("nan"), 2.5, -1e30]),
        "x": pick.gauss(1000, 10),
        "odd": pick.choice(ODD),
        "m": Decimal(pick.randrange(-(10**6), 10**6)).scaleb(-2),
        "d": Decimal(f"{pick.randrange(10**37, 10**38)}e-3"),
        "tags": [pick.choice(["a", "", None]) for _ in range(pick.randrange(4))],
        "pair": {"left": pick.choice([None, n]), "right": pick.choice([None, "right"])},
        "facts": [(key, pick.choice([None, n])) for key in "abc"[: pick.randrange(4)]],
        "deep": [{"a": pick.choice([None, [], [True, None]]), "b": Decimal(n)}, None],
    }
    values = {name: None if pick.random() < 0.05 else value for name, value in values.items()}
    return {"n": n, "time": moment} | values


def generated_rows(count, seed):
    """An Arrow table of `count` rows."""
    pick = random.Random(seed)
    return pa.Table.from_pylist([row(n, pick) for n in range(count)], schema=SCHEMA)


def plain(array):
    """The values of an Arrow array in the plain reader's form."""
    kind, valid = array.type, array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        values = zip(*(plain(child) for child in array.flatten()), strict=True)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        items = plain(array.values)
        values = [items[start:end] for start, end in pairwise(array.offsets.to_pylist())]
    elif pa.types.is_decimal(kind):
        values = [int(f"{v or 0:f}".replace(".", "")) for v in array.to_pylist()]
    elif pa.types.is_timestamp(kind):
        values = array.cast("int64").to_pylist()
    elif pa.types.is_date(kind):
        values = array.cast("int32").to_pylist()
    else:
        values = array.to_pylist()
    return [value if held else None for value, held in zip(values, valid, strict=True)]
