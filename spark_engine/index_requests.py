"""What the engine process does for SQL statements about indexes.

The columns of a reply's rows are in `spark_datasource/statement_list.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from projseg.declarations import Index
from projseg.errors import InvalidInputError, did_you_mean
from projseg.spark_datasource.statement_list import PROPERTIES, REPLIES, VERSION
from projseg.spark_engine.replies import Reply, properties_of, rows, table_of
from projseg.spark_engine.statement_requests import runner_of
from projseg.table import Table
from projseg.table.declaration_commits import telling_of_declaration
from projseg.table.segment_edits import bounds_of
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.table_layer.metadata.index_declaration import bad_index, find_index

if TYPE_CHECKING:
    from projseg.spark_engine.rewrite_runner_jvm import RunJob

_OF_CARBONDATA: Final = {"bloomfilter": "bloom", "lucene": "token"}
_COLUMNS: Final = ("index_columns", "bloom_column", "text_column")
_IGNORED: Final = ("bloom_size", "bloom_compress", "flush_cache", "split_blocklet")
_SCOPE: Final = {
    "build": "build",
    "interval": "interval",
    "retain": "retain",
    "maxbytesratio": "max_bytes_ratio",
}


def _create_index(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Declare and build an index; reply with the version, the filters made, what is ignored."""
    table, name = table_of(request), request["name"]
    if request["lenient"] and _is_there(table, name):
        return rows([{"version": table.version, "filters": 0}], REPLIES["create_index"])
    declaration, scope, ignored = _declared(request)
    version = table.add_index(declaration, **scope)
    made = 0
    if scope.get("build") != "deferred" and not request["deferred"]:
        with telling_of_declaration(f"index '{name}'"):
            version, made = _built(table, {**request, "interval": None}, run_job)
    shown = f"{', '.join(ignored)}: without effect" if ignored else None
    return rows([{"version": version, "filters": made, "ignored": shown}], REPLIES["create_index"])


def _declared(request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return an index's declaration, the segments that it is built for, and what is ignored."""
    name, given = request["name"], dict(request["options"])
    own = {one.name for one in fields(Index)} - {"name", "columns", "kind"}
    given |= {key.removeprefix("bloom_"): given.pop(key) for key in ("bloom_fpp",) if key in given}
    ignored = [key for key in _IGNORED if given.pop(key, None) is not None]
    columns = [column for column in map(_without_brackets, request["columns"]) if column]
    for key in _COLUMNS:
        columns += [column.strip() for column in given.pop(key, "").split(",") if column.strip()]
    for key in given:
        if key not in own and key not in _SCOPE:
            known = sorted({*own, *_SCOPE, *_COLUMNS, "bloom_fpp"})
            raise bad_index(
                name,
                f"has an unknown option {key!r}{did_you_mean(key, known)}; known are "
                f"{', '.join(known)}",
            )
    if not columns:
        raise bad_index(name, f"names no column; give them in brackets, or by {_COLUMNS[0]!r}")
    kind = str(request["kind"]).strip("`").casefold()
    declaration = {"name": name, "columns": columns, "kind": _OF_CARBONDATA.get(kind, kind)}
    declaration |= {key: _value(text) for key, text in given.items() if key in own}
    scope = {_SCOPE[key]: text for key, text in given.items() if key in _SCOPE}
    if "max_bytes_ratio" in scope:
        scope["max_bytes_ratio"] = _value(scope["max_bytes_ratio"])
    return declaration, scope, ignored


def _without_brackets(column: str) -> str:
    """Return an expression of a list of columns, which stands in brackets of its own."""
    is_whole = column.startswith("(") and column.endswith(")")
    return column[1:-1].strip() if is_whole else column


def _value(text: str) -> Any:
    """Return the number or truth value that an option's text states, or else the text."""
    try:
        return json.loads(text.casefold())
    except ValueError:
        return text


def _drop_index(request: Mapping[str, Any]) -> Reply:
    """Drop an index; reply with the version written, or the present one if it is not there."""
    table = table_of(request)
    if request["lenient"] and not _is_there(table, request["name"]):
        return rows([{"version": table.version}], VERSION)
    return rows([{"version": table.drop_index(request["name"]).version}], VERSION)


def _materialize_index(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Build an index where it is missing; reply with the version and how many filters were made."""
    version, made = _built(table_of(request), request, run_job)
    return rows([{"version": version, "filters": made}], REPLIES["materialize_index"])


def _built(table: Table, request: Mapping[str, Any], run_job: RunJob | None) -> tuple[int, int]:
    # Imported here: a process that only asks starts without the modules that write.
    from projseg.maintenance.materialize_index import materialize_index
    from projseg.maintenance.materialize_projections import IN_THREADS

    interval = request.get("interval")
    bounds = None if interval is None else bounds_of(interval)
    runner = runner_of(request, run_job, IN_THREADS)
    snapshot, made = materialize_index(
        table.snapshot, request["name"], bounds, NO_NOTE, runner=runner
    )
    return snapshot.version, made


def _index(request: Mapping[str, Any]) -> Reply:
    """Reply with an index's properties, those of each of its columns."""
    table = table_of(request)
    name = find_index(table.properties.declared_indexes, request["name"]).name
    shown = []
    for row in table.indexes().to_pylist():
        if row["name"] == name:
            shown += properties_of(row)
    return rows(shown, PROPERTIES)


def _is_there(table: Table, name: str) -> bool:
    try:
        find_index(table.properties.declared_indexes, name)
    except InvalidInputError:
        return False
    return True


INDEX_BUILDS: Final[dict[str, Callable[[Mapping[str, Any], RunJob | None], Reply]]] = {
    "create_index": _create_index,
    "materialize_index": _materialize_index,
}
INDEXES: Final[dict[str, Callable[[Mapping[str, Any]], Reply]]] = {
    "drop_index": _drop_index,
    "index": _index,
}
