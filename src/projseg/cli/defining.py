"""`projseg catalog`: definitions by name, and the rows of their tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import pyarrow as pa
import typer

import projseg
from projseg.algebra.expressions.parameters.argument_texts import arguments_of_texts
from projseg.catalog.external.input_columns import BadLines
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.text_files import TextForm
from projseg.cli.output import print_fields, print_preview, print_rows
from projseg.cli.shared_arguments import (
    Args,
    IsPreview,
    OptionGroup,
    Output,
    content_of,
)
from projseg.errors import InvalidInputError
from projseg.segment_format.layout.logical_types import normal_type

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog  # its packages are an extra's

_CONNECTION: Final = {
    "uri": Annotated[
        str | None,
        typer.Option("--uri", help="A file or a database's address; default: PROJSEG_CATALOG."),
    ],
    "warehouse": Annotated[
        str | None,
        typer.Option("--warehouse", help="The folder or prefix of managed tables."),
    ],
    "tenant": Annotated[str, typer.Option("--tenant", help="Whose definitions.")],
    "user": Annotated[str | None, typer.Option("--user", help="Who edits, for the history.")],
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
Name = Annotated[str, typer.Argument(help="namespace.name, or name in the namespace default.")]
_Spec = Annotated[str, typer.Argument(help="JSON, or @FILE that holds it.")]
_Columns = Annotated[list[str], typer.Argument(help="Columns, in any case.")]
_AtVersion = Annotated[
    int | None,
    typer.Option("--version", help="The version that the definition must have; default: any."),
]
Action = Literal["new", "ifNew", "replace", "force"]


def list_definitions(
    namespace: Annotated[
        str | None, typer.Argument(help="Only of this namespace; default: all.")
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", help="Only names that match a pattern of * and ?.")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", help="Only table, inline, files, http or spark.")
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """List definitions by name."""
    rows = [
        {
            "name": str(found.full_name),
            "type": found.type,
            "version": found.version,
            "columns": len(found.spec.columns),
            "location": found.location,
        }
        for found in opened.tables(namespace, like, type)
    ]
    print_rows(rows, output)


def show(
    name: Name,
    spec: Annotated[
        bool, typer.Option("--spec", help="Only the spec, as create and merge take it.")
    ] = False,
    *,
    opened: GivenCatalog,
) -> None:
    """Print a definition as JSON: its spec, version, state and location."""
    found = opened.metadata(name)
    content = found.spec.to_dict() if spec else json.loads(found.to_json())
    typer.echo(json.dumps(content, ensure_ascii=False, indent=2))


def create(
    name: Name,
    spec: _Spec = "{}",
    action: Annotated[
        Action, typer.Option("--action", help="What becomes of a definition that is there.")
    ] = "new",
    version: _AtVersion = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Write a definition; its table is made by the first rows."""
    made = opened.create(name, content_of(spec, "the spec"), action, version)
    print_fields({"name": name, "version": made}, output)


