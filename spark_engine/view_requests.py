"""What the engine process does for SQL statements about views, and about CarbonData's data maps.

A data map may be a view, a projection or an index of its table. The columns of a reply's rows are
those of the statement in `spark_datasource/catalyst/statements/StatementsOfViews.scala`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase as fnmatch
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from projseg.algebra.expressions.dialect import split_list
from projseg.algebra.expressions.sql_words import NAME, backquoted, name_parts
from projseg.errors import (
    InvalidInputError,
    LimitExceededError,
    ProjsegError,
    UnsupportedFeatureError,
    did_you_mean,
)
from projseg.spark_datasource.statement_list import PROPERTIES, REPLIES, VERSION
from projseg.spark_engine.replies import Reply, properties_of, rows, table_of
from projseg.spark_engine.statement_requests import materialized
from projseg.table import Table
from projseg.table.segment_edits import interval_of
from projseg.table.star_statements import bound_statement
from projseg.table.stored_view import StoredView
from projseg.table.table_version import reader_of, readers_by_name, state_of
from projseg.table.view_edits import new_view, view_there
from projseg.table.view_form import ViewForm
from projseg.table.view_object import View
from projseg.views.definitions.definition import Definition
from projseg.views.definitions.result_definition import define_result
from projseg.views.definitions.view_checks import as_required, bad_view, checked_statement
from projseg.views.refresh_work import Work

if TYPE_CHECKING:
    from projseg.spark_engine.rewrite_runner_jvm import RunJob

_COUNTED: Final = (
    *("version", "segments", "kept", "relabelled", "subtracted", "refolded"),
    *("added", "dropped", "rows_read"),
)
_DATA_MAP: Final = "DATAMAP"
_FINAL: Final = (
    *("PROJSEG_VIEW_NOT_DETERMINISTIC", "PROJSEG_EXPRESSION_TOO_LONG", "PROJSEG_NOT_A_TABLE"),
    "PROJSEG_PINNED_VERSION",
)
"""Errors of a SELECT that can be no stored result either."""
_OPTIONS: Final = ("refresh", "chunk", "retain", "interval", "require")
_IGNORED: Final = (
    *("sort_columns", "sort_scope", "table_blocksize", "table_blocklet_size", "flat_folder"),
    *("long_string_columns", "local_dictionary_enable", "local_dictionary_threshold"),
    *("local_dictionary_exclude", "local_dictionary_include", "inverted_index"),
    *("no_inverted_index", "column_compressor"),
)
"""Properties of CarbonData's tables, which its views inherit, and which say nothing here."""
_REFUSED: Final = {
    "store": "LOCATION is not taken: a view lies in the folder of its fact",
}
"""Clauses that other engines have, and why a view here has not."""
_UNITS: Final = re.compile(
    r"""(?ix) \s* (?: date_trunc \(\s* ['"] (?P<unit>\w+) ['"] \s*, .* \)
        | (?P<plural>year|month|day|hour)s \( .* \) | (?P<all>all) ) \s*"""
)


