"""`projseg catalog`: the catalog itself, as a database, a folder of files and a server."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from typing import Annotated, Any, Final, Literal

import typer

from projseg.cli import named_table_verbs
from projseg.cli.maintenance_verbs import EXIT_VERIFICATION_FAILED
from projseg.cli.named_table_verbs import GivenCatalog
from projseg.cli.output import Ended, Found, previewed
from projseg.cli.shared_arguments import IsPreview, declared
from projseg.errors import InvalidInputError
from projseg.extras import require

_Folder = Annotated[str, typer.Argument(help="A folder.")]
_File = Annotated[str, typer.Argument(help="The file.")]
_Namespace = Annotated[str, typer.Argument(help="The namespace.")]

_AccessVerb = Annotated[Literal["create", "list", "revoke"], typer.Argument(help="What to do.")]

app: Final = typer.Typer(help="Definitions of tables by name, in a database.", no_args_is_help=True)


def init(*, opened: GivenCatalog) -> Found:
    """Create a catalog in a new file or an empty database; an existing one stays."""
    opened.init()
    return {"catalog": str(opened.store.database), "made": True}


def migrate(*, opened: GivenCatalog) -> Found:
    """Bring an older catalog to this release's schema; a file is copied beside itself first."""
    return {"catalog": str(opened.store.database), "migrated": opened.migrate()}


def check(*, opened: GivenCatalog) -> Ended:
    """List disagreements between definitions and tables; exit with 3 if there are any."""
    found = opened.check()
    return Ended(found, EXIT_VERIFICATION_FAILED if found.num_rows else 0)


def export(folder: _Folder, *, opened: GivenCatalog) -> Found:
    """Write each definition as a JSON file."""
    return {"folder": folder, "definitions": opened.export(folder)}


def load_definitions(
    folder: _Folder,
    *,
    action: Annotated[named_table_verbs.Action, "What becomes of definitions there are."] = "force",
    opened: GivenCatalog,
) -> Found:
    """Bring exported definitions back."""
    return {"folder": folder, "definitions": opened.load(folder, action)}


def register_warehouse(folder: _Folder, *, opened: GivenCatalog) -> Found:
    """Register the tables of a folder warehouse under their names."""
    return {"folder": folder, "definitions": opened.register_warehouse(folder)}


def backup(file: _File, *, opened: GivenCatalog) -> Found:
    """Copy a catalog that is a file, as it is at one moment."""
    opened.backup(file)
    return {"file": file, "catalog": str(opened.store.database)}


def restore(file: _File, *, is_preview: IsPreview, opened: GivenCatalog) -> Found:
    """Replace the whole catalog by a backup; later edits are lost, rows are not. Needs --yes."""
    if is_preview:
        return previewed({"would_restore": file}, str(opened.store.database))
    opened.restore(file)
    return {"file": file, "restored": True}


def gc(*, is_preview: IsPreview, opened: GivenCatalog) -> Found:
    """Remove dropped definitions that are due, with the files that go with them. Needs --yes."""
    return opened.gc(dry_run=is_preview)


def namespaces(*, opened: GivenCatalog) -> Found:
    """List the namespaces."""
    return [{"namespace": name} for name in opened.namespaces()]


def create_namespace(
    name: _Namespace,
    *,
    comment: Annotated[str | None, "For people."] = None,
    opened: GivenCatalog,
) -> Found:
    """Make a namespace."""
    return {"namespace": name, "version": opened.create_namespace(name, comment)}


def drop_namespace(
    name: _Namespace,
    *,
    cascade: Annotated[bool, "Its definitions go to the trash; data stays."] = False,
    opened: GivenCatalog,
) -> Found:
    """Drop a namespace, which must be empty unless --cascade is given."""
    return {"namespace": name, "version": opened.drop_namespace(name, cascade)}


def serve(
    *,
    host: Annotated[str, "Another host needs TLS."] = "127.0.0.1",
    port: Annotated[int, "Its port."] = 8181,
    tls_cert: Annotated[str | None, "The file of a certificate."] = None,
    tls_key: Annotated[str | None, "The file of its key."] = None,
    insecure: Annotated[bool, "Serve another host without TLS."] = False,
    opened: GivenCatalog,
) -> None:
    """Serve all tenants of a catalog over REST, until interrupted."""
    require("starlette", "projseg catalog serve")
    require("uvicorn", "projseg catalog serve")
    from projseg.catalog import rest_server

    rest_server.serve(opened, host, port, certificate=tls_cert, key=tls_key, is_insecure=insecure)


def tenant(
    verb: Annotated[Literal["create", "list"], "What to do."],
    name: Annotated[str | None, "The tenant to create."] = None,
    *,
    own_warehouse: Annotated[
        str | None, typer.Option("--tables", help="Where its managed tables lie.")
    ] = None,
    root: Annotated[list[str] | None, "Its registered tables lie below."] = None,
    opened: GivenCatalog,
) -> Found:
    """Create a tenant for a server, or change where its tables lie; or list tenants."""
    if verb == "create":
        opened.admin.create_tenant(_needed(name, "the tenant"), own_warehouse, root or ())
    return opened.admin.tenants()


def token(
    verb: _AccessVerb,
    name: Annotated[str | None, "The principal to create one for, or the id to revoke."] = None,
    *,
    admin: Annotated[bool, "A principal that is made is an admin."] = False,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="It expires; default: never.")
    ] = None,
    opened: GivenCatalog,
) -> Found:
    """Create a token, and its principal if there is none; list or revoke tokens."""
    if verb == "list":
        return opened.admin.tokens(name)
    wanted = _needed(name, "the principal, or the token's id")
    if verb == "revoke":
        opened.admin.revoke_token(wanted)
        return {"revoked": wanted}
    if wanted not in [found["name"] for found in opened.admin.principals()]:
        opened.admin.create_principal(wanted, admin)
    lasts = None if days is None else datetime.timedelta(days=days)
    expires = None if lasts is None else datetime.datetime.now(datetime.UTC) + lasts
    id_, made = opened.admin.create_token(wanted, expires)
    return {"principal": wanted, "id": id_, "token": made}


def grant(
    verb: _AccessVerb,
    name: Annotated[str | None, "The principal, or the id to revoke."] = None,
    *,
    action: Annotated[Literal["READ", "WRITE", "EXTERNAL", "ADMIN"], "What."] = "READ",
    pattern: Annotated[str, "A regular expression of all of namespace.name."] = ".*",
    external_type: Annotated[str | None, "Of EXTERNAL; default: every type."] = None,
    opened: GivenCatalog,
) -> Found:
    """Grant an action on definitions whose names match; list or revoke grants."""
    if verb == "list":
        return opened.admin.grants(name)
    wanted = _needed(name, "the principal, or the grant's id")
    if verb == "revoke":
        opened.admin.revoke(wanted)
        return {"revoked": wanted}
    made = opened.admin.grant(wanted, action, pattern, external_type)
    return {"principal": wanted, "id": made}


def _needed(name: str | None, what: str) -> str:
    if name is None:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"name {what}")
    return name


_VERBS: Final[dict[str, Callable[..., object]]] = {
    "init": init,
    "migrate": migrate,
    **named_table_verbs.VERBS,
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


def _closing(verb: Callable[..., object]) -> Callable[..., object]:
    """Return a verb that closes the catalog that it is given."""

    @wraps(verb)
    def run(**given: Any) -> object:
        with closing(given["opened"]):
            return verb(**given)

    return run


for _name, _verb in _VERBS.items():
    app.command(_name)(declared(_closing(_verb)))