def merge(
    name: Name,
    spec: _Spec,
    version: _AtVersion = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Merge a part of a spec into a definition; null removes a property."""
    made = opened.merge(name, content_of(spec, "the spec"), version)
    print_fields({"name": name, "version": made}, output)


def register(
    name: Name,
    location: Annotated[str, typer.Argument(help="Where the table is, or will be.")],
    spec: _Spec = "{}",
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Define a table at a location of one's own; no drop removes its files."""
    made = opened.register(name, location, content_of(spec, "the spec"))
    print_fields({"name": name, "version": made}, output)


def rename(
    name: Name,
    new: Annotated[str, typer.Argument(help="The new name.")],
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Give a definition another name; its table stays where it is."""
    print_fields({"name": new, "version": opened.rename(name, new)}, output)


def drop(
    name: Name,
    data: Annotated[
        Literal["keep", "trash", "now"],
        typer.Option(
            "--data", help="A managed table's files: they stay, go after seven days, or at once."
        ),
    ] = "keep",
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Whether a missing definition is no error.")
    ] = False,
    version: _AtVersion = None,
    *,
    is_preview: IsPreview,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Drop a definition; for seven days undrop brings it back. Needs --yes."""
    if is_preview and (opened.exists(name) or not if_exists):
        found = opened.metadata(name)
        would = {"would_drop": str(found.full_name), "version": found.version, "data": data}
        print_preview(would, str(found.location), output)
        return
    is_dropped = not is_preview and opened.drop(name, if_exists, data, version)
    print_fields({"name": name, "dropped": is_dropped, "data": data}, output)


def undrop(
    name: Name,
    id: Annotated[
        str | None, typer.Option("--id", help="Which, of several that had the name; see trash.")
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Bring a dropped definition back."""
    print_fields({"name": name, "version": opened.undrop(name, id)}, output)


def trash(opened: GivenCatalog, output: Output = None) -> None:
    """List the dropped definitions that may be brought back."""
    print_rows(opened.trash(), output)


def move_column(
    name: Name,
    column: Annotated[str, typer.Argument(help="The column.")],
    where: Annotated[
        Literal["first", "last", "before", "after"], typer.Argument(help="Its new place.")
    ],
    anchor: Annotated[
        str | None, typer.Argument(help="The column that it goes before or after.")
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Move a declared column."""
    print_fields({"name": name, "version": opened.move_column(name, column, where, anchor)}, output)


def drop_columns(
    name: Name, columns: _Columns, *, opened: GivenCatalog, output: Output = None
) -> None:
    """Declare columns no longer; what is stored stays."""
    print_fields({"name": name, "version": opened.drop_columns(name, columns)}, output)


def hide(name: Name, columns: _Columns, *, opened: GivenCatalog, output: Output = None) -> None:
    """Hide columns by name; by path they stay visible."""
    print_fields({"name": name, "version": opened.hide_columns(name, columns)}, output)


def unhide(name: Name, columns: _Columns, *, opened: GivenCatalog, output: Output = None) -> None:
    """Bring hidden columns back."""
    print_fields({"name": name, "version": opened.unhide_columns(name, columns)}, output)


def status(
    name: Annotated[str | None, typer.Argument(help="The definition; default: all tables.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Open the tables and count anew.")
    ] = False,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """List what became of the projections of tables, as it was last counted."""
    print_rows(opened.status(name, refresh), output)


def history(
    name: Annotated[
        str | None, typer.Argument(help="The definition; default: the tenant's changes.")
    ] = None,
    since: Annotated[
        int, typer.Option("--since", min=0, help="Only changes after this version.")
    ] = 0,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """List who changed what, oldest first."""
    found = opened.changes(since) if name is None else opened.history(name)
    rows = found.to_pylist()
    print_rows([row for row in rows if row["version"] > since], output)


def apply(
    name: Name, *, is_preview: IsPreview, opened: GivenCatalog, output: Output = None
) -> None:
    """Make a definition's columns and layout its table's, without rows. Needs --yes."""
    print_rows(opened.apply(name, dry_run=is_preview), output)


def rebind(name: Name, *, opened: GivenCatalog, output: Output = None) -> None:
    """Take the table that lies at a definition's location for the definition's own."""
    print_fields({"name": name, "table_version": opened.rebind(name)}, output)


def expire(
    name: Name, *, is_preview: IsPreview, opened: GivenCatalog, output: Output = None
) -> None:
    """Remove the segments that are wholly older than the definition's retention. Needs --yes."""
    print_rows(opened.expire(name, dry_run=is_preview), output)


def sql(
    text: Annotated[str, typer.Argument(help="SELECT ... FROM namespace.name ...")],
    args: Args = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Answer a SELECT over a table by name."""
    print_rows(opened.sql(text, args=arguments_of_texts(args or (), "UTC")), output)


def read(
    name: Name,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", help="KEY=VALUE of a template; a list is separated by commas."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Rows at most.")] = 100,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Print rows of any definition, also of files from outside."""
    given = dict(text.partition("=")[::2] for text in param or ())
    rows = opened.read(name, **given)
    found, wanted = [], limit
    while wanted > 0 and (batch := next(iter(rows), None)) is not None:
        found.append(batch.slice(0, wanted))
        wanted -= batch.num_rows
    print_rows(pa.Table.from_batches(found, rows.schema), output)


def insert(
    name: Name,
    files: Annotated[list[str], typer.Argument(help="Parquet, CSV or JSON; - is standard input.")],
    format: Annotated[
        Literal["parquet", "csv", "json"] | None,
        typer.Option("--format", help="What the files hold; default: their endings."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace all rows of the table.")
    ] = False,
    commit_as: Annotated[
        str | None,
        typer.Option("--commit-as", help="A name for this insert; repeated, it changes nothing."),
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
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
    print_fields(
        {"name": name, "version": made.version, "segments": made.segments, "rows": made.rows},
        output,
    )


def _schema_of(sources: Sources, own: pa.Schema) -> pa.Schema:
    """Return the columns of files in the types of a table; others as they are found."""
    types = {field.name.casefold(): field.type for field in own}
    fields = []
    for field in sources.schema:
        found = types.get(field.name.casefold(), normal_type(field.type))
        fields.append((field.name, pa.string() if pa.types.is_null(found) else found))
    return pa.schema(fields)


VERBS: Final[dict[str, Callable[..., None]]] = {
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
