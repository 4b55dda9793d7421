"""Locations and storage options: what is wrong is told in a line, and a secret in none."""

import logging
import os
import pickle
import re
import subprocess
import sys
import traceback

import pytest
from store_places import environment_of

import projseg
from projseg.errors import InvalidInputError, ProjsegError, StorageError, UnsupportedFeatureError
from projseg.spark_engine.statement_requests import STATEMENTS
from projseg.spark_engine.warehouse import Warehouse
from projseg.table_layer.storage import store_client
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.store_location import StorageOptions

SECRET = "planted-5ecret"
SCHEMA = {"x": "long", "k": "string"}
BY_KEY = projseg.Projection("by_key", ["k"], ["sum(x) AS x"])


def told_by(action):
    with pytest.raises(ProjsegError) as caught:
        action()
    error = caught.value
    told = "".join(traceback.format_exception(error)) + repr(error) + error.to_json()
    assert SECRET not in told
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("s3://", "not a prefix"),
        ("s3:bucket/t", "names no bucket"),
        ("s3:///t", "not a prefix"),
        ("s3://bucket/a//b", "not a prefix"),
        ("s3://bucket/a/../b", "not a prefix"),
        ("s3://bucket/a?x=1", "not a prefix"),
        ("s3://bucket/a#b", "not a prefix"),
        ("s3://bu cket/a", "not a prefix"),
        ("s3://bucket/a\n", "not a prefix"),
        (f"s3://key:{SECRET}@bucket/a", "a user, a password or a port"),
        (f"az://key:{SECRET}@bucket/a", "a user, a password or a port"),
    ],
)
def test_a_location_that_is_none_is_refused(location, told):
    error = told_by(lambda: open_storage(location))
    assert error.code == "PROJSEG_BAD_LOCATION"
    assert told in error.message


def test_spellings_of_one_place_are_one_place():
    one = open_storage("s3://bucket/a/t", {"region": "x"})
    for location in ("s3a://bucket/a/t/", "S3://bucket/a/t"):
        assert open_storage(location, {"REGION": "x"}) == one
    assert open_storage("s3://bucket/a/t", {"region": "y"}) != one
    assert open_storage("gcs://bucket/a") == open_storage("gs://bucket/a")
    assert open_storage("azure://c/a", {"account_name": "n"}).location == "az://c/a"
    assert open_storage("abfss://c@n.dfs.core.windows.net/a").location.startswith("abfss://c@n.")


def test_a_directory_bucket_is_refused():
    with pytest.raises(UnsupportedFeatureError, match="general purpose bucket"):
        open_storage("s3://tables--use1-az4--x-s3/t")


@pytest.mark.parametrize(
    ("location", "options", "told"),
    [
        ("s3://bucket/t", {"regoin": SECRET}, "'regoin' is not one of .*did you mean 'region'"),
        ("s3://bucket/t", {"timeout": SECRET}, "a value of timeout is not"),
        ("s3://bucket/t", {"aws_allow_http": SECRET}, "a value of aws_allow_http is not"),
        ("s3://bucket/t", {"secret_access_key": 1.5}, "of type float"),
        ("s3://bucket/t", {"bucket": SECRET}, "names the bucket or container itself"),
        (
            "s3://bucket/t",
            {"region": "", "aws_region": SECRET},
            "a value of aws_region, region",
        ),
        ("s3://bucket/t", SECRET, "of type str; give a mapping"),
        ("az://container/t", {}, "give storage option account_name"),
        ("/tmp/t", {"region": SECRET}, "no meaning for /tmp/t"),
    ],
)
def test_an_option_that_is_wrong_is_named(location, options, told):
    error = told_by(lambda: projseg.Table(location, storage_options=options))
    assert error.code == "PROJSEG_BAD_STORAGE_OPTION"
    assert re.search(told, error.message)


