"""`projseg catalog`: the catalog itself, as a database, a folder of files and a server."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from typing import Annotated, Any, Final, Literal

import typer

from projseg.cli import defining
from projseg.cli.defining import GivenCatalog
from projseg.cli.keeping import EXIT_VERIFICATION_FAILED
from projseg.cli.output import print_fields, print_preview, print_rows
from projseg.cli.shared_arguments import IsPreview, Output, declared
from projseg.errors import InvalidInputError
from projseg.extras import require

_Folder = Annotated[str, typer.Argument(help="A folder.")]
_File = Annotated[str, typer.Argument(help="The file.")]
_Namespace = Annotated[str, typer.Argument(help="The namespace.")]

_AccessVerb = Annotated[Literal["create", "list", "revoke"], typer.Argument(help="What to do.")]

app: Final = typer.Typer(help="Definitions of tables by name, in a database.", no_args_is_help=True)


def init(opened: GivenCatalog, output: Output = None) -> None:
    """Make a catalog in a new file or an empty database; one that is there stays."""
    opened.init()
    print_fields({"catalog": str(opened.store.database), "made": True}, output)


def migrate(opened: GivenCatalog, output: Output = None) -> None:
    """Bring an older catalog to this release's schema; a file is copied beside itself first."""
    print_fields({"catalog": str(opened.store.database), "migrated": opened.migrate()}, output)


def check(opened: GivenCatalog, output: Output = None) -> None:
    """List disagreements between definitions and tables; exit with 3 if there are any."""
    found = opened.check()
    print_rows(found, output)
    if found.num_rows:
        raise typer.Exit(EXIT_VERIFICATION_FAILED)


def export(folder: _Folder, *, opened: GivenCatalog, output: Output = None) -> None:
    """Write each definition as a JSON file."""
    print_fields({"folder": folder, "definitions": opened.export(folder)}, output)


