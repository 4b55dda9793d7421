"""Floats drawn by their bits, tables that hold them in each layout, and spellings of one predicate.

Each spelling says for which values it is true; all agree with Python's `isnan` and `==`.
"""

import math
import struct

import pyarrow as pa

import projseg

WIDTHS = {"double": ("<Q", "<d", pa.float64()), "float": ("<I", "<f", pa.float32())}
_BITS = {
    "double": [
        *(0x7FF8 << 48, 0xFFF8 << 48, 0x7FF8 << 48 | 1, 2**64 - 1, 0x7FF0 << 48 | 1),  # NaN
        *(0, 1 << 63, 1, 1 << 63 | 1, (1 << 52) - 1),  # zeros, and what is below normal
        *(0x7FF0 << 48, 0xFFF0 << 48, (0x7FF0 << 48) - 1),  # infinities, and the greatest
    ],
    "float": [
        *(0x7FC0 << 16, 0xFFC0 << 16, 0x7FC0 << 16 | 1, 2**32 - 1, 0x7F80 << 16 | 1),
        *(0, 1 << 31, 1, 1 << 31 | 1, (1 << 23) - 1),
        *(0x7F80 << 16, 0xFF80 << 16, (0x7F80 << 16) - 1),
    ],
}


def bits_of(r, width):
    """Return the bits of one float: an odd one, a small number, or any."""
    as_bits, as_float, _ = WIDTHS[width]
    kind = r.random()
    if kind < 0.6:
        return r.choice(_BITS[width])
    if kind < 0.9:
        return struct.unpack(as_bits, struct.pack(as_float, r.choice((7.0, 1.5, -3.0, 2.0))))[0]
    return r.getrandbits(64 if width == "double" else 32)


