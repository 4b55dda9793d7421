"""CSV as rows: every value is read as a text, and then by the type of its column."""

from __future__ import annotations

import io
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from projseg.catalog.external.readings import (
    Broken,
    Reading,
    TextForm,
    TypeNote,
    check_names,
    not_utf8,
)
from projseg.catalog.external.text_blocks import (
    LINE_BYTES_MAX,
    check_length,
    line_count,
)
from projseg.errors import InvalidInputError, ProjsegError
from projseg.evaluation.typed_columns import TIMES, Casts, Converted, exact_type
from projseg.segment_format.csv_records import OPEN_QUOTE, line_ends, records
from projseg.segment_format.format_limits import COLUMNS_MAX

_ZEROS: Final = r"^[+-]?0[0-9]+$"
_LARGE: Final = r"^[+-]?[0-9]{16,38}$"
_NUMBER: Final = r"^[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
_DECIMAL_COMMA: Final = r"^[+-]?[0-9]+(\.[0-9]{3})*,[0-9]+$"
_OTHER_DATE: Final = r"^[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}\b"
_DELIMITERS: Final = (b";", b"\t", b"|")


class _Part(NamedTuple):
    """Some records: their text, where they end, which are no rows, and the line of the first."""

    data: bytes
    ends: NDArray[np.int64]
    bad: list[int]
    first: int

    def spans(self) -> list[tuple[int, int]]:
        """Return where each record begins and ends."""
        return list(pairwise([0, *self.ends.tolist()]))

    def lines(self) -> list[tuple[int, bytes]]:
        """Return the line that each record begins on, and its text."""
        before = np.searchsorted(line_ends(self.data), [0, *self.ends[:-1]], "right")
        numbers = (self.first + before).tolist()
        return [(n, self.data[slice(*span)]) for n, span in zip(numbers, self.spans(), strict=True)]

    def unreadable(self) -> dict[int, str]:
        """Return the records that no parser should see, and why."""
        reasons = dict.fromkeys(self.bad, OPEN_QUOTE)
        if not_utf8(self.data) is not None:
            for place, span in enumerate(self.spans()):
                if (reason := not_utf8(self.data[slice(*span)])) is not None:
                    reasons[place] = reason
        return reasons

    def without(self, reasons: Container[int]) -> bytes:
        """Return the text of the records that are not among some."""
        spans = self.spans()
        return b"".join(self.data[slice(*spans[place])] for place in self.places_without(reasons))

    def places_without(self, reasons: Container[int]) -> list[int]:
        """Return the records that are neither blank nor among some."""
        return [
            place
            for place, (start, end) in enumerate(self.spans())
            if place not in reasons and self.data[start:end].strip(b"\r\n")
        ]


