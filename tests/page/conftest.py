"""A folder of tables of all kinds, and a client of the page over it."""

from __future__ import annotations

import pytest
from paged_tables import HOST, HOSTILE, TOKEN, make_edits
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables of all kinds, and one that cannot be opened."""
    path = tmp_path_factory.mktemp("page") / "tables"
    path.mkdir()
    make_edits(path / "edits")
    projseg.Table.create(path / HOSTILE.replace("/", ""), data={"n": [1, 2], "<b>": ["</td>", "&"]})
    projseg.Table.create(path / "empty", {"n": "bigint"})
    projseg.Table.create(path / "geo" / "places", data={"code": ["de"], "name": ["Germany"]})
    (path / "broken" / "_projseg").mkdir(parents=True)
    (path / "broken" / "_projseg" / "00000000000000000000.json").write_text("{")
    return path


@pytest.fixture(scope="session")
def app(folder):
    return application(Places([folder]), PageSettings(TOKEN, timeout=20, max_rows=2000))


@pytest.fixture(scope="session")
def client(app):
    """A client that came in with the token, as a browser sends its requests."""
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=True) as found:
        found.headers["Sec-Fetch-Site"] = "same-origin"
        assert found.get(f"/?token={TOKEN}").status_code == 200
        yield found
