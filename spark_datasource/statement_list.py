"""The SQL statements that Spark's parser lacks: their words and the columns of their replies.

`spark_datasource/catalyst/statements/` reads the texts, and `spark_engine/` has a function for each
operation. Statements with clauses of their own have a function in Scala in place of a form.

A form has words in capitals, of which `A|B` is either; `<name>` a name; `'name'` a string; `#name`
a number; and in brackets what may be left out, `[name: WORDS]` a flag.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer.metadata_tables import METADATA_TABLES, MetadataTable

_ON_VIEW: Final = "<noun> <view> [ON [TABLE] <table>]"
FORMS: Final = (
    ("drop_projection", "ALTER TABLE <table> DROP PROJECTION [lenient: IF EXISTS] <name>"),
    (
        "materialize_projection",
        "ALTER TABLE <table> MATERIALIZE PROJECTION <name> [FOR INTERVAL 'interval']",
    ),
    ("projections", "SHOW PROJECTIONS [FROM|IN <table>]"),
    ("projection", "DESCRIBE|DESC PROJECTION <name> ON <table>"),
    ("segments", "SHOW SEGMENTS FROM|IN <table>"),
    ("history", "DESCRIBE|DESC HISTORY <table>"),
    (
        "optimize",
        "OPTIMIZE <table> [FOR INTERVAL 'interval'] [purge: PURGE] [dry_run: DRY RUN]",
    ),
    ("vacuum", "VACUUM <table> [RETAIN #retention_hours HOURS] [force: FORCE] [dry_run: DRY RUN]"),
    ("restore", "RESTORE [TABLE] <table> [TO] VERSION AS OF #version"),
    ("restore", "RESTORE [TABLE] <table> [TO] TIMESTAMP AS OF 'timestamp'"),
    ("defined_undrop", "UNDROP TABLE <definition>"),
    ("drop_index", "DROP INDEX [lenient: IF EXISTS] <name> ON [TABLE] <table>"),
    ("indexes", "SHOW INDEXES [FROM|ON|IN [TABLE] <table>]"),
    ("index", "DESCRIBE|DESC INDEX <name> ON [TABLE] <table>"),
    ("materialize_index", "ALTER TABLE <table> MATERIALIZE INDEX <name> [FOR INTERVAL 'interval']"),
    ("materialize_index", "REFRESH INDEX <name> ON [TABLE] <table>"),
    (
        "refresh_view",
        f"REFRESH|REBUILD {_ON_VIEW} [full: FULL] [FOR INTERVAL 'interval'] [dry_run: DRY RUN]",
    ),
    ("view", f"DESCRIBE|DESC [EXTENDED] {_ON_VIEW}"),
    ("show_create_view", f"SHOW CREATE {_ON_VIEW}"),
)
"""Operations and their forms. The name of a table, definition or view is what a statement is about;
without one, it is about all tables of the current namespace."""


def _columns(type_: pa.DataType, *names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, type_) for name in names]


def _shown_columns(table: MetadataTable) -> pa.Schema:
    """Return the columns that are shown of a metadata table, lists as texts."""
    fields = (table.schema.field(name) for name in table.shown)
    return pa.schema(
        pa.field(one.name, pa.string() if pa.types.is_list(one.type) else one.type)
        for one in fields
    )


VERSION: Final = pa.schema([("version", pa.int64())])
PROPERTIES: Final = pa.schema(_columns(pa.string(), "property", "value"))
_FILTERS: Final = pa.schema([*VERSION, ("filters", pa.int64())])
_WRITTEN: Final = pa.schema(_columns(pa.int64(), "version", "segments", "rows"))
REPLIES: Final[dict[str, pa.Schema]] = {
    **{name: _shown_columns(table) for name, table in METADATA_TABLES.items() if table.shown},
    **dict.fromkeys(("projection", "index", "view", "explain_view"), PROPERTIES),
    **dict.fromkeys(("add_projection", "drop_projection", "restore", "drop_index"), VERSION),
    **dict.fromkeys(("drop_view", "defined_hide", "defined_undrop"), VERSION),
    **dict.fromkeys(("materialize_projection", "optimize"), _WRITTEN),
    "optimize dry_run": pa.schema(
        [
            *_columns(TIMESTAMP, "min_time", "max_time"),
            *_columns(pa.int64(), "segments", "rows", "bytes"),
        ]
    ),
    "vacuum": pa.schema([("file", pa.string()), ("bytes", pa.int64())]),
    "advice": pa.schema(
        [
            *_columns(pa.string(), "kind", "name", "sql", "statement"),
            *_columns(pa.int64(), "rows", "bytes"),
            *_columns(pa.float64(), "rows_error", "build_seconds"),
            ("queries", pa.int64()),
            *_columns(pa.float64(), "milliseconds_before", "milliseconds_after", "saved_seconds"),
            ("evidence", pa.string()),
        ]
    ),
    "truncate": pa.schema([("num_affected_rows", pa.int64())]),
    "change_columns": pa.schema(_columns(pa.string(), "name", "text")),
    "materialize_index": _FILTERS,
    "create_index": pa.schema([*_FILTERS, ("ignored", pa.string())]),
    "create_view": pa.schema(
        [
            ("view", pa.string()),
            *_columns(pa.int64(), "version", "parts", "segments"),
            ("ignored", pa.string()),
        ]
    ),
    "refresh_view": pa.schema(
        [
            *_columns(pa.int64(), "version", "segments", "kept", "relabelled", "subtracted"),
            *_columns(pa.int64(), "refolded", "added", "dropped", "rows_read"),
            ("not_built", pa.string()),
        ]
    ),
    "alter_view": pa.schema(_columns(pa.string(), "view", "status", "state")),
    "show_create_view": pa.schema(_columns(pa.string(), "createtab_stmt")),
    "views": pa.schema(
        [
            *_columns(pa.string(), "name", "provider", "grade", "status", "state"),
            *_columns(pa.int64(), "segments", "segments_covered"),
            ("rows_covered", pa.float64()),
            *_columns(pa.int64(), "parts", "rows", "bytes"),
            *_columns(pa.string(), "chunk", "refresh"),
            ("refreshed_at", TIMESTAMP),
            *_columns(pa.string(), "last_error", "comment", "definition"),
        ]
    ),
}
"""The columns of a statement's reply, by operation."""