def floats(bits, width):
    """Return an Arrow array of floats by their bits, None for null; no bit is changed."""
    as_bits, _, arrow_type = WIDTHS[width]
    data = b"".join(struct.pack(as_bits, 0 if one is None else one) for one in bits)
    marks = sum(1 << place for place, one in enumerate(bits) if one is not None)
    validity = pa.py_buffer(marks.to_bytes(len(bits) // 8 + 1, "little"))
    return pa.Array.from_buffers(arrow_type, len(bits), [validity, pa.py_buffer(data)])


def same(value):
    """Return what is equal for equal values: one NaN, one zero."""
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else value + 0.0


def drawn_rows(r, count, width):
    """Return rows: `id`, floats `v` and `w` by their bits, and the same as Python's values."""
    bits = [
        [None if r.random() < 0.1 else bits_of(r, width) for _ in range(count)] for _ in range(2)
    ]
    v, w = (floats(one, width) for one in bits)
    table = pa.table({"id": pa.array(range(count), pa.int32()), "v": v, "w": w})
    return table, [dict(zip(("id", "v", "w"), row, strict=True)) for row in table_rows(table)]


def table_rows(table):
    """Return rows as tuples, floats as what is equal for equal ones."""
    return [tuple(same(value) for value in row.values()) for row in table.to_pylist()]


def constant(value, width):
    """Return the SQL text of a float."""
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{value}' AS {width})"
    return f"CAST('{value!r}' AS {width})"


def _three(value, found):
    """Return the truth of what is null where the value is."""
    return None if value is None else found


def spellings(r, width):
    """Return (condition, parameters, truth of (v, w)), each about equality with some floats.

    The truth of null is None.
    """
    as_bits, as_float, _ = WIDTHS[width]
    options = []
    for _ in range(r.choice((1, 1, 2, 3, 3, 5, 20))):
        (value,) = struct.unpack(as_float, struct.pack(as_bits, bits_of(r, width)))
        options.append(value)
    texts = [constant(value, width) for value in options]
    keys = {same(value) for value in options}
    listed, first, last = ", ".join(texts), texts[0], same(options[-1])
    only = same(options[0])

    def within(v, w):
        return _three(v, v in keys)

    def outside(v, w):
        return _three(v, v not in keys)

    def one(v, w):
        return _three(v, v == only)

    def other(v, w):
        return _three(v, v != only)

    def known(v, w):
        return v == only

    def both(v, w):
        return None if v is None or w is None else v == w

    names = [f"p{place}" for place in range(len(options))]
    given = dict(zip(names, options, strict=True))
    branches = " ".join(f"WHEN {text} THEN true" for text in texts)
    plain = [
        (f"v IN ({listed})", within),
        (f"v NOT IN ({listed})", outside),
        (f"NOT (v IN ({listed}))", outside),
        (" OR ".join(f"v = {text}" for text in texts), within),
        (" OR ".join(f"{text} = v" for text in texts), within),
        (" AND ".join(f"v <> {text}" for text in texts), outside),
        (f"NOT ({' OR '.join(f'v = {text}' for text in texts)})", outside),
        (f"CASE v {branches} ELSE false END", lambda v, w: v in keys),
        (f"CASE WHEN v IN ({listed}) THEN true ELSE false END", lambda v, w: v in keys),
        (f"coalesce(v IN ({listed}), false)", lambda v, w: v in keys),
        (f"(v IN ({listed})) IS TRUE", lambda v, w: v in keys),
        (f"(v IN ({listed})) IS NOT TRUE", lambda v, w: v not in keys),
        (f"v IN ({listed}, NULL)", lambda v, w: True if v in keys else None),
        (f"v NOT IN ({listed}, NULL)", lambda v, w: False if v in keys else None),
        (f"v + 0 IN ({listed})", within),
        (f"-v IN ({', '.join(f'-{text}' for text in texts)})", within),
        (f"array_contains(array({listed}), v)", within),
        (f"if(v IN ({listed}), 'y', 'n') = 'y'", lambda v, w: v in keys),
        (f"nullif(v, {first}) IS NULL", lambda v, w: v is None or v == only),
        *((f"v {sign} {first}", truth) for sign, truth in (("=", one), ("<=>", known))),
        (f"equal_null(v, {first})", known),
        (f"v <> {first}", other),
        (f"NOT (v <=> {first})", lambda v, w: v != only),
        (f"v BETWEEN {first} AND {first}", one),
        (f"v >= {first} AND v <= {first}", one),
        (f"NOT (v < {first} OR v > {first})", one),
        (f"array_contains(array(v), {first})", one),
        (f"greatest(v, {first}) = least(v, {first})", lambda v, w: v is None or v == only),
        (f"v = {first} OR w = {texts[-1]}", lambda v, w: _or(one(v, w), _three(w, w == last))),
        (f"v IN ({listed}) AND w IN ({listed})", lambda v, w: _and(within(v, w), within(w, v))),
        ("v = w", both),
        ("v <=> w", lambda v, w: v == w),
        ("v IN (w)", both),
        (f"v IN (w, {listed})", lambda v, w: _or(both(v, w), within(v, w))),
        (f"v = w OR v IN ({listed})", lambda v, w: _or(both(v, w), within(v, w))),
        ("CASE v WHEN w THEN true ELSE false END", lambda v, w: v is not None and v == w),
        ("nullif(v, w) IS NULL", lambda v, w: v is None or v == w),
        ("array_contains(array(w), v)", both),
        ("NOT (v < w OR v > w)", both),
        ("hash(v) = hash(w)", lambda v, w: v == w),
        ("xxhash64(v) = xxhash64(w)", lambda v, w: v == w),
        ("isnan(v)", lambda v, w: v == "NaN"),
    ]
    by_names = [f":{name}" for name in names]
    bound = [
        (f"v IN ({', '.join(by_names)})", within),
        (f"v NOT IN ({', '.join(by_names)})", outside),
        (" OR ".join(f"v = {name}" for name in by_names), within),
    ]
    found = [(text, None, truth) for text, truth in plain]
    if width == "double":
        found += [(text, given, truth) for text, truth in bound]
    return found


def _or(a, b):
    return True if a or b else None if a is None or b is None else False


def _and(a, b):
    return False if a is False or b is False else None if a is None or b is None else True


GROUPED = {
    "name": "grouped",
    "sql": "SELECT v, w, count(*), sum(id), min(id), max(id) GROUP BY ALL",
}
BY_V = {"name": "by_v", "sql": "SELECT v, count(*), sum(id), count(w), min(w), max(w) GROUP BY ALL"}
SORTED = {"name": "sorted", "sql": "SELECT * ORDER BY v, w"}
LAYOUTS = ("plain", "grouped", "sorted", "clustered", "indexed", "deleted", "merged", "widened")


def make_table(folder, layout, rows, width, **options):
    """Return a table of the rows in a layout."""
    options = {
        "plain": {},
        "grouped": {"projections": [GROUPED, BY_V]},
        "sorted": {"projections": [SORTED]},
        "clustered": {"cluster_by": ["v"]},
        "indexed": {"indexes": [projseg.Index("seen", ["v", "w"], kind="bloom")]},
        "deleted": {"projections": [GROUPED, BY_V]},
        "merged": {"projections": [BY_V]},
        "widened": {"projections": [BY_V], "indexes": [projseg.Index("seen", "v", kind="bloom")]},
    }[layout] | options
    table = projseg.Table.create(str(folder), rows.schema, **options)
    if layout == "deleted":
        more = rows.slice(0, 5).set_column(0, "id", pa.array(range(-5, 0), pa.int32()))
        rows = pa.concat_tables([rows, more])
    half = rows.num_rows // 2
    table.append(rows.slice(0, half))
    table.append(rows.slice(half))
    if layout == "deleted":
        table.delete("id < 0")
    if layout == "merged":
        table.compact()
    if layout == "widened" and width == "float":
        table.widen_column("v", "double")
        table.widen_column("w", "double")
    return table