def load_definitions(
    folder: _Folder,
    action: Annotated[
        defining.Action, typer.Option("--action", help="What becomes of definitions there are.")
    ] = "force",
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Bring exported definitions back."""
    print_fields({"folder": folder, "definitions": opened.load(folder, action)}, output)


def register_warehouse(folder: _Folder, *, opened: GivenCatalog, output: Output = None) -> None:
    """Register the tables of a folder warehouse under their names."""
    print_fields({"folder": folder, "definitions": opened.register_warehouse(folder)}, output)


def backup(file: _File, *, opened: GivenCatalog, output: Output = None) -> None:
    """Copy a catalog that is a file, as of one moment."""
    opened.backup(file)
    print_fields({"file": file, "catalog": str(opened.store.database)}, output)


def restore(
    file: _File, *, is_preview: IsPreview, opened: GivenCatalog, output: Output = None
) -> None:
    """Put a backup in place of everything; edits since then are lost, rows never. Needs --yes."""
    if is_preview:
        print_preview({"would_restore": file}, str(opened.store.database), output)
        return
    opened.restore(file)
    print_fields({"file": file, "restored": True}, output)


def gc(is_preview: IsPreview, opened: GivenCatalog, output: Output = None) -> None:
    """Remove dropped definitions that are due, with the files that go with them. Needs --yes."""
    print_rows(opened.gc(dry_run=is_preview), output)


def namespaces(opened: GivenCatalog, output: Output = None) -> None:
    """List the namespaces."""
    print_rows([{"namespace": name} for name in opened.namespaces()], output)


def create_namespace(
    name: _Namespace,
    comment: Annotated[str | None, typer.Option("--comment", help="For people.")] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Make a namespace."""
    print_fields({"namespace": name, "version": opened.create_namespace(name, comment)}, output)


def drop_namespace(
    name: _Namespace,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Its definitions go to the trash; data stays.")
    ] = False,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Drop a namespace, which must be empty unless --cascade is given."""
    print_fields({"namespace": name, "version": opened.drop_namespace(name, cascade)}, output)


def serve(
    host: Annotated[str, typer.Option("--host", help="Another host needs TLS.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Its port.")] = 8181,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", help="The file of a certificate.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", help="The file of its key.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve another host without TLS.")
    ] = False,
    *,
    opened: GivenCatalog,
) -> None:
    """Serve all tenants of a catalog over REST, until interrupted."""
    require("starlette", "projseg catalog serve")
    require("uvicorn", "projseg catalog serve")
    from projseg.catalog.service import server

    server.serve(opened, host, port, certificate=tls_cert, key=tls_key, is_insecure=insecure)


def tenant(
    verb: Annotated[Literal["create", "list"], typer.Argument(help="What to do.")],
    name: Annotated[str | None, typer.Argument(help="The tenant to create.")] = None,
    own_warehouse: Annotated[
        str | None, typer.Option("--tables", help="Where its managed tables lie.")
    ] = None,
    root: Annotated[
        list[str] | None, typer.Option("--root", help="Its registered tables lie below.")
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Create a tenant for a server, or change where its tables lie; or list tenants."""
    if verb == "create":
        opened.admin.create_tenant(_needed(name, "the tenant"), own_warehouse, root or ())
    print_rows(opened.admin.tenants(), output)


def token(
    verb: _AccessVerb,
    name: Annotated[
        str | None, typer.Argument(help="The principal to create one for, or the id to revoke.")
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="A principal that is made is an admin.")
    ] = False,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="It expires; default: never.")
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Create a token, and its principal if there is none; list or revoke tokens."""
    if verb == "list":
        print_rows(opened.admin.tokens(name), output)
        return
    wanted = _needed(name, "the principal, or the token's id")
    if verb == "revoke":
        opened.admin.revoke_token(wanted)
        print_fields({"revoked": wanted}, output)
        return
    if wanted not in [found["name"] for found in opened.admin.principals()]:
        opened.admin.create_principal(wanted, admin)
    lasts = None if days is None else datetime.timedelta(days=days)
    expires = None if lasts is None else datetime.datetime.now(datetime.UTC) + lasts
    id_, made = opened.admin.create_token(wanted, expires)
    print_fields({"principal": wanted, "id": id_, "token": made}, output)


def grant(
    verb: _AccessVerb,
    name: Annotated[str | None, typer.Argument(help="The principal, or the id to revoke.")] = None,
    action: Annotated[
        Literal["READ", "WRITE", "EXTERNAL", "ADMIN"], typer.Option("--action", help="What.")
    ] = "READ",
    pattern: Annotated[
        str, typer.Option("--pattern", help="A regular expression of all of namespace.name.")
    ] = ".*",
    external_type: Annotated[
        str | None, typer.Option("--external-type", help="Of EXTERNAL; default: every type.")
    ] = None,
    *,
    opened: GivenCatalog,
    output: Output = None,
) -> None:
    """Grant an action on definitions whose names match; list or revoke grants."""
    if verb == "list":
        print_rows(opened.admin.grants(name), output)
        return
    wanted = _needed(name, "the principal, or the grant's id")
    if verb == "revoke":
        opened.admin.revoke(wanted)
        print_fields({"revoked": wanted}, output)
        return
    made = opened.admin.grant(wanted, action, pattern, external_type)
    print_fields({"principal": wanted, "id": made}, output)


def _needed(name: str | None, what: str) -> str:
    if name is None:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"name {what}")
    return name


_VERBS: Final[dict[str, Callable[..., None]]] = {
    "init": init,
    "migrate": migrate,
    **defining.VERBS,
    "namespaces": namespaces,
    "create-namespace": create_namespace,
    "drop-namespace": drop_namespace,
    "import": load_definitions,
    "export": export,
    "register-warehouse": register_warehouse,
    "check": check,
    "backup": backup,
    "restore": restore,
    "gc": gc,
    "serve": serve,
    "tenant": tenant,
    "token": token,
    "grant": grant,
}


def _closing(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb that closes the catalog that it is given."""

    @wraps(verb)
    def run(**given: Any) -> None:
        with closing(given["opened"]):
            verb(**given)

    return run


for _name, _verb in _VERBS.items():
    app.command(_name)(declared(_closing(_verb)))
