"""JSON as rows: Arrow reads what it takes exactly, and the rest of a block is read line by line.

Arrow is given the declared types, so it parses a number's own text. What it refuses, such as 1.0
for an integer or a decimal to be rounded, is decoded with every number's digits kept.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from projseg.catalog.external.input_columns import unknown_column
from projseg.catalog.external.readings import (
    Broken,
    Reading,
    TextForm,
    TypeNote,
    check_names,
    not_utf8,
)
from projseg.catalog.external.text_blocks import (
    LINE_DEPTH_MAX,
    Block,
    array_blocks,
    is_deep,
    line_blocks,
    line_count,
)
from projseg.errors import InvalidInputError
from projseg.evaluation.typed_columns import HAS_ZONE, Casts, Converted, Number, exact_type
from projseg.segment_format.format_limits import COLUMNS_MAX
from projseg.segment_format.logical_types import DOUBLE_DIGITS, TIMESTAMP, TIMESTAMP_NTZ, is_nested

_KINDS: Final[dict[type, str]] = {
    int: "a number",
    float: "a number",
    Number: "a number",
    list: "an array",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}
_NULL_AFTER: Final = re.compile(rb"\}\s*null")
_DECODER: Final = msgspec.json.Decoder(float_hook=Number)
_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LARGE: Final = re.compile(rb"[0-9]{16}")
_NO_DECIMAL: Final = re.compile(rb"[0-9](?:[eE][-+0-9]|[0-9.]{38})")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SLICE_LINES: Final = 4096
_START_BYTES: Final = 2**18
_READ_ERRORS: Final = (pa.ArrowException, ValueError)


class JsonRows:
    """The rows of one file of JSON, an object on each line or in an array.

    Its text comes in pieces; messages have its path.
    """

    def __init__(self, path: str, pieces: Iterator[bytes], form: TextForm) -> None:
        self._path, self._form = path, form
        self._blocks = _blocks(path, pieces)
        self._first = next(self._blocks, None)
        self.is_empty = self._first is None
        self.notes: list[TypeNote] = []
        self._keys: dict[str, str] = {}
        self.schema = pa.schema([])
        if self._first is None:
            return
        good = self._first.data
        found = _same_types(good)
        if found is None:
            _, lines, broken = _parted(self._first)
            good = lines.data
            found = _same_types(good) if broken else None
        self._keys = self._names(_keys(good) if found is None else found)
        if not self._keys and form.declared is None:
            raise self._no_object()
        if form.declared is None:
            self.schema = self._guessed(good, found)

    def readings(self, target: pa.Schema, casts: Casts) -> Iterator[Reading]:
        """Yield the rows in a table's columns, once."""
        own = {name.lower(): key for key, name in self._keys.items()}
        raw = [
            pa.field(own.get(field.name.lower(), field.name), found)
            for field in target
            if (found := _raw(field.type)) is not None
        ]
        exact = pa.schema(raw) if len(raw) == len(target) else None
        block, self._first = self._first, None
        while block is not None:
            yield self._reading(block, target, exact, casts)
            block = next(self._blocks, None)

    def _reading(
        self, block: Block, target: pa.Schema, exact: pa.Schema | None, casts: Casts
    ) -> Reading:
        rows = self._by_arrow(block, target, exact)
        good = block
        broken: list[Broken] = []
        if rows is None:
            objects, good, broken = _parted(block)
            rows = self._by_arrow(good, target, exact) if broken else None
            if rows is None:
                return self._by_lines(objects, good, broken, target, casts)
        assert exact is not None, "Arrow has read the rows by it"
        arrays = [rows.column(field.name).combine_chunks() for field in exact]
        columns = [
            casts.texts(array, field.type) if array.type != field.type else Converted(array)
            for array, field in zip(arrays, target, strict=True)
        ]

        def where(places: Sequence[int]) -> list[tuple[int, bytes]]:
            kept = [(good.number(n), line) for n, line in enumerate(good.lines()) if line.strip()]
            return [kept[place] for place in places]

        return Reading(columns, len(rows), where, lambda row, n: str(arrays[n][row]), broken)

    def _by_arrow(
        self, block: Block, target: pa.Schema, exact: pa.Schema | None
    ) -> pa.Table | None:
        """Return the rows as Arrow reads them by the declared types; None if it does not."""
        if exact is None or not _is_plain(block.data):
            return None
        if _has_decimal(exact.types) and _NO_DECIMAL.search(block.data) is not None:
            return None  # Arrow drops digits of a decimal with an exponent, or with 39 of them
        form = self._form
        try:
            is_open = form.leaves_others or form.excluded
            rows = _read(block.data, exact, "ignore" if is_open else "error")
            rows.validate(full=True)  # the reader does not check a decimal's precision
        except _READ_ERRORS:
            return None
        if form.excluded and not form.leaves_others:
            known = {name.lower() for name in target.names}
            if any(name.lower() not in known for name in self._names(_keys(block.data)).values()):
                return None
        lines = line_count(block.data) + (not block.data.endswith(b"\n"))
        is_one_each = len(rows) == lines or len(rows) == sum(
            bool(line.strip()) for line in block.lines()
        )
        return rows if is_one_each else None

    def _by_lines(
        self,
        rows: list[dict[str, Any]],
        good: Block,
        broken: list[Broken],
        target: pa.Schema,
        casts: Casts,
    ) -> Reading:
        keys = self._names(dict.fromkeys(chain.from_iterable(rows)), within=True)
        spelled: dict[str, list[str]] = {}
        for key, name in keys.items():
            spelled.setdefault(name.lower(), []).append(key)
        if not self._form.leaves_others:
            known = {field.name.lower() for field in target}
            for key, name in keys.items():
                if name.lower() not in known:
                    at = next(n for n, row in enumerate(rows) if key in row)
                    raise unknown_column(f"{self._path}, line {good.number(at)}", name, target)
        values = [_values(rows, spelled.get(field.name.lower(), ())) for field in target]
        columns = [
            self._column(one, field, casts) for one, field in zip(values, target, strict=True)
        ]

        def where(wanted: Sequence[int]) -> list[tuple[int, bytes]]:
            lines = good.lines()
            return [(good.number(place), lines[place]) for place in wanted]

        def cell(row: int, place: int) -> str:
            value = values[place][row]
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

        return Reading(columns, len(rows), where, cell, broken)

    def _column(self, values: list[Any], field: pa.Field, casts: Casts) -> Converted:
        column = casts.json(values, field.type)
        place = self.schema.get_field_index(field.name)
        was_text = place >= 0 and pa.types.is_string(self.schema.field(place).type)
        if not was_text or column.values.type != pa.string() or field.name in self._form.texts:
            return column
        # A number among texts is a mistake, unless one said that it is a text.
        odd = np.array([v is not None and type(v) is not str for v in values], bool)
        return Converted(column.values, odd if column.bad is None else odd | column.bad)

    def _names(self, keys: Iterable[str], *, within: bool = False) -> dict[str, str]:
        """Return columns by the keys that are read; `within` a block one may have several."""
        found = list(keys)
        both = zip(found, self._form.names(found), strict=True)
        named = {key: name for key, name in both if name is not None}
        wanted = self._form.declared
        if wanted is not None:
            known = {name.lower() for name in wanted.names}
            named = {key: name for key, name in named.items() if name.lower() in known}
        if not within:
            check_names(self._path, list(named.values()))
        return named

    def _no_object(self) -> InvalidInputError:
        assert self._first is not None, "it has text"
        found = ((n, _object(x)) for n, x in enumerate(self._first.lines()) if x.strip())
        place, reason = next(found)
        reason = reason if isinstance(reason, str) else "it has no key"
        return InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE",
            f"{self._path}, line {self._first.number(place)}: {reason}; give an object on each "
            "line, or one array of objects",
        )

    def _guessed(self, data: bytes, same: dict[str, pa.DataType] | None) -> pa.Schema:
        """Return the columns of some lines, in types that lose nothing of them."""
        try:
            found = _arrow_types(data) if same is None else _with_times(data, same)
        except _READ_ERRORS:
            found = _python_types(data)
        if _LARGE.search(data) is not None:
            found |= self._large(data, [k for k, t in found.items() if pa.types.is_floating(t)])
        return pa.schema([(name, found.get(key, pa.null())) for key, name in self._keys.items()])

    def _large(self, data: bytes, keys: Sequence[str]) -> dict[str, pa.DataType]:
        """Return other types for numbers that have more digits than a double holds."""
        types = {}
        rows = _objects(data)
        for key in keys:
            values = [value for row in rows if (value := row.get(key)) is not None]
            if any(type(value) is int and abs(value) >= 10**DOUBLE_DIGITS for value in values):
                types[key] = exact_type(list(map(str, values)))
                if pa.types.is_string(types[key]):
                    name = self._keys[key]
                    self.notes.append(TypeNote(name, "as a double does not hold all of its digits"))
        return types