@pytest.mark.parametrize(
    ("changed", "bucket", "code", "told"),
    [
        ({}, "no-such-bucket", "PROJSEG_NO_SUCH_BUCKET", "create it, or check its name"),
        ({"endpoint": "http://127.0.0.1:1"}, "tables", "PROJSEG_STORE_UNREACHABLE", "endpoint"),
        ({"allow_http": "false"}, "tables", "PROJSEG_BAD_STORAGE_OPTION", "allow_http=true"),
    ],
)
def test_a_store_that_does_not_serve_is_told(
    store_server, monkeypatch, changed, bucket, code, told
):

    monkeypatch.setattr(store_client, "_RETRIES", 0)
    given = store_server.options() | {"secret_access_key": SECRET} | changed
    location = f"s3://{bucket}/t"
    for action in (
        lambda: projseg.Table(location, storage_options=given),
        lambda: projseg.Table.create(location, SCHEMA, storage_options=given),
    ):
        error = told_by(action)
        assert error.code == code
        assert told in error.message
        assert location in error.message


def test_denied_access_is_told(store_place, options, spoiled):
    spoiled(answer=403)
    error = told_by(lambda: projseg.Table(store_place, storage_options=options))
    assert (type(error), error.code) == (StorageError, "PROJSEG_NO_PERMISSION")


def test_the_environment_is_read(store_server, store_place, monkeypatch):
    with pytest.raises(ProjsegError):
        projseg.Table.create(
            store_place, SCHEMA, storage_options={"endpoint": "http://127.0.0.1:1"}
        )
    for name, value in environment_of(store_server.options()).items():
        monkeypatch.setenv(name, value)
    projseg.Table.create(store_place, SCHEMA)
    assert projseg.is_table(store_place)


def test_a_secret_appears_nowhere(store_server, store_place, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    options = store_server.options() | {"secret_access_key": SECRET, "session_token": SECRET}
    table = projseg.Table.create(
        store_place,
        SCHEMA,
        data={"x": [1, 2], "k": ["a", "b"]},
        projections=[BY_KEY],
        storage_options=options,
    )
    table.append({"x": [3], "k": ["a"]})
    table.tag("first")
    table.delete("k = 'b'")
    table.compact()
    query = {"group_by": "k", "aggregators": "sum(x) AS x"}
    texts = [
        repr(table),
        str(table),
        repr(table.snapshot),
        repr(table.snapshot.storage),
        repr(StorageOptions(options)),
        str(vars(table)),
        table.location,
        str(table.history().to_pylist()),
        str(table.detail()),
        str(table.explain(**query)),
        str(table.query(**query)),
        str(table.vacuum()),
        str(table.verify()),
    ]
    assert SECRET not in "".join(texts)
    for file in store_place.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in caplog.text + "".join(capfd.readouterr())
    again = pickle.loads(pickle.dumps(table.snapshot.storage))
    assert again == table.snapshot.storage
    assert SECRET not in repr(again)


def test_a_forked_process_is_told_instead_of_waiting_for_ever(store_place, options):
    open_storage(store_place, options)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            projseg.is_table(store_place, options)
        except StorageError as error:
            code = 0 if error.code == "PROJSEG_FORKED_PROCESS" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_obstore_the_extra_is_named():
    code = "import sys; sys.modules['obstore'] = None; import projseg; projseg.Table('s3://b/t')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'obstore>=0.12'" in told.stderr.splitlines()[-1]


def test_a_foreign_scheme_names_the_stores():
    with pytest.raises(UnsupportedFeatureError, match="s3, s3a, gs"):
        open_storage("ftp://host/t")
    with pytest.raises(InvalidInputError):
        projseg.Table("s3://bucket/t", storage_options=[("region", "x")])


def test_a_warehouse_is_a_folder(store_place):
    with pytest.raises(UnsupportedFeatureError, match="a warehouse is a folder"):
        Warehouse(store_place)


def test_the_counts_of_a_change_are_found_by_its_storage_options(store_place, options):
    rows = {"x": [1, 2], "k": ["a", "b"]}
    table = projseg.Table.create(store_place, SCHEMA, data=rows, storage_options=options)
    table.delete("x = 1")
    request = {"location": str(store_place), "storage_options": options}
    write_id = table.snapshot.file.write_id
    reply, _ = STATEMENTS["changed"]({**request, "write_id": write_id})
    assert reply["counts"]["num_deleted_rows"] == 1
    assert STATEMENTS["changed"]({**request, "write_id": "0" * 32}) == ({"counts": {}}, b"")
