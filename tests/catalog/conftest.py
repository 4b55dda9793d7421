"""Catalogs in a SQLite file, in PostgreSQL, and behind a server; the tests start both servers."""

import uuid

import pytest
from catalog_principals import served_without_wire
from catalog_servers import started_postgres, started_server

import projseg

pytest.importorskip("sqlalchemy")


@pytest.fixture(scope="session")
def postgres():
    """The address of a server with an empty catalog."""
    with started_postgres() as uri:
        yield uri


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A catalog in a file whose server runs for all tests."""
    pytest.importorskip("starlette")
    folder = tmp_path_factory.mktemp("rest")
    with projseg.Catalog(folder / "house.db", warehouse=folder / "warehouse") as made:
        made.init()
        yield made


@pytest.fixture(scope="session")
def port(served):
    """The port of 127.0.0.1 at which `served` answers."""
    with started_server(served) as number:
        yield number


class Doors:
    """How clients of one kind of catalog are opened: `options` are those of `Catalog`."""

    def __init__(self, kind, request, folder):
        self.kind, self.folder, self.opened, self.tokens = kind, folder, [], {}
        self.tenant = uuid.uuid4().hex
        if kind == "rest":
            self.served = request.getfixturevalue("served")
            self.uri = f"http://127.0.0.1:{request.getfixturevalue('port')}"
        else:
            postgres = kind == "postgres"
            self.uri = request.getfixturevalue(kind) if postgres else str(folder / "house.db")

    def options(self, tenant=None, user=None, **more):
        """Return what opens a client; through a server a user is an admin with a token."""
        tenant = tenant or self.tenant
        given = {"uri": self.uri, "tenant": tenant, **more}
        if self.kind == "rest":
            return {**given, "token": self._token(tenant, user or "root")}
        return {"warehouse": str(self.folder / "warehouse"), "user": user, **given}

    def _token(self, tenant, user):
        if (tenant, user) not in self.tokens:
            beside = projseg.Catalog(self.served.store.database.uri, tenant=tenant)
            if all(tenant != known for known, _ in self.tokens):
                beside.admin.create_tenant(tenant, str(self.folder / "warehouse"), ["/"])
            beside.admin.create_principal(user, admin=True)
            self.tokens[tenant, user] = beside.admin.create_token(user)[1]
            beside.close()
        return self.tokens[tenant, user]

    def open(self, **options):
        """Open a client of the catalog, which is empty at first."""
        self.opened.append(projseg.Catalog(**self.options(**options)))
        if self.kind != "rest":
            self.opened[-1].init()
        return self.opened[-1]

    def close(self):
        for one in self.opened:
            one.close()


@pytest.fixture(params=["sqlite", "postgres", "rest"])
def doors(request, tmp_path):
    """One catalog of each kind, which is empty."""
    made = Doors(request.param, request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def open_catalog(doors):
    """Opens clients of one catalog that is empty."""
    return doors.open


@pytest.fixture
def catalog(open_catalog):
    return open_catalog()


@pytest.fixture
def house(tmp_path):
    """A catalog in a file, for what does not depend on the database."""
    with projseg.Catalog(tmp_path / "house.db", warehouse=tmp_path / "warehouse") as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def house_served(request, tmp_path):
    """A catalog of each database, and what asks its server's application."""
    postgres = request.param == "postgres"
    with served_without_wire(
        request.getfixturevalue("postgres") if postgres else str(tmp_path / "house.db")
    ) as found:
        yield found
