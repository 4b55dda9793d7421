"""Records as HTML, by the templates, and as JSON; rows of an answer as files to download."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
import msgspec
import pyarrow as pa
from markupsafe import Markup, escape
from starlette.responses import Response

from projseg.doors.exported_files import FileFormat, write_stream
from projseg.doors.plain_values import plain_value
from projseg.page.answers import plain_rows
from projseg.page.charts import charts
from projseg.page.query_view import cell_text, is_number
from projseg.page.security import shown_text, steerless_text
from projseg.page.timeline_drawing import drawing, zoom_links

HERE: Final = Path(__file__).parent
MEDIA: Final[Mapping[str, str]] = {
    "arrow": "application/vnd.apache.arrow.file",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
_NONE: Final = "\N{EN DASH}"
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


def environment(*, may_change: bool) -> jinja2.Environment:
    """Return the templates; all that they print is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": _number_text,
        "bytes": _bytes_text,
        "share": _share_text,
        "quoted": quoted,
        "path": quote,
        "cell": cell_text,
        "formed": lambda value, form: _FORMS[form](value),
        "typed": escape,  # in a hidden field, to be sent again
        "editable": lambda value: escape(steerless_text(str(value))),
        "query": lambda values: urlencode({k: v for k, v in values.items() if v}),
    }
    made.globals |= {
        "drawing": drawing,
        "zoom_links": zoom_links,
        "charts": charts,
        "is_number": is_number,
        "may_change": may_change,
    }
    return made


def _printable(value: Any) -> Any:
    """Return a value as a template prints it: no character of it steers the reader's eyes."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return shown_text(str(value))


def _number_text(value: float | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _bytes_text(value: float | None) -> str:
    if value is None:
        return _NONE
    unit = 0
    while abs(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:,.0f} {_UNITS[0]}" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def _share_text(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1%}"


def _counts_text(values: Mapping[str, Any] | None) -> str:
    return "; ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name}: {value}"
        for name, value in (values or {}).items()
    )


_FORMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "": lambda value: value,
    "code": lambda value: value,
    "time": lambda value: value,
    "number": _number_text,
    "bytes": _bytes_text,
    "share": _share_text,
    "ms": lambda value: _NONE if value is None else f"{value:,.1f}",
    "seconds": lambda value: _NONE if value is None else f"{value:,.3f}",
    "cell": lambda value: "" if value is None else cell_text(value),
    "list": lambda value: ", ".join(map(str, value or ())),
    "counts": _counts_text,
}
"""How the cells of a table's column print their values; see the macro `table`."""


def quoted(name: str) -> str:
    """Return a name as a part of an address."""
    return quote(name, safe="")


def json_response(content: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return a record as JSON."""
    encoded = msgspec.json.encode(content, enc_hook=str)
    return Response(encoded, status, dict(headers or {}), "application/json")


def download(table: str, rows: pa.Table, kind: FileFormat) -> Response:
    """Return the rows of an answer as a file."""
    sink = io.BytesIO()
    if kind == "jsonl":
        names = rows.column_names
        lines = (dict(zip(names, row, strict=True)) for row in plain_rows(rows, rows.num_rows))
        sink.write(msgspec.json.Encoder().encode_lines(lines))
    else:
        write_stream((_with_texts(rows) if kind == "csv" else rows).to_reader(), sink, kind)
    name = quoted(f"{table}.{kind}")
    headers = {
        "Content-Type": MEDIA[kind],
        "Content-Disposition": f"attachment; filename=\"answer.{kind}\"; filename*=UTF-8''{name}",
    }
    return Response(sink.getvalue(), headers=headers)


def _with_texts(rows: pa.Table) -> pa.Table:
    """Return rows with the texts of values that CSV has no form for, as the shell prints them."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_binary(field.type) or pa.types.is_nested(field.type):
            values = [plain_value(one) for one in rows[place].to_pylist(maps_as_pydicts="lossy")]
            texts = [
                one if one is None or isinstance(one, str) else json.dumps(one, ensure_ascii=False)
                for one in values
            ]
            rows = rows.set_column(place, field.name, pa.array(texts, pa.string()))
    return rows