class CsvRows:
    """The rows of one file of CSV, whose text comes in pieces; messages have its path."""

    def __init__(self, path: str, pieces: Iterator[bytes], form: TextForm) -> None:
        self._path, self._form = path, form
        self._delimiter = form.delimiter or ","
        self._names: list[str] = list(form.columns or ()) if not form.has_header else []
        self._parts = self._all_parts(pieces)
        self._first = next(self._parts, None)
        named = list(enumerate(form.names(self._names)))
        self._own = {name: place for place, name in named if name is not None}
        check_names(path, [name for _, name in named if name is not None])
        self.notes: list[TypeNote] = []
        self._read_texts: tuple[pa.Table, dict[int, str]] | None = None
        self.schema = pa.schema([(name, pa.null()) for name in self._own])
        self.is_empty = self._first is None and not self._names
        if self._first is not None and form.declared is None:
            self.schema = self._guessed(self._first)

    def readings(self, target: pa.Schema, casts: Casts) -> Iterator[Reading]:
        """Yield the rows in a table's columns, once."""
        own = {name.lower(): place for name, place in self._own.items()}
        places = [own.get(field.name.lower()) for field in target]
        part, self._first = self._first, None
        while part is not None:
            yield self._reading(part, target, places, casts)
            part = next(self._parts, None)

    def _reading(
        self, part: _Part, target: pa.Schema, places: Sequence[int | None], casts: Casts
    ) -> Reading:
        texts, reasons = self._read_texts or self._texts(part)
        self._read_texts = None
        columns = []
        for field, own in zip(target, places, strict=True):
            if own is None:
                columns.append(Converted(pa.nulls(len(texts), field.type)))
                continue
            column = texts.column(own).combine_chunks()
            if not pa.types.is_string(field.type):
                column = _without_empty(column)
            read = casts.numbers if self._is_number(field) else casts.texts
            try:
                columns.append(read(column, field.type))
            except ProjsegError as error:
                raise type(error)(
                    error.code, f"{self._path}, column '{field.name}': {error.message}"
                ) from error

        def where(rows: Sequence[int]) -> list[tuple[int, bytes]]:
            lines = part.lines()
            kept = part.places_without(reasons)
            return [lines[kept[row]] for row in rows]

        def cell(row: int, place: int) -> str:
            column = places[place]
            return "" if column is None else str(texts.column(column)[row])

        broken = []
        if reasons:
            lines = part.lines()
            broken = [Broken(*lines[place], reasons[place]) for place in reasons if reasons[place]]
        return Reading(columns, len(texts), where, cell, broken)

    def _is_number(self, field: pa.Field) -> bool:
        """Whether a column of times holds numbers, which count from 1970."""
        found = next(one.type for one in self.schema if one.name.lower() == field.name.lower())
        is_number = pa.types.is_integer(found) or pa.types.is_floating(found)
        return field.type in TIMES and (is_number or pa.types.is_decimal(found))

    def _guessed(self, part: _Part) -> pa.Schema:
        """Return the columns of the first records, in types that lose nothing of them."""
        texts, reasons = self._read_texts = self._texts(part)
        data = part.without(reasons) if reasons else part.data
        names = [str(place) for place in range(len(self._names))]
        found = self._parsed(data, names, None, lambda _: "skip").schema
        fields = []
        for name, place in self._own.items():
            guessed = found.field(place).type
            kept = self._lossless(name, texts.column(place), guessed)
            fields.append((name, kept))
        return pa.schema(fields)

    def _lossless(self, name: str, texts: pa.ChunkedArray, found: pa.DataType) -> pa.DataType:
        """Return the type of a column, and note what a person may not expect."""
        if pa.types.is_integer(found) or pa.types.is_floating(found):
            zeros = texts.filter(pc.match_substring_regex(texts, _ZEROS))
            if len(zeros):
                kind = "bigint" if pa.types.is_integer(found) else "double"
                self.notes.append(
                    TypeNote(
                        name,
                        f"as '{zeros[0]}' begins with a zero; --type '{name}={kind}' makes it a "
                        "number",
                    )
                )
                return pa.string()
        if pa.types.is_floating(found) and pc.any(pc.match_substring_regex(texts, _LARGE)).as_py():
            found = exact_type(texts.drop_null().to_pylist())
            if pa.types.is_string(found):
                self.notes.append(TypeNote(name, "as a double does not hold all of its digits"))
            return found
        if pa.types.is_time(found) or pa.types.is_duration(found) or pa.types.is_binary(found):
            return pa.string()
        if pa.types.is_string(found):
            self._note_texts(name, texts.drop_null())
        return found

    def _note_texts(self, name: str, texts: pa.ChunkedArray) -> None:
        is_comma = self._form.values.decimal_point == ","
        for pattern, option in (
            (
                _DECIMAL_COMMA,
                "numbers have no point between their digits"
                if is_comma
                else "--decimal-point ',' makes numbers",
            ),
            (_OTHER_DATE, "--time-format, such as %d.%m.%Y, makes times"),
        ):
            if len(texts) and pc.all(pc.match_substring_regex(texts, pattern)).as_py():
                self.notes.append(TypeNote(name, f"such as '{texts[0]}'; {option}"))
        odd = texts.filter(pc.invert(pc.match_substring_regex(texts, _NUMBER)))
        if 0 < 2 * len(odd) < len(texts):
            reason = f"as '{odd[0]}' is no number; --type '{name}=double' says in which lines"
            self.notes.append(TypeNote(name, reason))

    def _texts(self, part: _Part) -> tuple[pa.Table, dict[int, str]]:
        """Return the records as texts, and why records are no rows; blank ones for no reason."""
        reasons = part.unreadable()
        data = part.data
        if reasons:
            data = part.without(reasons)
        uneven: dict[int, str] = {}

        def take(row: Any) -> str:
            reason = f"it has {row.actual_columns} values where {row.expected_columns} belong"
            uneven[row.number - 1] = reason if row.text.strip() else ""
            return "skip"

        names = [str(place) for place in range(len(self._names))]
        texts = self._parsed(data, names, dict.fromkeys(names, pa.string()), take)
        if uneven:
            kept = part.places_without(reasons)
            reasons |= {kept[place]: reason for place, reason in uneven.items()}
        return texts, reasons

    def _parsed(
        self,
        data: bytes,
        names: list[str],
        types: dict[str, pa.DataType] | None,
        take: Callable[[Any], str],
    ) -> pa.Table:
        if not data.strip(b"\r\n"):
            return pa.table({name: pa.array([], pa.string()) for name in names})
        form = self._form
        nulls = {} if form.nulls is None else {"null_values": list(form.nulls)}
        format = form.values.time_format
        parsers = [pyarrow.csv.ISO8601, *([] if format is None else [format])]
        return pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(
                block_size=len(data) + 1,
                column_names=names,
                use_threads=False,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=form.quote or False,
                newlines_in_values=bool(form.quote),
                invalid_row_handler=take,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                # In a file without a definition a text in quotes is no null, even if it is empty.
                quoted_strings_can_be_null=types is None or form.declared is not None,
                decimal_point=form.values.decimal_point,
                timestamp_parsers=parsers,
                **nulls,
            ),
        )

    def _all_parts(self, pieces: Iterator[bytes]) -> Iterator[_Part]:
        """Yield the file in parts of whole records, behind its header."""
        quote = self._form.quote
        rest, number, skipped = b"", 1, self._form.skipped_lines
        is_headed, is_last = not self._form.has_header, False
        while not is_last:
            more = next(pieces, None)
            rest, is_last = rest + (more or b""), more is None
            while skipped and (end := _first_line(rest)):
                rest, number, skipped = rest[end:], number + 1, skipped - 1
            start = len(rest) - len(rest.lstrip(b"\r\n"))
            number, rest = number + line_count(rest[:start]), rest[start:]
            if skipped or not rest:
                check_length(self._path, number, len(rest))
                continue
            count = len(self._names) or None
            if not is_headed or count is None:
                found = records(rest, self._delimiter, quote, None, is_last=is_last)
                if not len(found.ends):
                    check_length(self._path, number, len(rest))
                    continue
                end = int(found.ends[0])
                self._name_columns(rest[:end], number)
                count = len(self._names)
                if not is_headed:
                    number, rest = number + line_count(rest[:end]), rest[end:]
                is_headed = True
            found = records(rest, self._delimiter, quote, count, is_last=is_last)
            if len(rest) - found.rest > LINE_BYTES_MAX:
                # A quote has no end in sight: it is judged without what follows.
                whole = rest[: rest.rfind(b"\n") + 1]
                check_length(self._path, number, len(rest) - len(whole))
                found = records(whole, self._delimiter, quote, count, is_last=True)
            if found.rest:
                yield _Part(rest[: found.rest], found.ends, found.bad, number)
                number, rest = number + line_count(rest[: found.rest]), rest[found.rest :]

    def _name_columns(self, record: bytes, number: int) -> None:
        """Take the names in the first record; without a header, number its values."""
        text = record.strip(b"\r\n")
        problem = not_utf8(text)
        if text.count(self._delimiter.encode()) >= COLUMNS_MAX:
            problem = f"it has more than {COLUMNS_MAX} columns"
        if self._form.delimiter is None and b"," not in text:
            other = next((sign for sign in _DELIMITERS if sign in text), None)
            if other is not None:
                sign = other.decode().replace("\t", "\\t")
                problem = (
                    f"it has no comma, and '{sign}'; say --delimiter '{sign}', or ',' if it is"
                )
        if problem is not None:
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE", f"{self._path}, line {number}: {problem}"
            )
        options = pyarrow.csv.ParseOptions(
            delimiter=self._delimiter,
            quote_char=self._form.quote or False,
            newlines_in_values=bool(self._form.quote),
        )
        found = pyarrow.csv.read_csv(io.BytesIO(text + b"\n"), parse_options=options).column_names
        is_named = self._form.has_header
        self._names = found if is_named else [f"f{place}" for place in range(len(found))]


def _without_empty(texts: pa.Array) -> pa.Array:
    """Return texts, with null in place of empty ones."""
    if pc.min(pc.binary_length(texts)).as_py() != 0:
        return texts
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _first_line(text: bytes) -> int:
    """Return where the first line ends; 0 if it does not."""
    return text.find(b"\n") + 1 or text.find(b"\r", 0, len(text) - 1) + 1
