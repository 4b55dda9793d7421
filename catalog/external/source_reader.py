"""Rows of external definitions: files, web servers and inline data, in their declared types.

Every door reads by this one reader, so quotes, nulls and dates have one meaning. Of definitions of
type `spark` it names the files, which Spark reads with its own reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Expression
from projseg.catalog.external.allowed_places import AllowedPlaces, fetched
from projseg.catalog.external.input_columns import BadLines, bad_file
from projseg.catalog.external.input_files import kind_of, open_parquet
from projseg.catalog.external.readings import TextForm
from projseg.catalog.external.text_files import TextFile
from projseg.catalog.spec.spec_rules import column_types
from projseg.catalog.spec.table_spec import FilesSpec, HttpSpec, InlineSpec, SparkSpec, TableSpec
from projseg.errors import EvaluationError, InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.evaluation.typed_columns import ValueForm
from projseg.segment_format.cast_arrays import cast_array
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import is_nested, normal_type, type_name

_TABS: Final = {"tsv": "\t"}
_ENDINGS: Final = (".gz", ".bz2", ".zst")
_INLINE: Final = "inline data"
_ADVICE: Final = "no row of it is left out; mend the file"

_Formatted = InlineSpec | FilesSpec | HttpSpec

FORMATS: Final = ("csv", "json", "orc", "parquet", "text")
"""Those that read the files of their path, and nothing else that an option may name."""
_PATTERNS: Final = frozenset("*?[]{}\\")


def read_source(
    spec: TableSpec, places: AllowedPlaces, timezone: str = "UTC"
) -> pa.RecordBatchReader:
    """Return the rows of a complete external definition, read batch by batch.

    `timezone` is that of times without a zone.
    """
    properties = spec.properties
    if not isinstance(properties, _Formatted):
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FEATURE",
            f"a definition of type {spec.type} is kept, and this release does not read it",
        )
    source = _Source(spec, properties, places, timezone)
    inputs = ((one, source.opened(one)) for one in source.inputs())
    first = next(inputs, None)
    while first is not None and _is_empty(first[1]) and not spec.columns:
        first = next(inputs, None)
    if first is None:
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE", "no file with rows is named, and no columns; name one of them"
        )
    schema = source.schema(first[1])

    def batches() -> Iterator[pa.RecordBatch]:
        for one, opened in chain([first], inputs):
            yield from source.rows(one, opened, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def parts_of(spec: TableSpec, places: AllowedPlaces) -> list[TableSpec]:
    """Return a complete definition for each of its files, so that tasks can share them."""
    found = spec.properties
    if isinstance(found, FilesSpec):
        base, names = str(found.base_dir), found.files or None
        root = os.path.realpath(base)
        paths = places.files(base, names, found.file_pattern or None)
        each: list[FilesSpec | HttpSpec] = [
            replace(found, files=(os.path.relpath(path, root),), file_pattern=UNSET)
            for path in paths
        ]
    elif isinstance(found, HttpSpec):
        for uri in found.uris or ():
            places.address(uri)
        each = [replace(found, uris=(uri,)) for uri in found.uris or ()]
    else:
        return [spec]
    return [replace(spec, properties=one) for one in each]


def read_part(
    text: str, roots: Sequence[str], hosts: Sequence[str], timezone: str
) -> pa.RecordBatchReader:
    """Return the rows of one of `parts_of`, as JSON text, with what the reader allows."""
    return read_source(TableSpec.of(text), AllowedPlaces(tuple(roots), tuple(hosts)), timezone)


def spark_source(spec: TableSpec, places: AllowedPlaces) -> dict[str, Any]:
    """Return the format, options and files of a definition, as Spark's reader takes them."""
    properties = spec.properties
    assert isinstance(properties, SparkSpec), "the caller knows its type"
    form = str(properties.format or "").lower()
    if form not in FORMATS:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FEATURE",
            f"format '{form[:80]}' of a definition of type spark is none of {', '.join(FORMATS)}",
        )
    options = {key.lower(): text for key, text in dict(properties.options or {}).items()}
    path = options.pop("path", "")
    if not path or {"paths", "basepath"} & options.keys():
        raise InvalidInputError(
            "PROJSEG_MISSING_PARAMETER",
            "a definition of type spark needs its files as option path, and no paths or basePath",
        )
    base, pattern = _parted(path)
    found = [path for path in places.files(base, None, pattern) if _is_shown(path, base)]
    if os.path.isdir(path):
        options["basepath"] = os.path.realpath(path)  # its folders may be values of columns
    return {"format": form, "options": options, "paths": found}