def _create_view(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Create a view, or return what it would store; reply with its parts and what is ignored."""
    name = request["name"]
    given = {key.casefold(): text for key, text in request["properties"].items()}
    ignored = [key for key in _IGNORED if given.pop(key, None) is not None]
    for key in given:
        if key not in _OPTIONS:
            near = did_you_mean(key, _OPTIONS)
            raise bad_view(f"unknown property {key!r}{near}; known are {', '.join(_OPTIONS)}")
    for key, instead in _REFUSED.items():
        if key in request:
            raise bad_view(instead)
    if "cluster_by" in request:
        given["cluster_by"] = json.dumps(_cluster_columns(request["cluster_by"]))
    if "chunk" in request:
        given["chunk"] = _chunk(request["chunk"])
    is_deferred = request.get("deferred", given.get("refresh", "commit") == "deferred")
    tables = {one: Table(location) for one, location in request["tables"].items()}
    known = (view_there(state_of(table), name) for table in tables.values())
    if request["lenient"] and (there := next(filter(None, known), None)) is not None:
        return _created(there, [])
    found = _defined(request["sql"], tables, given, run_job)
    is_said = "deferred" in request or "refresh" in given
    if is_said or found.definition.grade == "grouped":
        given["refresh"] = "deferred" if is_deferred else "commit"
    # WITH DEFERRED REFRESH appears empty; the property only says that no commit refreshes it.
    arguments: dict[str, Any] = {
        "build": not request.get("deferred", False),
        "comment": request.get("comment"),
    }
    arguments |= {"replace": request["replace"], "run_select": run_job}
    arguments["if_not_exists"] = request["lenient"]
    if request["op"] == "explain_view":
        return _explained(name, found, tables, given, arguments)
    view = new_view(state_of(found.table), name, found.definition, given, **arguments)
    assert isinstance(view, View), "only a dry run makes none"
    return _created(view, ignored)


def _created(view: View, ignored: Sequence[str]) -> Reply:
    detail = view.detail()
    made = {"view": view.name, "version": detail["store_version"], "parts": detail["parts"]}
    made["segments"] = detail["segments_covered"]
    made["ignored"] = f"{', '.join(ignored)}: without effect" if ignored else None
    return rows([made], REPLIES["create_view"])


class _Defined(NamedTuple):
    """What a SELECT means as a view: the table in whose folder it is, and why it is no groups."""

    table: Table
    definition: Definition
    why: str | None = None


def _defined(
    sql: str, tables: Mapping[str, Table], given: Mapping[str, str], run_job: RunJob | None
) -> _Defined:
    """Return the definition of a SELECT: groups of a star, or else rows that Spark computes."""
    try:
        table = _fact_of(sql, tables)
        return _Defined(table, ViewForm(sql, readers_by_name(tables)).definition(reader_of(table)))
    except (InvalidInputError, UnsupportedFeatureError, LimitExceededError) as error:
        if error.code in _FINAL or "require" in given:
            raise as_required(error, given) from None
        why = error
    table = max(tables.values(), key=lambda one: one.snapshot.row_count)
    snapshots = {name: one.snapshot for name, one in tables.items()}
    try:
        definition = define_result(sql, snapshots, table.snapshot, run_job)
    except InvalidInputError as error:
        # Spark tells what is wrong with the text; why it is no groups is of no use then.
        raise why if error.code == "PROJSEG_BAD_VIEW" and not error.message else error from why
    return _Defined(table, definition, str(why))


def _fact_of(sql: str, tables: Mapping[str, Table]) -> Table:
    """Return the table whose rows a SELECT groups."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    statement = checked_statement(sql, with_joins=True)
    bound = bound_statement(statement, readers_by_name(tables), None, None, None)
    fact = bound.version.location
    return next(one for one in tables.values() if one.location == fact)


def _cluster_columns(text: str) -> list[str]:
    """Return the names in CLUSTER BY, as written or as Spark describes the clause."""
    is_described = text.startswith("cluster_by(")
    inner = text.removeprefix("cluster_by(").removesuffix(")") if is_described else text
    names = split_list(inner)
    return [".".join(name_parts(one)) if re.fullmatch(NAME, one) else one for one in names]


def _chunk(text: str) -> str:
    """Return the unit of time that PARTITIONED BY truncates to."""
    found = _UNITS.fullmatch(text)
    if found is None:
        raise bad_view(
            f"PARTITIONED BY ({text}) is no truncation of the time column; write "
            "date_trunc('MONTH', time) or months(time)"
        )
    return str(found["unit"] or found["plural"] or found["all"]).casefold()


def _explained(
    name: str,
    found: _Defined,
    tables: Mapping[str, Table],
    given: Mapping[str, str],
    arguments: Mapping[str, Any],
) -> Reply:
    planned = new_view(
        state_of(found.table), name, found.definition, given, dry_run=True, **arguments
    )
    shown: dict[str, object] = {"view": name, "grade": found.definition.grade, "why": found.why}
    others = [n for n, one in tables.items() if one.location != found.table.location]
    shown |= {"fact": found.table.location, "dimensions": ", ".join(others) or None}
    shown |= {key: getattr(planned, key) for key in ("added", "rows_read")}
    shown |= getattr(planned, "costs", {})
    shown |= {"not_built": ", ".join(map(str, getattr(planned, "not_built", ()))) or None}
    return rows(properties_of(shown), PROPERTIES)


def _find_view(request: Mapping[str, Any]) -> Reply:
    """Reply with which tables have a view, projection or index of a name, by their positions."""
    found = []
    for position, location in enumerate(request["locations"]):
        try:
            table = Table(location)
            if _provider(table, request["name"], _DATA_MAP) is not None:
                found.append(position)
        except ProjsegError:
            continue
    return {"found": found}, b""


def _provider(table: Table, name: str, kind: str) -> str | None:
    """Return the kind of a name in a table: `view`, `projection` or `index`, or None."""
    folded = name.casefold()
    properties = table.properties
    if any(one.casefold() == folded for one in table.views()["name"].to_pylist()):
        return "view"
    if any(one.name == name for one in properties.projections):
        return "projection"
    is_index = any(one.name.casefold() == folded for one in properties.declared_indexes)
    return "index" if is_index and kind == _DATA_MAP else None


def _refresh_view(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Bring a view, projection or index up to date; reply with what was done."""
    table, name = table_of(request), request["name"]
    provider = _provider(table, name, request["kind"])
    if provider == "projection" and not request.get("compact"):
        snapshot, entries = materialized(table, request, None)
        return rows(
            [{"version": snapshot.version, "segments": len(entries)}], REPLIES["refresh_view"]
        )
    if provider == "index" and not request.get("compact"):
        commit = table.materialize_index(name)
        return rows([{"version": commit.version, "segments": 0}], REPLIES["refresh_view"])
    if provider in ("projection", "index"):
        raise bad_view(f"{provider} '{name}' is compacted with its table: OPTIMIZE the table")
    stored = StoredView.named(state_of(table), name)
    interval = request.get("interval")
    bounds = None if interval is None else interval_of(interval)
    work = Work(request["full"], bounds, run_select=run_job)
    done = stored.refresh(work, dry_run=request["dry_run"])
    shown = {key: getattr(done, key, None) for key in _COUNTED}
    shown["segments"] = View(stored).detail()["segments_covered"]
    shown["not_built"] = "; ".join(map(str, done.not_built)) or None
    return rows([shown], REPLIES["refresh_view"])


def _alter_view(request: Mapping[str, Any]) -> Reply:
    """Enable, disable or rename a view, or change its properties; reply with its state."""
    view = table_of(request).view(request["name"])
    if "enabled" in request:
        view.enable() if request["enabled"] else view.disable()
    elif "rename" in request:
        view.rename(request["rename"])
    else:
        view.set_properties(request.get("set"), unset=request.get("unset", ()))
    detail = view.detail()
    shown = {"view": view.name, "status": detail["status"], "state": detail["state"]}
    return rows([shown], REPLIES["alter_view"])


def _drop_view(request: Mapping[str, Any]) -> Reply:
    """Drop a view, projection or index; reply with the table's version."""
    table, name = table_of(request), request["name"]
    provider = _provider(table, name, request["kind"])
    if provider == "projection":
        table.drop_projection(name)
    elif provider == "index":
        table.drop_index(name)
    elif provider == "view" or not request["lenient"]:
        table.view(name).drop()
    return rows([{"version": table.version}], VERSION)


def _views(request: Mapping[str, Any]) -> Reply:
    """Reply with a table's views and projections, and of data maps also with its indexes."""
    table = table_of(request)
    shown = list(_listed(table, request))
    if "like" in request:
        patterns = [one.strip().casefold() for one in request["like"].split("|")]
        shown = [row for row in shown if any(fnmatch(row["name"].casefold(), p) for p in patterns)]
    return rows(shown, REPLIES["views"])


def _listed(table: Table, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for row in table.views().to_pylist():
        yield {key: row[key] for key in REPLIES["views"].names if key in row} | {"provider": "mv"}
    if not request["all"] and request["kind"] != _DATA_MAP:
        return
    for row in table.projections().to_pylist():
        covered = row["segments"]
        grouped = ", ".join([*(row["group_by"] or ()), *(row["aggregators"] or ())])
        where = f" WHERE {row['filter']}" if row["filter"] else ""
        yield {key: row[key] for key in ("name", "rows", "bytes")} | {
            "provider": "projection",
            "status": "ENABLED",
            "segments": covered + row["segments_missing"],
            "segments_covered": covered,
            "definition": f"SELECT {grouped}{where}",
        }
    if request["kind"] == _DATA_MAP:
        for row in table.indexes().to_pylist():
            yield {key: row[key] for key in ("name", "status", "segments")} | {
                "provider": row["kind"],
                "segments_covered": row["covered"],
                "bytes": row["bloom_bytes"] + row["postings_bytes"],
                "definition": row["column"],
            }


def _view(request: Mapping[str, Any]) -> Reply:
    """Reply with all facts about a view."""
    return rows(properties_of(_view_of(request).detail()), PROPERTIES)


def _show_create_view(request: Mapping[str, Any]) -> Reply:
    """Reply with the statement that makes a view."""
    view = _view_of(request)
    detail = view.detail()
    options = dict(detail["options"])
    lines = [f"CREATE MATERIALIZED VIEW `{view.name.replace('`', '``')}`"]
    if (order := options.pop("cluster_by", None)) is not None:
        lines.append(f"CLUSTER BY ({', '.join(map(backquoted, json.loads(order)))})")
    if detail["comment"]:
        lines.append(f"COMMENT {_quoted(detail['comment'])}")
    said = ", ".join(f"{_quoted(key)} = {_quoted(text)}" for key, text in sorted(options.items()))
    lines += [f"TBLPROPERTIES ({said})", f"AS {view.sql}"]
    return rows([{"createtab_stmt": "\n".join(lines)}], REPLIES["show_create_view"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _view_of(request: Mapping[str, Any]) -> View:
    table, name = table_of(request), request["name"]
    provider = _provider(table, name, request["kind"])
    if provider in ("projection", "index"):
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VIEW",
            f"'{name}' is no view of {table.location} but its {provider}; "
            f"DESCRIBE {provider.upper()} {name} ON the table",
        )
    return table.view(name)


VIEW_BUILDS: Final[dict[str, Callable[[Mapping[str, Any], RunJob | None], Reply]]] = {
    "create_view": _create_view,
    "explain_view": _create_view,
    "refresh_view": _refresh_view,
}
"""Statements for which Spark may have to run a SELECT."""
VIEWS: Final[dict[str, Callable[[Mapping[str, Any]], Reply]]] = {
    "find_view": _find_view,
    "alter_view": _alter_view,
    "drop_view": _drop_view,
    "views": _views,
    "view": _view,
    "show_create_view": _show_create_view,
}
