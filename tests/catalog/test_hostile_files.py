"""Files that would take a process down are refused in bounded memory, before a parser sees them."""

import gzip
import json
import os
import subprocess
import sys

import pytest

from projseg.catalog.external import text_blocks
from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.external.source_parameters import given_spec
from projseg.catalog.external.source_reader import read_source
from projseg.errors import ProjsegError
from projseg.segment_format.format_limits import COLUMNS_MAX

pytest.importorskip("sqlalchemy")


def read(folder, pattern="f*", form="json", schema="a string", **more):
    spec = {"source": "files", "baseDir": str(folder), "format": form, "schema": schema}
    spec |= {"filePattern": pattern} if "files" not in more else {}
    return read_source(given_spec(spec | more), AllowedPlaces((str(folder),))).read_all()


def refused(words, *arguments, **more):
    with pytest.raises(ProjsegError) as raised:
        read(*arguments, **more)
    assert raised.value.code == "PROJSEG_BAD_INPUT_FILE"
    assert words in raised.value.message, raised.value.message


@pytest.mark.parametrize("opening", ['{"a":', "[", '[{"a":', '{"a":"\\"[","b":[['])
def test_depth(tmp_path, opening):
    closing = "".join({"{": "}", "[": "]"}.get(sign, "") for sign in opening.split('"')[0][::-1])
    for count in (60, 200, 200_000):
        text = opening * count + "1" + (closing + "}" * ("{" in opening)) * count
        (tmp_path / "f.json").write_text('{"a": 1}\n' + text + "\n")
        if count > 200 or opening.count("[") + opening.count("{") > 1 or count == 200:
            refused("line 2: ", tmp_path)
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(ProjsegError):
            read(tmp_path)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_line_or_an_item_without_end(tmp_path, monkeypatch, form):
    for module in ("text_blocks", "csv_rows"):
        found = sys.modules[f"projseg.catalog.external.{module}"]
        monkeypatch.setattr(found, "LINE_BYTES_MAX", 1000)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 300)
    texts = {
        "json": ('{"a": 1}\n{"a": "' + "x" * 5000, '[{"a": 1},\n {"a": "' + "x" * 5000),
        "csv": ("1\n" + "x" * 5000, "1\n" + "x" * 5000 + "\n"),
    }
    for text in texts[form]:
        for compressed in (False, True):
            content = text.encode()
            path = tmp_path / ("f.x.gz" if compressed else "f.x")
            path.write_bytes(gzip.compress(content) if compressed else content)
            refused("line 2: it has no end within 1000 bytes", tmp_path, form=form)
            path.unlink()


def test_columns(tmp_path):
    most = COLUMNS_MAX
    many = {f"k{n}": n for n in range(most + 1)}
    for text in (json.dumps(many), "".join(json.dumps({k: 1}) + "\n" for k in many)):
        (tmp_path / "f.json").write_text(text)
        assert read(tmp_path, schema="k1 int")["k1"].to_pylist().count(None) < most + 1
        spec = {"source": "files", "baseDir": str(tmp_path), "format": "json", "filePattern": "f*"}
        with pytest.raises(ProjsegError, match="more than"):
            read_source(given_spec(spec), AllowedPlaces((str(tmp_path),))).read_all()
    (tmp_path / "f.json").write_text(",".join(many) + "\n")
    refused("columns", tmp_path, form="csv", header=True)


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "f")
    refused("pipe", tmp_path, files=["f"])
    refused("no file of", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "projseg", "import", "t", "f", "--format", "csv"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, "pipe" in done.stderr) == (1, True)


def test_a_loop_of_links_gives_each_file_once(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("f1.csv", "a/f2.csv", "a/b/f3.csv", "a/.hidden.csv"):
        (tmp_path / name).write_text("1\n")
    for place in ("loop", "a/up", "a/b/top", "a/b/again"):
        (tmp_path / place).symlink_to(tmp_path)
    (tmp_path / "a" / "other.csv").symlink_to(tmp_path / "f1.csv")
    patterns = {
        "**/*.csv": 3, "**": 3, "*.csv": 1, "a/*.csv": 2, "*/f?.csv": 2, "a/**/*.csv": 3,
        "**/b/*.csv": 1, "**/**/f3.csv": 1,
    }  # fmt: skip
    for pattern, count in patterns.items():
        assert read(tmp_path, pattern, "csv").num_rows == count, pattern


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path):
    """Each in a process of its own, whose greatest memory is told."""
    with gzip.open(tmp_path / "f1.csv.gz", "wb", 1) as file:
        for _ in range(1500):
            file.write(b"x" * 2**20)
    with gzip.open(tmp_path / "f2.json.gz", "wb", 1) as file:
        file.write(b"[" + b",".join([b'{"a":1}'] * 3_000_000) + b"]")
    with gzip.open(tmp_path / "f3.json.gz", "wb", 1) as file:
        file.write(b'[{"a":"')
        for _ in range(1500):
            file.write(b"x" * 2**20)
    code = (
        "import sys, resource; sys.path.insert(0, sys.argv[3]); import test_hostile_files as t\n"
        "try: print(t.read(sys.argv[1], sys.argv[2], sys.argv[2].split('.')[1]).num_rows)\n"
        "except t.ProjsegError as error: print(error.code)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    for name, said in (
        ("f1.csv.gz", "PROJSEG_BAD_INPUT_FILE"),
        ("f2.json.gz", "3000000"),
        ("f3.json.gz", "PROJSEG_BAD_INPUT_FILE"),
    ):
        words = [sys.executable, "-c", code, str(tmp_path), name, os.path.dirname(__file__)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        assert told[0] == said
        assert int(told[1]) < 1_000_000, (name, told)