def _parted(path: str) -> tuple[str, str]:
    """Return the folder above the first pattern of a path, and the pattern below it."""
    if os.path.isdir(path):
        return path, "**"
    parts = PurePath(path).parts
    plain = next((n for n, part in enumerate(parts) if _PATTERNS & set(part)), len(parts) - 1)
    return str(PurePath(*parts[:plain])), str(PurePath(*parts[plain:]))


def _is_shown(path: str, base: str) -> bool:
    """Whether Spark reads a file, by its name and those of its folders below a base."""
    parts = PurePath(os.path.relpath(path, os.path.realpath(base))).parts
    if _PATTERNS & set(path):
        raise InvalidInputError(
            "PROJSEG_BAD_INPUT_FILE", f"{path} holds characters that Spark takes for a pattern"
        )
    return not any(part.startswith(("_", ".")) for part in parts)


class _Input(NamedTuple):
    """A file: its name in messages, and where its bytes are."""

    name: str
    path: str
    content: bytes | None = None


class _Source:
    """One reading of a definition."""

    def __init__(
        self, spec: TableSpec, properties: _Formatted, places: AllowedPlaces, timezone: str
    ) -> None:
        self._spec, self._properties = spec, properties
        self._places, self._timezone = places, timezone
        types = column_types(spec)
        names = [column.name for column in spec.columns]
        self._declared = pa.schema([(n, types.get(name_key(n), pa.string())) for n in names])
        self._casts: dict[tuple[pa.DataType, pa.DataType], Expression] = {}
        form = str(properties.format)
        self._is_null_where_bad = properties.on_error == "null"
        self._form = TextForm(
            delimiter=properties.delimiter or _TABS.get(form, ","),
            has_header=properties.header is True,
            nulls=(properties.null_value or "",),
            columns=tuple(names) or None,
            skipped_lines=properties.skip_rows or 0,
            declared=self._declared if names else None,
            values=ValueForm(
                timezone=timezone,
                is_sparks=True,
                list_delimiter=properties.list_delimiter or ValueForm.list_delimiter,
            ),
            leaves_others=True,
        )
        self._kind = {"tsv": "csv"}.get(form, form)

    def inputs(self) -> Iterator[_Input]:
        """Yield the files, one at a time; one of a web server is there until the next."""
        found = self._properties
        if isinstance(found, InlineSpec):
            data = found.data if isinstance(found.data, str) else "\n".join(found.data or ())
            yield _Input(_INLINE, _INLINE, data.encode())
        elif isinstance(found, FilesSpec):
            names = None if found.files is UNSET else found.files
            paths = self._places.files(str(found.base_dir), names, found.file_pattern or None)
            yield from (_Input(path, path) for path in paths)
        else:
            addresses = [(uri, self._places.address(uri)) for uri in found.uris or ()]
            for uri, address in addresses:
                with fetched(uri, address, found.headers or {}, _user_of(found)) as path:
                    yield _Input(uri, path)

    def opened(self, one: _Input) -> TextFile | pa.RecordBatchReader:
        """Open a file."""
        if self._kind == "parquet":
            try:
                return open_parquet(one.path, _ignore)
            except InvalidInputError as error:
                message = error.message.replace(one.path, one.name)
                raise InvalidInputError(error.code, message) from error
        name = one.name.partition("?")[0]
        _, compression = kind_of(name if name.endswith(_ENDINGS) else "x", self._kind)
        try:
            content = pa.OSFile(one.path) if one.content is None else pa.BufferReader(one.content)
        except OSError as error:
            raise bad_file(one.name, error) from error
        return TextFile(one.name, self._kind, compression, self._form, _ignore, content)

    def schema(self, first: TextFile | pa.RecordBatchReader) -> pa.Schema:
        """Return the declared columns, else those of the first file."""
        if len(self._declared):
            return self._declared
        fields = []
        keeps_nulls = self._properties.keep_nulls is True
        for field in first.schema:
            if not pa.types.is_null(field.type):
                fields.append((field.name, normal_type(field.type)))
            elif keeps_nulls or self._kind != "json":
                fields.append((field.name, pa.string()))
        return pa.schema(fields)

    def rows(
        self, one: _Input, opened: TextFile | pa.RecordBatchReader, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield a file's rows in the types of the schema."""
        folded = {name.lower(): name for name in opened.schema.names}
        own = {field.name: folded.get(field.name.lower()) for field in schema}
        if len(folded) and not any(own.values()) and self._kind != "json":
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE",
                f"{one.name} has none of the columns {', '.join(own)[:200]}, but "
                f"{', '.join(map(repr, opened.schema.names[:12]))}; mend its names or the columns",
            )
        if isinstance(opened, TextFile):
            bad = BadLines(advice=_ADVICE, keeps_codes=True)
            yield from opened.rows(schema, bad, nulls_bad=self._is_null_where_bad)
            return
        number = 1
        for batch in opened:
            columns = []
            for field in schema:
                found = own[field.name]
                if found is None:
                    columns.append(pa.nulls(batch.num_rows, field.type))
                else:
                    columns.append(self._column(batch.column(found), field, one, number))
            number += batch.num_rows
            yield pa.record_batch(columns, schema=schema)

    def _column(self, array: pa.Array, field: pa.Field, one: _Input, number: int) -> pa.Array:
        """Return values in a column's type; `number` is that of the first row in the file."""
        found = normal_type(array.type)
        array = cast_array(array, found)
        try:
            return self._cast(array, found, field.type)
        except EvaluationError as error:
            row = self._first_bad(array, found, field.type)
            raise EvaluationError(
                error.code,
                f"{one.name}, row {number + row}, column '{field.name}': {error.message}",
            ) from error
        except ProjsegError as error:
            raise type(error)(
                error.code, f"{one.name}, column '{field.name}': {error.message}"
            ) from error

    def _first_bad(self, array: pa.Array, found: pa.DataType, wanted: pa.DataType) -> int:
        start, end = 0, len(array)
        while end - start > 1:
            middle = (start + end) // 2
            try:
                self._cast(array.slice(start, middle - start), found, wanted)
                start = middle
            except EvaluationError:
                end = middle
        return start

    def _cast(self, array: pa.Array, found: pa.DataType, wanted: pa.DataType) -> pa.Array:
        if found == wanted:
            return array
        if pa.types.is_null(found):
            return pa.nulls(len(array), wanted)
        if is_nested(found) or is_nested(wanted):
            try:
                return array.cast(wanted)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInputError(
                    "PROJSEG_SCHEMA_MISMATCH",
                    f"a {type_name(found)} does not become {type_name(wanted)}",
                ) from error
        key = (found, wanted)
        if key not in self._casts:
            verb = "TRY_CAST" if self._is_null_where_bad else "CAST"
            text = f"{verb}(x AS {type_name(wanted)})"
            self._casts[key] = bind(text, pa.schema([("x", found)]), timezone=self._timezone)
        return evaluate(self._casts[key], {"x": array}, len(array))


def _user_of(found: HttpSpec) -> tuple[str, str] | None:
    if found.user_name is UNSET:
        return None
    variable = found.password_env_var or ""
    if variable and variable not in os.environ:
        raise InvalidInputError(
            "PROJSEG_MISSING_PARAMETER",
            f"the environment has no variable '{variable}', which holds the password",
        )
    return found.user_name, os.environ.get(variable, "") if variable else ""


def _is_empty(opened: TextFile | pa.RecordBatchReader) -> bool:
    return isinstance(opened, TextFile) and opened.is_empty


def _ignore(_: int) -> None:
    pass
