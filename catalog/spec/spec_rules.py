"""The rules of a spec, of tables and files from outside, each with the JSON path of its breach.

Nothing stored is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import UNSET

from projseg.algebra.expressions.sql_words import parse_type
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.catalog.spec.table_spec import (
    SPEC_BYTES_MAX,
    SPECS,
    FilesSpec,
    HttpSpec,
    InlineSpec,
    LayoutSpec,
    SparkSpec,
    TableSpec,
    Text,
    bad_spec,
)
from projseg.declarations import declaration_of
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.format_limits import (
    COLUMNS_MAX,
    PROJECTIONS_MAX,
    check_new_name,
    name_key,
    name_problem,
)
from projseg.segment_format.logical_types import is_nested, normal_type, type_name
from projseg.table_layer.metadata.known_properties import check_set, declare_scope
from projseg.table_layer.metadata.table_properties import check_field_names
from projseg.table_layer.metadata.text_bounds import comment_problem

TARGET_ROWS_MAX: Final = 2**32 - 1
OWN_PROPERTIES: Final = ("catalog.",)
"""What keys of a table's properties begin with that only projseg sets."""

INLINE_BYTES_MAX: Final = 1 << 20
# What is parsed takes a millisecond for ten characters, in a server beside others' requests.
TYPES_CHARACTERS_MAX: Final = 256 << 10
PROJECTIONS_BYTES_MAX: Final = 64 << 10
FILE_PATTERN_BYTES_MAX: Final = 4_096
FILE_PATTERN_PARTS_MAX: Final = 64
"""Folders of a pattern: each `**` may stand for many, and each is looked for in each."""

_SECRET: Final = re.compile(r"password|secret|token|credential|access_?key|authorization")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_HEADER_VALUE: Final = re.compile(r"[\t -~\xa0-\xff]{0,8000}")
_OWN_HEADERS: Final = ("host", "content-length", "transfer-encoding", "connection", "upgrade")
"""Headers that are of the connection, and not of what is asked for."""
_OF_TEXTS: Final = ("delimiter", "listDelimiter", "skipRows", "header", "nullValue")


def checked(spec: TableSpec) -> TableSpec:
    """Return a spec that keeps all rules."""
    size = len(spec.to_json().encode())
    if size > SPEC_BYTES_MAX:
        raise bad_spec("$", f"it has {size} bytes; at most {SPEC_BYTES_MAX} are kept")
    for path, problem in _problems(spec):
        raise bad_spec(path, problem)
    return spec


def _problems(spec: TableSpec) -> Iterator[tuple[str, str]]:
    properties = spec.properties
    if type(properties) is not SPECS[spec.type]:
        yield (
            "$.properties",
            f"a definition of type {spec.type} has no layout, and hides no columns",
        )
        return
    yield from _of_columns(spec)
    description = properties.description
    yield from _of_comment("$.properties.description", description)
    if isinstance(properties, LayoutSpec):
        yield from _of_layout(spec, properties)
    else:
        yield from _external_problems(spec, properties)


def _of_columns(spec: TableSpec) -> Iterator[tuple[str, str]]:
    if len(spec.columns) > COLUMNS_MAX:
        yield "$.columns", f"{len(spec.columns)} columns; a table has at most {COLUMNS_MAX}"
    types = {column.sql_type for column in spec.columns if column.sql_type is not UNSET}
    if (size := sum(map(len, types))) > TYPES_CHARACTERS_MAX:
        yield (
            "$.columns",
            f"its types have {size} characters; at most {TYPES_CHARACTERS_MAX} are read",
        )
        return
    names = [column.name for column in spec.columns]
    yield from _of_names(names, (f"$.columns[{place}].name" for place in range(len(names))))
    for place, column in enumerate(spec.columns):
        path = f"$.columns[{place}]"
        if column.sql_type is not UNSET:
            try:
                check_field_names(column.name, _declared_type(column.sql_type))
            except ProjsegError as error:
                yield f"{path}.sqlType", error.message
        if column.properties is not UNSET:
            yield from _of_map(f"{path}.properties", column.properties)
            yield from _of_comment(
                f"{path}.properties", msgspec.json.encode(column.properties).decode()
            )
        yield from _of_comment(f"{path}.comment", column.comment)


def _of_comment(path: str, comment: Text) -> Iterator[tuple[str, str]]:
    if comment is not UNSET and (problem := comment_problem(comment)) is not None:
        yield path, problem


