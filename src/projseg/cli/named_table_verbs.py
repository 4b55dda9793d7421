"""`projseg catalog`: definitions by name, and the rows of their tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import pyarrow as pa
import typer

import projseg
from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.catalog.external.input_columns import BadLines
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.readings import TextForm
from projseg.cli.output import Found, previewed
from projseg.cli.shared_arguments import Args, IsPreview, OptionGroup, content_of
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import normal_type

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog  # its packages are an extra's

_CONNECTION: Final = {
    "uri": Annotated[str | None, "A file or a database's address; default: PROJSEG_CATALOG."],
    "warehouse": Annotated[str | None, "The folder or prefix of managed tables."],
    "tenant": Annotated[str, "Whose definitions."],
    "user": Annotated[str | None, "Who edits, for the history."],
    "external_roots": Annotated[
        list[str] | None,
        typer.Option("--external-root", help="A folder that definitions of files may name."),
    ],
    "external_hosts": Annotated[
        list[str] | None,
        typer.Option("--external-host", help="HOST[:PORT] that they may name; https, or http://."),
    ],
}


def _connected(**given: Any) -> Catalog:
    for key in ("external_roots", "external_hosts"):
        given[key] = given[key] or ()
    return projseg.Catalog(given.pop("uri"), **given)


GivenCatalog = Annotated["Catalog", OptionGroup(_CONNECTION, _connected, {"tenant": "default"})]
Name = Annotated[str, "namespace.name, or name in the namespace default."]
_Spec = Annotated[str, "JSON, or @FILE that holds it."]
_Columns = Annotated[list[str], "Columns, in any case."]
_AtVersion = Annotated[int | None, "The version that the definition must have; default: any."]
Action = Literal["new", "ifNew", "replace", "force"]


def list_definitions(
    namespace: Annotated[str | None, "Only of this namespace; default: all."] = None,
    *,
    like: Annotated[str | None, "Only names that match a pattern of * and ?."] = None,
    type: Annotated[str | None, "Only table, inline, files, http or spark."] = None,
    opened: GivenCatalog,
) -> Found:
    """List definitions by name."""
    return [
        {
            "name": str(found.full_name),
            "type": found.type,
            "version": found.version,
            "columns": len(found.spec.columns),
            "location": found.location,
        }
        for found in opened.tables(namespace, like, type)
    ]


def show(
    name: Name,
    *,
    spec: Annotated[bool, "Only the spec, as create and merge take it."] = False,
    opened: GivenCatalog,
) -> None:
    """Print a definition as JSON: its spec, version, state and location."""
    found = opened.metadata(name)
    content = found.spec.to_dict() if spec else json.loads(found.to_json())
    typer.echo(json.dumps(content, ensure_ascii=False, indent=2))


def create(
    name: Name,
    spec: _Spec = "{}",
    *,
    action: Annotated[Action, "What becomes of a definition that is there."] = "new",
    version: _AtVersion = None,
    opened: GivenCatalog,
) -> Found:
    """Write a definition; its table is made by the first rows."""
    made = opened.create(name, content_of(spec, "the spec"), action, version)
    return {"name": name, "version": made}


def merge(
    name: Name,
    spec: _Spec,
    *,
    version: _AtVersion = None,
    opened: GivenCatalog,
) -> Found:
    """Merge a part of a spec into a definition; null removes a property."""
    made = opened.merge(name, content_of(spec, "the spec"), version)
    return {"name": name, "version": made}


def register(
    name: Name,
    location: Annotated[str, "Where the table is, or will be."],
    spec: _Spec = "{}",
    *,
    opened: GivenCatalog,
) -> Found:
    """Define a table at a given location; dropping the definition keeps its files."""
    made = opened.register(name, location, content_of(spec, "the spec"))
    return {"name": name, "version": made}


def rename(
    name: Name,
    new: Annotated[str, "The new name."],
    *,
    opened: GivenCatalog,
) -> Found:
    """Give a definition another name; its table stays where it is."""
    return {"name": new, "version": opened.rename(name, new)}


def drop(
    name: Name,
    *,
    data: Annotated[
        Literal["keep", "trash", "now"],
        "A managed table's files: they stay, go after seven days, or at once.",
    ] = "keep",
    if_exists: Annotated[bool, "Whether a missing definition is no error."] = False,
    version: _AtVersion = None,
    is_preview: IsPreview,
    opened: GivenCatalog,
) -> Found:
    """Drop a definition; for seven days undrop brings it back. Needs --yes."""
    if is_preview and (opened.exists(name) or not if_exists):
        found = opened.metadata(name)
        would = {"would_drop": str(found.full_name), "version": found.version, "data": data}
        return previewed(would, str(found.location))
    is_dropped = not is_preview and opened.drop(name, if_exists, data, version)
    return {"name": name, "dropped": is_dropped, "data": data}


def undrop(
    name: Name,
    *,
    id: Annotated[str | None, "Which, of several that had the name; see trash."] = None,
    opened: GivenCatalog,
) -> Found:
    """Bring a dropped definition back."""
    return {"name": name, "version": opened.undrop(name, id)}


def trash(*, opened: GivenCatalog) -> Found:
    """List the dropped definitions that may be brought back."""
    return opened.trash()


def move_column(
    name: Name,
    column: Annotated[str, "The column."],
    where: Annotated[Literal["first", "last", "before", "after"], "Its new place."],
    anchor: Annotated[str | None, "The column that it goes before or after."] = None,
    *,
    opened: GivenCatalog,
) -> Found:
    """Move a declared column."""
    return {"name": name, "version": opened.move_column(name, column, where, anchor)}


def drop_columns(name: Name, columns: _Columns, *, opened: GivenCatalog) -> Found:
    """Drop columns from the declaration; stored values stay."""
    return {"name": name, "version": opened.drop_columns(name, columns)}


def hide(name: Name, columns: _Columns, *, opened: GivenCatalog) -> Found:
    """Hide columns by name; by path they stay visible."""
    return {"name": name, "version": opened.hide_columns(name, columns)}


def unhide(name: Name, columns: _Columns, *, opened: GivenCatalog) -> Found:
    """Bring hidden columns back."""
    return {"name": name, "version": opened.unhide_columns(name, columns)}


def status(
    name: Annotated[str | None, "The definition; default: all tables."] = None,
    *,
    refresh: Annotated[bool, "Open the tables and count anew."] = False,
    opened: GivenCatalog,
) -> Found:
    """List in how many segments projections are built, as last counted."""
    return opened.status(name, refresh)


def history(
    name: Annotated[str | None, "The definition; default: the tenant's changes."] = None,
    *,
    since: Annotated[
        int, typer.Option("--since", min=0, help="Only changes after this version.")
    ] = 0,
    opened: GivenCatalog,
) -> Found:
    """List who changed what, oldest first."""
    found = opened.changes(since) if name is None else opened.history(name)
    rows = found.to_pylist()
    return [row for row in rows if row["version"] > since]


def apply(name: Name, *, is_preview: IsPreview, opened: GivenCatalog) -> Found:
    """Give a table the columns and the layout of its definition. Needs --yes."""
    return opened.apply(name, dry_run=is_preview)


def rebind(name: Name, *, opened: GivenCatalog) -> Found:
    """Bind a definition to the table that lies at its location now."""
    return {"name": name, "table_version": opened.rebind(name)}


def expire(name: Name, *, is_preview: IsPreview, opened: GivenCatalog) -> Found:
    """Remove the segments that are wholly older than the definition's retention. Needs --yes."""
    return opened.expire(name, dry_run=is_preview)


