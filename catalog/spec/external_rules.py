"""The rules of definitions of files from outside, and of free maps of texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from projseg.catalog.spec.table_spec import FilesSpec, HttpSpec, InlineSpec, SparkSpec, TableSpec

INLINE_BYTES_MAX: Final = 1 << 20

_SECRET: Final = re.compile(r"password|secret|token|credential|access_?key|authorization")
_OF_TEXTS: Final = ("delimiter", "listDelimiter", "skipRows", "header", "nullValue")


def of_map(path: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a map that look like secrets, and say so."""
    for key in values:
        if _SECRET.search(key.casefold()):
            yield (
                f"{path}.{key}",
                "looks like a secret, and specs are listed and exported; keep it elsewhere",
            )


def external_problems(
    spec: TableSpec, properties: InlineSpec | FilesSpec | HttpSpec | SparkSpec
) -> Iterator[tuple[str, str]]:
    """Yield the path of each thing that is wrong with a definition of files, and the problem."""
    root = "$.properties"
    if isinstance(properties, SparkSpec):
        if properties.options is not UNSET:
            yield from of_map(f"{root}.options", properties.options)
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
    given = _given(properties)
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
    relative = [(f"{root}.filePattern", properties.file_pattern or "")]
    for place, name in enumerate(properties.files or ()):
        relative.append((f"{root}.files[{place}]", name))
    for path, name in relative:
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or name.startswith(("/", "\\")) or ":" in name or "\0" in name:
            yield path, f"'{name[:80]}' is not relative to baseDir; name files below it"


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
    if properties.headers is not UNSET:
        yield from of_map(f"{root}.headers", properties.headers)


def _given(properties: Any) -> set[str]:
    names = zip(properties.__struct_fields__, properties.__struct_encode_fields__, strict=True)
    return {encoded for field, encoded in names if getattr(properties, field) is not UNSET}