def _of_names(names: Iterable[str], paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for name, path in zip(names, paths, strict=False):
        if (problem := name_problem(name)) is not None:
            yield path, f"the name {name[:80]!r} {problem}"
        other = seen.get(name_key(name))
        if other is not None:
            yield path, f"'{name}' stands twice (as '{other}'); names must differ in more than case"
        seen[name_key(name)] = name


def _of_layout(spec: TableSpec, layout: LayoutSpec) -> Iterator[tuple[str, str]]:
    root = "$.properties"
    types = column_types(spec)
    time = layout.time_column
    if time is not UNSET:
        known = types.get(name_key(time))
        if known is not None and not (pa.types.is_timestamp(known) or pa.types.is_date(known)):
            yield (
                f"{root}.timeColumn",
                f"'{time}' is {type_name(known)}; it must be timestamp, timestamp_ntz or date",
            )
        if name_key(time) in spec.hidden:
            yield f"{root}.hiddenColumns", f"'{time}' is the time column, which stays visible"
    yield from _of_times(layout, root)
    yield from _of_order(layout, types, root)
    hidden = layout.hidden_columns or ()
    yield from _of_names(hidden, (f"{root}.hiddenColumns[{place}]" for place in range(len(hidden))))
    yield from _of_projections(spec, layout, types, f"{root}.projections")
    properties = layout.table_properties
    if properties is not UNSET:
        yield from _of_map(f"{root}.tableProperties", properties)
        try:
            check_set(properties)
        except ProjsegError as error:
            yield f"{root}.tableProperties", error.message
        own = (key for key in properties if key.startswith(OWN_PROPERTIES))
        yield from ((f"{root}.tableProperties.{key}", "only projseg sets it") for key in own)


def _of_order(
    layout: LayoutSpec, types: Mapping[str, pa.DataType], root: str
) -> Iterator[tuple[str, str]]:
    rows = layout.target_segment_rows
    if rows is not UNSET and not 1 <= rows <= TARGET_ROWS_MAX:
        yield f"{root}.targetSegmentRows", f"{rows} is not between 1 and {TARGET_ROWS_MAX}"
    keys = layout.cluster_keys or ()
    yield from _of_names(
        [key.column for key in keys],
        (f"{root}.clusterKeys[{place}].column" for place in range(len(keys))),
    )
    for place, key in enumerate(keys):
        path = f"{root}.clusterKeys[{place}]"
        if key.desc is True:
            yield f"{path}.desc", "rows of a segment are sorted ascending; leave it out"
        known = types.get(name_key(key.column))
        if known is not None and is_nested(known):
            yield (
                f"{path}.column",
                f"'{key.column}' is an array, struct or map, which has no order",
            )


def _of_times(layout: LayoutSpec, root: str) -> Iterator[tuple[str, str]]:
    has_time = layout.time_column is not UNSET
    if layout.segment_granularity is not UNSET:
        try:
            granularity = Granularity.parse(layout.segment_granularity)
        except InvalidInputError as error:
            yield f"{root}.segmentGranularity", error.message
            return
        if not granularity.is_all and not has_time:
            yield f"{root}.segmentGranularity", "it needs a timeColumn; name one, or say ALL"
    if layout.retention is not UNSET:
        try:
            declare_scope(retain=layout.retention)
        except InvalidInputError as error:
            yield f"{root}.retention", error.message
        if not has_time:
            yield f"{root}.retention", "it needs a timeColumn; name one"


def _of_projections(
    spec: TableSpec, layout: LayoutSpec, types: Mapping[str, pa.DataType], root: str
) -> Iterator[tuple[str, str]]:
    written = len(msgspec.json.encode(layout.projections or ()))
    if len(layout.projections or ()) > PROJECTIONS_MAX or written > PROJECTIONS_BYTES_MAX:
        yield root, f"at most {PROJECTIONS_MAX} of {PROJECTIONS_BYTES_MAX} bytes together are read"
        return
    names: dict[str, int] = {}
    is_typed = len(types) == len(spec.columns)
    schema = pa.schema([(c.name, types[name_key(c.name)]) for c in spec.columns if is_typed])
    for place, declaration in enumerate(layout.projections or ()):
        path, name = f"{root}[{place}]", name_key(str(declaration.get("name", "")))
        if name and name in names:
            yield f"{path}.name", f"'{name}' is the name of projection {names[name]} too"
        names[name] = place
        try:
            check_new_name("projection", declaration.get("name", "p"))
            parse_projection(
                declaration_of(declaration), schema, time_column=_time_of(layout, types)
            )
        except ProjsegError as error:
            # It may read columns that are stored and not declared, whose types are not known here.
            is_known = is_typed and error.code != "PROJSEG_UNKNOWN_COLUMN"
            if is_known and "no time column" not in error.message:
                yield path, f"{error.code}: {error.message}"


def _time_of(layout: LayoutSpec, types: Mapping[str, pa.DataType]) -> str | None:
    time = layout.time_column
    return time if time is not UNSET and name_key(time) in types else None


def _of_map(path: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a map that look like secrets, and say so."""
    for key in values:
        if _SECRET.search(key.casefold()):
            yield (
                f"{path}.{key}",
                "looks like a secret, and specs are listed and exported; keep it elsewhere",
            )


def _external_problems(
    spec: TableSpec, properties: InlineSpec | FilesSpec | HttpSpec | SparkSpec
) -> Iterator[tuple[str, str]]:
    """Yield the path of each thing that is wrong with a definition of files, and the problem."""
    root = "$.properties"
    if isinstance(properties, SparkSpec):
        if properties.options is not UNSET:
            yield from _of_map(f"{root}.options", properties.options)
        return
    yield from _of_format(spec, properties, root)
    if isinstance(properties, FilesSpec):
        yield from _of_files(properties, root)
    elif isinstance(properties, HttpSpec):
        yield from _of_http(properties, root)
    elif properties.data is UNSET:
        yield f"{root}.data", "it is missing; give the rows as text or a list of lines"
    else:
        data = (properties.data,) if isinstance(properties.data, str) else properties.data
        if sum(len(line.encode()) for line in data) > INLINE_BYTES_MAX:
            yield f"{root}.data", f"it is longer than {INLINE_BYTES_MAX} bytes"


def _of_format(
    spec: TableSpec, properties: InlineSpec | FilesSpec | HttpSpec, root: str
) -> Iterator[tuple[str, str]]:
    given = _given_properties(properties)
    is_text = properties.format in ("csv", "tsv")
    if properties.format is not UNSET and not is_text:
        for key in _OF_TEXTS:
            if key in given:
                yield f"{root}.{key}", f"format {properties.format} has no such property"
    if "keepNulls" in given and properties.format != "json":
        yield f"{root}.keepNulls", "only format json has it"
    if properties.skip_rows is not UNSET and properties.skip_rows < 0:
        yield f"{root}.skipRows", f"{properties.skip_rows} is below 0"
    if is_text and properties.header is not True and not spec.columns:
        yield "$.columns", f"format {properties.format} without header needs columns"


def _of_files(properties: FilesSpec, root: str) -> Iterator[tuple[str, str]]:
    if properties.base_dir is UNSET:
        yield f"{root}.baseDir", "it is missing; name the folder of the files"
    if properties.files is not UNSET and properties.file_pattern is not UNSET:
        yield f"{root}.filePattern", "files are given too; give one of the two"
    pattern = properties.file_pattern or ""
    if (problem := pattern_problem(pattern)) is not None:
        yield f"{root}.filePattern", problem
    relative = [(f"{root}.filePattern", pattern)]
    for place, name in enumerate(properties.files or ()):
        relative.append((f"{root}.files[{place}]", name))
    for path, name in relative:
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or name.startswith(("/", "\\")) or ":" in name or "\0" in name:
            yield path, f"'{name[:80]}' is not relative to baseDir; name files below it"


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern of files is not looked for, or None if it may be."""
    size, parts = len(pattern.encode(errors="replace")), pattern.count("/") + 1
    if size > FILE_PATTERN_BYTES_MAX:
        return f"it has {size} bytes; a pattern has at most {FILE_PATTERN_BYTES_MAX}"
    if parts > FILE_PATTERN_PARTS_MAX:
        return f"it has {parts} parts; a pattern has at most {FILE_PATTERN_PARTS_MAX}"
    return None


def _of_http(properties: HttpSpec, root: str) -> Iterator[tuple[str, str]]:
    template = properties.uri_template
    if properties.uris is not UNSET and template is not UNSET:
        yield f"{root}.uriTemplate", "uris are given too; give one of the two"
    if template is not UNSET and template.count("{}") != 1:
        yield f"{root}.uriTemplate", "it needs one {}, which uris fill"
    written = [(f"{root}.uris[{place}]", uri) for place, uri in enumerate(properties.uris or ())]
    for path, uri in [*written, (f"{root}.uriTemplate", template or "")]:
        if "@" in uri.partition("://")[2].partition("/")[0]:
            yield path, "it holds a user's name; give userName and passwordEnvVar"
        if not uri.isprintable():
            yield path, "it has a character that no address has"
    headers = {} if properties.headers is UNSET else properties.headers
    yield from _of_map(f"{root}.headers", headers)
    for name, text in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            yield f"{root}.headers", f"{name[:80]!r} is no name of a header that may be given"
        if not _HEADER_VALUE.fullmatch(text):
            yield f"{root}.headers.{name[:80]}", "it has a character that no header has"


def _given_properties(properties: Any) -> set[str]:
    names = zip(properties.__struct_fields__, properties.__struct_encode_fields__, strict=True)
    return {encoded for field, encoded in names if getattr(properties, field) is not UNSET}


def column_types(spec: TableSpec) -> dict[str, pa.DataType]:
    """Return the types of the columns that declare one, by name without case."""
    found = {}
    for column in spec.columns:
        if column.sql_type is not UNSET:
            try:
                found[name_key(column.name)] = _declared_type(column.sql_type)
            except ProjsegError:
                continue
    return found


@lru_cache(4096)  # a catalog has the same few texts in thousands of definitions
def _declared_type(text: str) -> pa.DataType:
    """Return the type that a `sqlType` names."""
    return normal_type(parse_type(text))
