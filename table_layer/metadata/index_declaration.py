"""What a table declares and lists of indexes. SPEC.md "Table", indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType

from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_problem
from projseg.segment_format.indexes.index_kinds import (
    KINDS,
    IndexDefinition,
    read_definition,
    same_hashes,
)
from projseg.segment_format.logical_types import parse_type_name
from projseg.table_layer.metadata.metadata_limits import (
    BLOOM_FILES_MAX,
    INDEX_COLUMNS_MAX,
    INDEXES_MAX,
)
from projseg.table_layer.metadata.segment_entry import BloomReference
from projseg.table_layer.storage.paths import parse_bloom_name

INDEXES: Final = "indexes"
"""The feature of tables with indexes: who does not know it would forget them."""


class DeclaredIndex(msgspec.Struct, frozen=True):
    """An index of a table, by a name that is unique without regard to case.

    `kind` is a key of `KINDS`; the properties are `build`, `interval`, `retain` and `maxBytesRatio`
    as in projections, and `fpp`.
    """

    name: str
    kind: str
    columns: tuple[IndexDefinition, ...]
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    kind: str
    columns: tuple[tuple[str, str], ...]
    properties: dict[str, str]


class StoredIndexes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The indexes as a snapshot states them, definitions by hash, and the listed Bloom files.

    An index is its name, kind, [canonical text, definition hash] of columns, properties.
    """

    declared: tuple[_Stored, ...]
    definitions: dict[str, str]
    files: tuple[BloomReference, ...] = ()


def stored_indexes(
    declared: Sequence[DeclaredIndex], files: Iterable[BloomReference]
) -> StoredIndexes | UnsetType:
    """Return the indexes as a snapshot states them; unset if no index is declared.

    Files of definitions that no index declares are left out, and so are those beyond the limit, of
    the fewest segments.
    """
    if not declared:
        return UNSET
    every = {one.definition_hash: one.text for index in declared for one in index.columns}
    known = {one.name: one for one in files if one.definition_hash in every}
    kept = sorted(known.values(), key=lambda one: -one.segment_count)[:BLOOM_FILES_MAX]
    names = {one.name for one in kept}
    return StoredIndexes(
        tuple(
            _Stored(
                index.name,
                index.kind,
                tuple((one.column, one.definition_hash) for one in index.columns),
                index.properties,
            )
            for index in declared
        ),
        dict(sorted(every.items())),
        tuple(one for one in known.values() if one.name in names),
    )


def declared_indexes(stored: StoredIndexes | UnsetType) -> tuple[DeclaredIndex, ...]:
    """Return the indexes that a snapshot declares; ValueError if it contradicts itself."""
    if stored is UNSET:
        return ()
    definitions = {digest: read_definition(text) for digest, text in stored.definitions.items()}
    wrong = [digest for digest, one in definitions.items() if one.definition_hash != digest]
    mentioned = {digest for index in stored.declared for _, digest in index.columns}
    if wrong or mentioned != definitions.keys():
        raise ValueError("it states definitions of indexes by other hashes than theirs")
    found = tuple(
        DeclaredIndex(
            one.name,
            one.kind,
            tuple(definitions[digest] for _, digest in one.columns),
            one.properties,
        )
        for one in stored.declared
    )
    texts = [tuple(text for text, _ in one.columns) for one in stored.declared]
    if texts != [tuple(column.column for column in one.columns) for one in found]:
        raise ValueError("it declares an index over another column than its definition")
    return found


def indexes_problem(stored: StoredIndexes | UnsetType) -> str | None:
    """Return why a snapshot's indexes cannot be those of a table, or None if they can."""
    if stored is UNSET:
        return None
    try:
        check_indexes(declared_indexes(stored))
    except (InvalidInputError, ValueError, msgspec.MsgspecError) as error:
        return str(error)
    names = [one.name for one in stored.files]
    if not stored.declared or len(set(names)) != len(names) or len(names) > BLOOM_FILES_MAX:
        return "it lists a Bloom file twice, too many, or indexes and none"
    for one in stored.files:
        if parse_bloom_name(one.name) is None:
            return f"it lists {one.name[:200]!r}, which is no name of a Bloom file"
        if one.definition_hash not in stored.definitions or one.footer_offset > one.byte_count:
            return f"it lists {one.name} of another definition, or with a footer beyond its end"
    return None


def check_indexes(declared: Sequence[DeclaredIndex]) -> None:
    """Refuse indexes that a table cannot declare."""
    if len(declared) > INDEXES_MAX:
        raise InvalidInputError(
            "PROJSEG_LIMIT_EXCEEDED",
            f"{len(declared)} indexes were declared; a table has at most {INDEXES_MAX}: drop those "
            "that no query uses",
        )
    seen = set()
    for index in declared:
        if (problem := name_problem(index.name)) is not None:
            raise InvalidInputError("PROJSEG_BAD_NAME", f"index name {index.name[:80]!r} {problem}")
        if index.name.casefold() in seen:
            raise InvalidInputError(
                "PROJSEG_DUPLICATE_NAME", f"index '{index.name}' was declared twice"
            )
        seen.add(index.name.casefold())
        if not 1 <= len(index.columns) <= INDEX_COLUMNS_MAX:
            raise bad_index(
                index.name,
                f"has {len(index.columns)} columns; it takes 1 to {INDEX_COLUMNS_MAX}",
            )
        for one in index.columns:
            _check_column(index, one)


def _check_column(index: DeclaredIndex, one: IndexDefinition) -> None:
    kind = KINDS.get(index.kind)
    if kind is None or one.kind != index.kind:
        allowed = ", ".join(KINDS)
        raise bad_index(index.name, f"is of kind '{index.kind}'; the kinds are: {allowed}")
    if not kind.takes(parse_type_name(one.type)):
        raise bad_index(
            index.name, f"is of column {one.column}, a {one.type}; {index.kind} takes {kind.wanted}"
        )


def bad_index(name: str, problem: str) -> InvalidInputError:
    """Return the error for an index that cannot be declared."""
    return InvalidInputError("PROJSEG_BAD_INDEX", f"index '{name}' {problem}")


def find_index(declared: Sequence[DeclaredIndex], name: str) -> DeclaredIndex:
    """Return an index by its name, in any case."""
    for index in declared:
        if index.name.casefold() == str(name).casefold():
            return index
    names = [index.name for index in declared]
    raise InvalidInputError(
        "PROJSEG_UNKNOWN_INDEX",
        f"'{name}' is not an index of the table{did_you_mean(str(name), names)}; its indexes are "
        f"{', '.join(names) or 'none'}",
    )


def is_served(definition: IndexDefinition, present: pa.DataType) -> bool:
    """Whether filters of a definition may be asked about values of its column's present type."""
    return definition.is_known and same_hashes(parse_type_name(definition.type), present)