def _blocks(path: str, pieces: Iterator[bytes]) -> Iterator[Block]:
    """Yield lines of objects, or the items of an array as such."""
    first = 1
    for piece in pieces:
        text = piece.lstrip()
        first += line_count(piece[: len(piece) - len(text)])
        if text:
            as_blocks = array_blocks if text.startswith(b"[") else line_blocks
            yield from as_blocks(path, chain([text], pieces), first)


def _is_plain(data: bytes) -> bool:
    """Whether a parser may see a block as a whole."""
    return not_utf8(data) is None and (_is_flat(data) or not any(map(is_deep, data.splitlines())))


def _is_flat(data: bytes) -> bool:
    """Whether each bracket begins a line, so that nothing is within another."""
    return b"[" not in data and data.count(b"{") == data.count(b"\n{") + data.startswith(b"{")


def _objects(data: bytes) -> list[dict[str, Any]]:
    """Return the objects of some lines, without those that are none."""
    found = (_object(line) for line in data.splitlines() if line.strip())
    return [one for one in found if isinstance(one, dict)]


def _keys(data: bytes) -> list[str]:
    """Return the keys of objects, in order; the paths of inner ones too, if they are too many."""
    seen: dict[str, None] = {}
    inner: set[tuple[str, ...]] = set()
    lines = data.splitlines(keepends=True)
    is_flat = _is_flat(data)
    for start in range(0, len(lines), _SLICE_LINES):
        part = b"".join(lines[start : start + _SLICE_LINES])
        try:
            rows: Sequence[Mapping[str, Any]] = _KEYS.decode_lines(part)
        except (ValueError, RecursionError):
            rows = _objects(part)
        for row in rows:
            seen.update(dict.fromkeys(row))
            if not is_flat:
                inner.update(_paths((), row.values()))
            if len(seen) + len(inner) > COLUMNS_MAX:
                return [*seen, *map("/".join, inner)]
    return list(seen)


