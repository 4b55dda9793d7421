"""Options that say how files of rows are written, for every verb that reads some."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import typer

from projseg.catalog.external.readings import TextForm
from projseg.cli.shared_arguments import OptionGroup
from projseg.errors import InvalidInputError
from projseg.evaluation.typed_columns import ValueForm

Format = Literal["parquet", "csv", "tsv", "json"]
TimeUnit = Literal["s", "ms", "us", "ns"]
Files = Annotated[
    list[str],
    typer.Argument(
        help="Parquet, CSV, JSON lines or arrays, and folders of them; text also as .gz, .bz2 or "
        ".zst; - is standard input."
    ),
]
_ASCII_MAX: Final = 127


class FileForm(NamedTuple):
    """What files hold, as the options of a verb say it.

    Without a kind, their endings tell the format; types are `COLUMN=TYPE`.
    """

    kind: Format | None
    types: list[str]
    texts: TextForm


def _form(
    *,
    types: list[str] | None,
    format: Format | None,
    delimiter: str | None,
    header: bool,
    null: list[str] | None,
    quote: str,
    encoding: str | None,
    time_unit: TimeUnit | None,
    time_format: str | None,
    decimal_point: str,
    cut_times: bool,
    exclude: list[str] | None,
    rename: list[str] | None,
) -> FileForm:
    texts = TextForm(
        delimiter=None if delimiter is None else _one_character("--delimiter", delimiter),
        quote=_one_character("--quote", quote) if quote else "",
        has_header=header,
        nulls=tuple(null) if null else None,
        encoding=_known_encoding(encoding),
        renames=_renames(rename or ()),
        texts=frozenset(
            text[: -len("=string")] for text in types or () if text.endswith("=string")
        ),
        excluded=frozenset(exclude or ()),
        values=ValueForm(
            time_unit=time_unit,
            time_format=time_format,
            decimal_point=_one_character("--decimal-point", decimal_point),
            cuts_times=cut_times,
        ),
    )
    return FileForm(format, types or [], texts)


_OPTIONS: Final[dict[str, Any]] = {
    "types": Annotated[
        list[str] | None,
        typer.Option("--type", help="COLUMN=TYPE, a type of Spark SQL; default: as found."),
    ],
    "format": Annotated[Format | None, "What the files hold; default: their endings."],
    "delimiter": Annotated[str | None, "Between the values of a line of CSV; default: ,."],
    "header": Annotated[
        bool, typer.Option("--header/--no-header", help="Whether CSV begins with column names.")
    ],
    "null": Annotated[
        list[str] | None, "A text of CSV that means null; default: empty, NULL, N/A ..."
    ],
    "quote": Annotated[str, "Around values of CSV."],
    "encoding": Annotated[
        str | None, "Of text, as Python calls it, such as latin-1; default: UTF-8."
    ],
    "time_unit": Annotated[
        TimeUnit | None, "Of numbers that are times since 1970; default: s, as SQL's CAST."
    ],
    "time_format": Annotated[
        str | None, "Of times and dates that are texts, such as %d.%m.%Y; default: ISO 8601."
    ],
    "decimal_point": Annotated[str, "Of numbers in CSV."],
    "cut_times": Annotated[bool, "Cut times that are finer than microseconds."],
    "exclude": Annotated[list[str] | None, "A column of the files that is left out."],
    "rename": Annotated[
        list[str] | None, "OLD=NEW, a column of the files and its name in the table."
    ],
}
_DEFAULTS: Final = {"header": True, "quote": '"', "decimal_point": "."}
GivenForm = Annotated[FileForm, OptionGroup(_OPTIONS, _form, _DEFAULTS)]
"""How the files are written."""


def _one_character(option: str, text: str) -> str:
    """Return a separator; a tab may be written as in C."""
    found = "\t" if text == "\\t" else text
    if len(found) != 1 or ord(found) > _ASCII_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"{option} is {text!r}; give one character of ASCII"
        )
    return found


def _known_encoding(name: str | None) -> str | None:
    try:
        return None if name is None else codecs.lookup(name).name
    except LookupError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"--encoding '{name}' is none that Python knows; give utf-8, latin-1, cp1252 or utf-16",
        ) from error


def _renames(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"--rename '{text}' is not of the form OLD=NEW"
            )
        found[old] = new
    return found
