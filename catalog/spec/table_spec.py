"""`TableSpec`: what a user writes of a table or of files from outside, as JSON.

A spec has one form: fields in the order of these classes, and only those that were given. So texts
compare, and what is read is what was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from projseg.errors import InvalidInputError, did_you_mean, is_storable
from projseg.segment_format.format_limits import name_key

SPEC_BYTES_MAX: Final = 4 << 20

_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*?)`(?: - at `(.*)`)?$")
_AT: Final = re.compile(r"(.*) - at `(.*)`$", re.DOTALL)

Text: TypeAlias = str | UnsetType
Texts: TypeAlias = dict[str, str] | UnsetType


class _Fields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Fields of a spec; what was not given is unset."""


# A client may keep a million, none of which is in a cycle.
class ColumnSpec(_Fields, frozen=True, kw_only=True, gc=False):
    """A declared column.

    Parameters
    ----------
    name : str
        Unique without regard to case.
    sql_type : str or unset
        A type of Spark SQL; unset: the stored one, or `string` while nothing is stored.
    comment : str or unset
        For people.
    properties : dict of str to str, or unset
        The user's own.
    """

    name: str
    sql_type: Text = UNSET
    comment: Text = UNSET
    properties: Texts = UNSET


class ClusterKey(_Fields, frozen=True, kw_only=True):
    """A column that rows of new segments are sorted by, ascending."""

    column: str
    desc: bool | UnsetType = UNSET


class LayoutSpec(_Fields, frozen=True, kw_only=True):
    """The properties of a table, as the page on catalogs describes them."""

    description: Text = UNSET
    time_column: Text = UNSET
    segment_granularity: Text = UNSET
    target_segment_rows: int | UnsetType = UNSET
    cluster_keys: tuple[ClusterKey, ...] | UnsetType = UNSET
    hidden_columns: tuple[str, ...] | UnsetType = UNSET
    projections: tuple[dict[str, Any], ...] | UnsetType = UNSET
    retention: Text = UNSET
    sealed: bool | UnsetType = UNSET
    table_properties: Texts = UNSET


class _Formatted(_Fields, frozen=True, kw_only=True):
    """What the formats of files have in common."""

    format: Literal["csv", "tsv", "json", "parquet"] | UnsetType = UNSET
    on_error: Literal["fail", "null"] | UnsetType = UNSET
    delimiter: Text = UNSET
    list_delimiter: Text = UNSET
    skip_rows: int | UnsetType = UNSET
    header: bool | UnsetType = UNSET
    null_value: Text = UNSET
    keep_nulls: bool | UnsetType = UNSET
    description: Text = UNSET


class InlineSpec(_Formatted, frozen=True, kw_only=True):
    """Rows that stand in the definition itself."""

    data: str | tuple[str, ...] | UnsetType = UNSET


class FilesSpec(_Formatted, frozen=True, kw_only=True):
    """Files below a folder: by name or by pattern."""

    base_dir: Text = UNSET
    files: tuple[str, ...] | UnsetType = UNSET
    file_pattern: Text = UNSET


class HttpSpec(_Formatted, frozen=True, kw_only=True):
    """Files behind addresses."""

    uris: tuple[str, ...] | UnsetType = UNSET
    uri_template: Text = UNSET
    user_name: Text = UNSET
    password_env_var: Text = UNSET
    headers: Texts = UNSET


class SparkSpec(_Fields, frozen=True, kw_only=True):
    """A source that Spark reads."""

    format: Text = UNSET
    options: Texts = UNSET
    description: Text = UNSET


Properties: TypeAlias = LayoutSpec | InlineSpec | FilesSpec | HttpSpec | SparkSpec
SPECS: Final[dict[str, type[Properties]]] = {
    "table": LayoutSpec,
    "inline": InlineSpec,
    "files": FilesSpec,
    "http": HttpSpec,
    "spark": SparkSpec,
}
"""The fields of each type of definition."""