def sql(
    text: Annotated[str, "SELECT ... FROM namespace.name ..."],
    *,
    args: Args = None,
    opened: GivenCatalog,
) -> Found:
    """Answer a SELECT over a table by name."""
    return opened.sql(text, args=arguments_of_texts(args or (), "UTC"))


def read(
    name: Name,
    *,
    param: Annotated[
        list[str] | None, "KEY=VALUE of a template; a list is separated by commas."
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Rows at most.")] = 100,
    opened: GivenCatalog,
) -> Found:
    """Print rows of any definition, also of files from outside."""
    given = dict(text.partition("=")[::2] for text in param or ())
    rows = opened.read(name, **given)
    found, wanted = [], limit
    while wanted > 0 and (batch := next(iter(rows), None)) is not None:
        found.append(batch.slice(0, wanted))
        wanted -= batch.num_rows
    return pa.Table.from_batches(found, rows.schema)


def insert(
    name: Name,
    files: Annotated[list[str], "Parquet, CSV or JSON; - is standard input."],
    *,
    format: Annotated[
        Literal["parquet", "csv", "json"] | None, "What the files hold; default: their endings."
    ] = None,
    overwrite: Annotated[bool, "Replace all rows of the table."] = False,
    commit_as: Annotated[
        str | None, "A name for this insert; repeated, it changes nothing."
    ] = None,
    opened: GivenCatalog,
) -> Found:
    """Append files to a table by name, in the columns and the layout of its definition."""
    if overwrite and commit_as is not None:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "--overwrite and --commit-as are given; give one of them"
        )
    table, sources = opened.table(name), Sources(files, format, TextForm())
    schema = _schema_of(sources, table.schema)
    batches = sources.rows(schema, BadLines(), lambda _: None)
    rows = pa.RecordBatchReader.from_batches(schema, batches)
    made = table.overwrite(rows) if overwrite else table.append(rows, commit_as=commit_as)
    return {"name": name, "version": made.version, "segments": made.segments, "rows": made.rows}


def _schema_of(sources: Sources, own: pa.Schema) -> pa.Schema:
    """Return the columns of files in the types of a table; others as they are found."""
    types = {name_key(field.name): field.type for field in own}
    fields = []
    for field in sources.schema:
        found = types.get(name_key(field.name), normal_type(field.type))
        fields.append((field.name, pa.string() if pa.types.is_null(found) else found))
    return pa.schema(fields)


VERBS: Final[dict[str, Callable[..., object]]] = {
    "list": list_definitions,
    "show": show,
    "create": create,
    "merge": merge,
    "register": register,
    "rename": rename,
    "drop": drop,
    "undrop": undrop,
    "trash": trash,
    "move-column": move_column,
    "drop-columns": drop_columns,
    "hide": hide,
    "unhide": unhide,
    "history": history,
    "status": status,
    "apply": apply,
    "rebind": rebind,
    "expire": expire,
    "sql": sql,
    "read": read,
    "insert": insert,
}
