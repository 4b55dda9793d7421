"""Thrift's compact protocol, read into lists and written, and whether a Parquet footer fits.

A struct is a list of [field, type, value], a list of Thrift [type of its items, items], and
perhaps another type that it states.
"""

TRUE, FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)


def decode(content):
    """The struct that bytes begin with; raises ValueError or IndexError if there is none."""
    return _read(_Bytes(content), STRUCT, 0)


class _Bytes:
    def __init__(self, content):
        self.content, self.at = content, 0

    def take(self, count):
        self.at += count
        if self.at > len(self.content):
            raise ValueError("too short")
        return self.content[self.at - count : self.at]

    def number(self):
        found = shift = 0
        while True:
            (byte,) = self.take(1)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found & 2**63 - 1
            if shift == 70:
                raise ValueError("too long a number")


def _read(source, kind, depth):
    if kind in (TRUE, FALSE, BYTE):
        return source.take(1)[0]
    if kind in (INT16, INT32, INT64):
        found = source.number()
        return found >> 1 ^ -(found & 1)
    if kind in (DOUBLE, BINARY):
        return source.take(8 if kind == DOUBLE else source.number())
    if kind not in (LIST, SET, STRUCT) or depth == 32:
        raise ValueError("no type, or too deep")
    return (_struct if kind == STRUCT else _list)(source, depth + 1)


def _list(source, depth):
    (head,) = source.take(1)
    count = source.number() if head >> 4 == 15 else head >> 4
    if count > len(source.content):
        raise ValueError("too many")
    return [head & 15, [_read(source, head & 15, depth) for _ in range(count)]]


def _struct(source, depth):
    found, field = [], 0
    while (head := source.take(1)[0]) & 15:
        field = field + (head >> 4) if head >> 4 else _read(source, INT16, depth)
        if not 0 <= field < 2**15:
            raise ValueError("no field")
        kind = head & 15
        value = None if kind in (TRUE, FALSE) else _read(source, kind, depth)
        found.append([field, kind, value])
    return found


def encode(struct):
    """The bytes of a struct."""
    return _written(STRUCT, struct)


def _number(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _written(kind, value):
    if kind in (TRUE, FALSE, BYTE):
        return bytes([value])
    if kind in (INT16, INT32, INT64):
        return _number((value << 1 ^ value >> 63) & 2**64 - 1)
    if kind == DOUBLE:
        return value
    if kind == BINARY:
        return _number(len(value)) + value
    if kind in (LIST, SET):
        item, values, *stated = value
        count, kind = len(values), (stated or [item])[0]
        head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _number(count)
        return head + b"".join(_written(item, one) for one in values)
    found, last = b"", 0
    for field, inner, one in value:
        step = field - last
        found += (
            bytes([step << 4 | inner]) if 0 < step < 16 else bytes([inner]) + _written(INT16, field)
        )
        if inner not in (TRUE, FALSE):
            found += _written(inner, one)
        last = field
    return found + b"\0"


def values(struct, field):
    """Each value of a field of a struct: one, unless it is absent or stated again."""
    return [value for number, _, value in struct if number == field]


LISTS = {
    "file": {2: STRUCT, 4: STRUCT, 5: STRUCT, 7: STRUCT},
    "group": {1: STRUCT, 4: STRUCT},
    "part": {2: INT32, 3: BINARY, 8: STRUCT, 13: STRUCT},
    "sizes": {2: INT64, 3: INT64},
    "places": {2: INT32},
}
OTHERS = {
    "chunk": {3: STRUCT, 8: None, 9: None},
    "part": {1: INT32, 12: STRUCT, 16: STRUCT, 17: STRUCT},
    "sizes": {1: INT64},
    "bounds": {1: BINARY, 2: BINARY, 5: BINARY, 6: BINARY},
}


def fits(content, columns):
    """Whether a footer is whole and each part of a row group is what the schema says.

    `columns` has the type, the most repetitions, the most definitions and the width of each.
    """
    try:
        file = decode(content)
    except (ValueError, IndexError):
        return False
    return _is_plain("file", file) and all(
        _is_plain("group", group)
        and all(
            len(parts) == len(columns) and all(map(_chunk_fits, parts, columns))
            for _, parts in values(group, 1)
        )
        for _, groups in values(file, 4)
        for group in groups
    )


def _is_plain(name, struct):
    lists, others = LISTS.get(name, {}), OTHERS.get(name, {})
    for field, kind, value in struct:
        if field in lists and (kind != LIST or (value[1] and value[0] != lists[field])):
            return False
        if field in others and kind != others[field]:
            return False
    return True


def _chunk_fits(chunk, column):
    if not _is_plain("chunk", chunk):
        return False
    parts = values(chunk, 3)
    return any(values(part, 1) for part in parts) and all(_part_fits(one, column) for one in parts)


def _part_fits(part, column):
    kind, repetitions, definitions, width = column
    bounds, sizes, places = (values(part, field) for field in (12, 16, 17))
    return (
        _is_plain("part", part)
        and all(found == kind for found in values(part, 1))
        and all(_is_plain("bounds", one) for one in bounds)
        and all(
            len(found) >= width
            for one in bounds
            for field in (1, 2, 5, 6)
            for found in values(one, field)
        )
        and all(_is_plain("sizes", one) for one in sizes)
        and all(kind == 6 for one in sizes for _ in values(one, 1))
        and all(len(found) in (0, repetitions + 1) for one in sizes for _, found in values(one, 2))
        and all(len(found) in (0, definitions + 1) for one in sizes for _, found in values(one, 3))
        and all(_is_plain("places", one) for one in places)
    )