class _Written(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    type: str = "table"
    properties: msgspec.Raw = msgspec.Raw(b"{}")
    columns: tuple[ColumnSpec, ...] = ()


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A definition as its user wrote it.

    Parameters
    ----------
    type : str
        `table`, or an external one: `inline`, `files`, `http`, `spark`.
    properties : LayoutSpec, InlineSpec, FilesSpec, HttpSpec or SparkSpec
        By the type.
    columns : tuple of ColumnSpec
        The declared columns, in order.
    """

    type: str = "table"
    properties: Properties = msgspec.field(default_factory=LayoutSpec)
    columns: tuple[ColumnSpec, ...] = ()

    FORM: ClassVar = "a spec is a mapping, JSON text or a TableSpec"

    @classmethod
    def of(cls, given: SpecLike) -> TableSpec:
        """Return a spec from any of its forms, its fields checked but not its rules."""
        if isinstance(given, TableSpec):
            return given
        payload = spec_bytes(given)
        try:
            written = msgspec.json.decode(payload, type=_Written)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _bad_fields(error, "$", _FIELDS) from error
        if written.type not in SPECS:
            raise bad_spec(
                "$.type",
                f"'{written.type[:80]}' is none of {', '.join(SPECS)}"
                f"{did_you_mean(written.type, SPECS)}",
            )
        kind = SPECS[written.type]
        try:
            properties = msgspec.json.decode(written.properties, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _bad_fields(error, "$.properties", kind.__struct_encode_fields__) from error
        return cls(type=written.type, properties=properties, columns=written.columns)

    @property
    def layout(self) -> LayoutSpec:
        """The properties of a table; none are given of what is not one."""
        return self.properties if isinstance(self.properties, LayoutSpec) else LayoutSpec()

    @property
    def hidden(self) -> frozenset[str]:
        """The names of hidden columns, without case."""
        return frozenset(name_key(name) for name in self.layout.hidden_columns or ())

    def to_json(self) -> str:
        """Return the spec as JSON text in its one form."""
        return msgspec.json.encode(self).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON's values."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found


SpecLike: TypeAlias = TableSpec | Mapping[str, Any] | str
_FIELDS: Final = ("type", "properties", "columns")


def spec_bytes(given: Mapping[str, Any] | str) -> bytes:
    """Return a spec, or a part of one, as JSON bytes."""
    if not isinstance(given, str | Mapping):
        raise bad_spec("$", f"{TableSpec.FORM}, not a {type(given).__name__}")
    if isinstance(given, str) and not is_storable(given):
        raise bad_spec("$", "it holds half of a surrogate pair, which UTF-8 cannot write")
    try:
        payload = given.encode() if isinstance(given, str) else msgspec.json.encode(given)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise bad_spec("$", f"it cannot be written as JSON: {error}") from error
    if len(payload) > SPEC_BYTES_MAX:
        raise bad_spec("$", f"it has {len(payload)} bytes; at most {SPEC_BYTES_MAX} are kept")
    return payload


def bad_spec(path: str, problem: str) -> InvalidInputError:
    """Return the error of a spec: where it is wrong, and how."""
    return InvalidInputError("PROJSEG_BAD_SPEC", f"{path}: {problem}")


def _bad_fields(error: Exception, root: str, fields: tuple[str, ...]) -> InvalidInputError:
    """Return the error of what msgspec refused, with its path from the root."""
    text = str(error)
    unknown = _UNKNOWN_FIELD.match(text)
    if unknown is not None:
        name, inner = unknown[1], (unknown[2] or "$").removeprefix("$")
        known = {
            "": fields,
            ".columns[...]": ColumnSpec.__struct_encode_fields__,
            ".clusterKeys[...]": ClusterKey.__struct_encode_fields__,
        }.get(re.sub(r"\[\d+\]", "[...]", inner), ())
        return bad_spec(
            f"{root}{inner}.{name}", f"there is no such field{did_you_mean(name, known)}"
        )
    found = _AT.match(text)
    if found is None:
        return bad_spec(root, text[:500])
    path = found[2].removeprefix("$")
    # msgspec says `[...]` for every item of a list.
    return bad_spec(f"{root}{path}", found[1][:500])