def _paths(above: tuple[str, ...], values: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each key within some values."""
    for value in values:
        if isinstance(value, msgspec.Raw):
            if bytes(memoryview(value)[:1]) not in (b"{", b"["):
                continue
            value = msgspec.json.decode(value)
        if isinstance(value, dict):
            yield from ((*above, key) for key in value)
            for key, item in value.items():
                yield from _paths((*above, key), [item])
        elif isinstance(value, list):
            yield from _paths((*above, ""), value)


def _object(line: bytes) -> dict[str, Any] | str:
    """Return the object on a line, or why there is none."""
    if is_deep(line):
        return f"it is nested deeper than {LINE_DEPTH_MAX}"
    try:
        found = _DECODER.decode(line)
        if b"-0" in line:  # a double has a negative zero, which an integer loses
            found = json.loads(line, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError) as error:
        return not_utf8(line) or _problem(line.decode().strip(), error)
    return found if isinstance(found, dict) else f"it is {_KINDS[type(found)]}, and no object"


def _problem(text: str, error: Exception) -> str:
    """Return what is wrong with a line that msgspec does not decode."""
    try:
        _SYNTAX.decode(text)
    except json.JSONDecodeError as said:
        return f"{said.msg} at its place {said.colno}"
    except (ValueError, RecursionError) as said:
        return str(said)
    if _SURROGATE.search(text) is not None:
        return "an escape such as \\ud800 is half of a character"
    return str(error)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


_SYNTAX: Final = json.JSONDecoder(parse_constant=_refuse, parse_int=str)


def _values(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[Any]:
    """Return a column's values, whose key may be spelled in other case in other rows."""
    if len(keys) == 1:
        key = keys[0]
        return [row.get(key) for row in rows]
    return [next((row[key] for key in keys if key in row), None) for row in rows]


def _raw(target: pa.DataType) -> pa.DataType | None:
    """Return the type by which Arrow reads a type exactly; None if it reads none."""
    if pa.types.is_list(target):
        inner = _raw(target.value_type)
        return target if inner == target.value_type else None
    if pa.types.is_struct(target):
        return target if all(_raw(one.type) == one.type for one in target) else None
    if is_nested(target):
        return None
    is_number = pa.types.is_integer(target) or pa.types.is_floating(target)
    is_own = is_number or pa.types.is_boolean(target) or pa.types.is_decimal(target)
    return target if is_own else pa.string()


def _has_null_line(data: bytes) -> bool:
    """Whether null stands where an object belongs; at times also for a text that has } null."""
    return b"null" in data and (
        data.lstrip().startswith(b"null") or _NULL_AFTER.search(data) is not None
    )


def _has_decimal(types: Iterable[pa.DataType]) -> bool:
    """Whether a decimal is among some types, or within them."""
    return any("decimal" in str(one) for one in types)


def _read(data: bytes, schema: pa.Schema | None = None, unexpected: str = "infer") -> pa.Table:
    if _has_null_line(data):  # Arrow ends the process where the first line is null
        raise pa.ArrowInvalid("a line is null, and no object")
    return pyarrow.json.read_json(
        io.BytesIO(data),
        read_options=pyarrow.json.ReadOptions(block_size=len(data) + 1, use_threads=False),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=unexpected
        ),
    )


