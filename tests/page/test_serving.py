"""`projseg ui` as a process: what it prints, whom it bears, and that nothing of it stays."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from urllib.parse import unquote, urlencode, urlsplit

import pyarrow as pa
import pytest

import projseg

SLOW = "SELECT count(DISTINCT sha2(concat(t, cast(n as string)), 512)) AS c FROM t"


@contextmanager
def served(*words):
    """Start the page; yield its process and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "projseg", "ui", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def get(address, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    token = unquote(address.partition("token=")[2])
    headers = {"Authorization": f"Bearer {token}"} | headers
    connection.request(method, path, body, headers)
    found = connection.getresponse()
    content = found.read().decode()
    connection.close()
    return found, content


def members(process):
    """The processes of the page: it, and the workers that it started."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,sess=,stat="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in listed.stdout.splitlines())
    return [pid for pid, session, state in rows if session == str(process.pid) and state[0] != "Z"]


def test_silent_connections_keep_nobody_out_and_interrupting_leaves_nothing(tmp_path):
    count = 1_000_000
    rows = {"n": pa.array(range(count)), "t": pa.array(["word"] * count)}
    projseg.Table.create(tmp_path / "t", data=pa.table(rows))
    with served(tmp_path / "t", "--port", "0") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        place = urlsplit(address)
        target = place.hostname, place.port
        silent = [socket.create_connection(target) for _ in range(600)]
        start = time.monotonic()
        assert get(address, "/index.json")[0].status == 200
        assert time.monotonic() - start < 10
        for one in silent:
            one.close()
        found, _ = get(address, "/t/t/query", "POST", urlencode({"sql": SLOW}))
        assert found.status == 303
        end = time.monotonic() + 20
        while len(members(process)) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stdout.read() == ""
        end = time.monotonic() + 5
        while members(process):
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("option", "value", "found"),
    [
        ("port", 99999, "port is 99999"),
        ("port", -1, "port is -1"),
        ("timeout", -1.0, "numbers above 0"),
        ("timeout", float("nan"), "numbers above 0"),
        ("max_rows", -1, "numbers above 0"),
        ("host", "nonsense.invalid", "no address of this machine"),
    ],
)
def test_what_cannot_be_served_is_refused(tmp_path, option, value, found):
    projseg.Table.create(tmp_path / "t", data={"n": [1]})
    with pytest.raises(projseg.ProjsegError, match=found) as refused:
        projseg.serve_page([tmp_path / "t"], allow_remote=True, **{option: value})
    assert refused.value.code == "PROJSEG_BAD_ARGUMENT"


@pytest.mark.slow
def test_a_port_in_use_takes_the_next_and_ten_in_use_are_said(tmp_path):
    projseg.Table.create(tmp_path / "t", data={"n": [1]})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with served(tmp_path / "t", "--port", port) as (_, address):
            assert port < urlsplit(address).port < port + 10
    others = []
    try:
        for number in range(30_000, 60_000, 997):
            try:
                others = [socket.create_server(("127.0.0.1", number + n)) for n in range(10)]
                break
            except OSError:
                continue
        with served(tmp_path / "t", "--port", number) as (process, address):
            assert address == ""
            assert process.wait(20) == 1
            assert "none of the ports" in process.stderr.read()
    finally:
        for one in others:
            one.close()


@pytest.mark.slow
def test_a_token_of_a_file_is_kept(tmp_path):
    projseg.Table.create(tmp_path / "t", data={"n": [1]})
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("0123456789abcdef&+%23=abcdef\n")
    os.chmod(file, 0o600)
    with served(tmp_path / "t", "--port", "0", "--token-file", file) as (_, address):
        assert address.endswith("/?token=0123456789abcdef%26%2B%2523%3Dabcdef")
        assert get(address, "/t/t.json")[0].status == 200
        refused, text = get(address, "/t/t.json", Authorization="Bearer other")
        assert (refused.status, "0123456789abcdef" in text) == (401, False)
        assert refused.getheader("server") is None


@pytest.mark.slow
def test_the_page_of_a_wheel_has_its_files(tmp_path):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "install"))
    from distributions import build, checkout  # beside the tests of the whole install

    folder = checkout(tmp_path / "checkout")
    ran = build(folder, "--wheel")
    assert ran.returncode == 0, ran.stderr
    with zipfile.ZipFile(next(folder.glob("dist/*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    assert (tmp_path / "installed/projseg/page/templates/base.html").exists()
    assert (tmp_path / "installed/projseg/page/assets/page.css").exists()
