"""Random calls of functions of texts whose arguments differ from row to row, and their rows."""

import pyarrow as pa

SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in "uwpl"],
        *[(name, pa.int32()) for name in "ij"],
        *[("z", pa.binary()), ("a", pa.list_(pa.string()))],
    ]
)
_ASCII = "aabcXY 01,."
_WIDE = _ASCII + "éßñ€中文😀𐐷ﬁΣσı\u0301"
_PARTS = "abc ,é中😀"
_LIKE = ["a", "b", "c", "é", "😀", "%", "%", "_", "\\%", "\\_", "\\\\"]
_SETS = ["[a-c]", "[^a-c]+", ".", "(?s).+", "[é-ƿ,]", "\\\\s+", "([ab])", "\\\\W", "(?i)[b-x]"]
_SIDES = ["BOTH", "LEADING", "TRAILING"]


def random_rows(rng, count):
    """A table of rows in which values are null now and then, and texts are empty."""

    def column(make):
        return [None if rng.random() < 0.1 else make() for _ in range(count)]

    def text(letters, most):
        return "".join(rng.choices(letters, k=rng.randint(0, most)))

    values = {
        "u": column(lambda: text(_ASCII, 12)),
        "w": column(lambda: text(_WIDE, 12)),
        "p": column(lambda: text(_PARTS, 2)),
        "l": column(lambda: text(_LIKE, 4)),
        "i": column(lambda: rng.randint(-6, 9)),
        "j": column(lambda: rng.randint(0, 9)),
        "z": column(lambda: rng.randbytes(rng.randint(0, 6))),
        "a": column(lambda: [text(_WIDE, 3) for _ in range(rng.randint(0, 3))]),
    }
    return pa.table(values, SCHEMA)


def expression(rng):
    """A call of which any argument may be a column, a constant or another call, as SQL."""
    return (_of_text if rng.random() < 0.5 else _of_other)(rng)


def _text(rng, depth):
    if depth > 0 and rng.random() < 0.3:
        return _of_text(rng, depth - 1)
    return rng.choice(["u", "w", "w", "p", "'a b,cé'"])


def _part(rng):
    return rng.choice(["p", "p", "p", "'a'", "'é,'", "''", "left(w, 2)", "substr(u, j, 2)"])


def _number(rng):
    return rng.choice(["i", "j", "j", "0", "1", "-2", "3", "length(p)", "i + j"])


def _of_text(rng, depth=1):
    """A call whose value is a text."""
    text, other, part, instead = _text(rng, depth), _text(rng, 0), _part(rng), _part(rng)
    number, length = _number(rng), _number(rng)
    return rng.choice(
        [
            *(f"substring({text}, {number}, {length})", f"substr({text}, {number})"),
            *(f"left({text}, {number})", f"right({text}, {number})"),
            *(f"lpad({text}, {number}, {part})", f"rpad({text}, {number}, {part})"),
            *(f"repeat({text}, {number})", f"concat_ws({part}, a, {text}, {other})"),
            *(f"initcap({text})", f"lower({text})", f"upper({text})"),
            *(f"translate({text}, {part}, {instead})", f"replace({text}, {part}, {instead})"),
            f"trim({rng.choice(_SIDES)} {part} FROM {text})",
            f"split_part({text}, {part}, coalesce(nullif({number}, 0), 1))",
            *(f"base64(CAST({text} AS BINARY))", f"CAST(unhex(hex({text})) AS STRING)"),
            f"split({text}, '')[0]",
            f"regexp_replace({text}, '{rng.choice(_SETS)}', '{rng.choice(['', 'é', 'xyz'])}')",
            f"concat_ws('|', split({text}, '{rng.choice(_SETS)}', {rng.choice([-1, 1, 2])}))",
        ]
    )


def _of_other(rng, depth=1):
    """A call whose value is a truth, a number or bytes."""
    text, part, number, length = _text(rng, depth), _part(rng), _number(rng), _number(rng)
    pattern = rng.choice(["l", "l", "concat('%', l)", "concat(left(w, 1), '%')", "'%a_'"])
    return rng.choice(
        [
            *(f"{text} LIKE {pattern}", f"{text} ILIKE {pattern}"),
            *(f"{text} RLIKE p", f"{text} RLIKE concat('^', p, '.')", "'a,bé' RLIKE p"),
            *(f"contains({text}, {part})", f"startswith({text}, {part})"),
            *(f"endswith({text}, {part})", f"instr({text}, {part})"),
            *(f"locate({part}, {text}, {number})", f"ascii({text})", f"length({text})"),
            *(f"substring(z, {number}, {length})", f"lpad(z, {number}, substring(z, 2, 2))"),
            *(f"rpad(z, {number}, X'0102')", f"unhex({text})"),
            *(f"{text} RLIKE concat('[a-c', p, ']+.')", f"{text} RLIKE concat('^(.|', p, ')*b?$')"),
            *(f"hash({text}, i, z)", f"xxhash64(z, {text})", "crc32(z)", f"hex({text})", "bin(i)"),
            *(f"md5(CAST({text} AS BINARY))", "sha1(z)", f"sha2(z, {rng.choice([224, 384, 512])})"),
        ]
    )