def _arrow_types(data: bytes) -> dict[str, pa.DataType]:
    """Return the types of keys, as Arrow guesses them.

    It reads a text of whole seconds as a time without a zone, whether it names one or not.
    """
    return _with_times(data, {field.name: field.type for field in _read(data).schema})


def _with_times(data: bytes, types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return types of keys, those of times with or without a zone, as the texts have it."""
    times = [name for name, found in types.items() if pa.types.is_timestamp(found)]
    if times:
        texts = _read(data, pa.schema([(name, pa.string()) for name in times]), "ignore")
        return types | {name: _time_type(texts[name]) for name in times}
    return types


def _same_types(data: bytes) -> dict[str, pa.DataType] | None:
    """Return the types of keys, where the first lines have all of them, and all lines are alike.

    A whole block is then read once, in types that no line widens, and of no other keys.
    """
    if not _is_plain(data):
        return None
    start = data[: data.find(b"\n", _START_BYTES) + 1 or None]
    try:
        keys = _keys(start)
        schema = _read(start).schema if 0 < len(keys) <= COLUMNS_MAX else None
        if schema is None or schema.names != keys:
            return None
        _read(data, schema, "error")
    except _READ_ERRORS:
        return None
    return dict(zip(keys, schema.types, strict=True))


def _parted(block: Block) -> tuple[list[dict[str, Any]], Block, list[Broken]]:
    """Return the objects of a block, the lines they are on, and lines that are no objects."""
    rows: list[dict[str, Any]] = []
    lines: list[bytes] = []
    numbers: list[int] = []
    broken: list[Broken] = []
    for place, line in enumerate(block.lines()):
        if not line.strip():
            continue
        found = _object(line)
        if isinstance(found, dict):
            rows.append(found)
            lines.append(line)
            numbers.append(block.number(place))
        else:
            broken.append(Broken(block.number(place), line, found))
    return rows, Block(b"".join(lines), block.first, numbers), broken


def _python_types(data: bytes) -> dict[str, pa.DataType]:
    """Return the types of keys of lines that Arrow does not read; text for those of several."""
    rows = _objects(data)
    types = {}
    for key in dict.fromkeys(chain.from_iterable(rows)):
        values = [_plain(row.get(key)) for row in rows]
        if len({type(value) is bool for value in values if value is not None}) > 1:
            types[key] = pa.string()  # Arrow takes true behind 1.5 for 1.0
            continue
        try:
            found = pa.array(values)
        except (pa.ArrowException, OverflowError):
            types[key] = pa.string()
            continue
        types[key] = found.type
        if pa.types.is_string(found.type):
            try:
                kind = _time_type(found)
                found.cast(kind)
                types[key] = kind
            except pa.ArrowInvalid:
                pass
    return types


def _plain(value: Any) -> Any:
    """Return a value whose type Arrow can determine."""
    if isinstance(value, Number) or (type(value) is int and abs(value) >= 2**63):
        return float(value)
    if isinstance(value, list):
        return list(map(_plain, value))
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _time_type(texts: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """Return the type that all texts are of; text, where some have a zone and some have none."""
    have_zone = pc.unique(pc.match_substring_regex(texts, HAS_ZONE).drop_null()).to_pylist()
    if len(have_zone) != 1:
        return pa.string()
    return TIMESTAMP if have_zone[0] else TIMESTAMP_NTZ
