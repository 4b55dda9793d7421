"""Shell examples of the README and of pages under docs/ print what they say, in a folder each."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console( slow)?\n(.*?)```", re.DOTALL)
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if BLOCK.search(path.read_text()) and path.name != "tutorial.md"  # test_tutorial.py
]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def commands(page, with_slow):
    """Return (command, printed) of each `$ ` in a page's blocks, in order."""
    for slow, block in BLOCK.findall(page.read_text()):
        if slow and not with_slow:
            continue
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield whole_command(text.splitlines())


def whole_command(lines):
    """Part a command, which a backslash or a here-document carries on, from what it printed."""
    ends = lines.index("END") if "<<'END'" in lines[0] else 0
    while lines[ends].endswith("\\"):
        ends += 1
    return "\n".join(lines[: ends + 1]), lines[ends + 1 :]


def run(command, folder):
    # The tests' own Python, in the place of whichever `projseg` is on the path.
    shell = f'projseg() {{ "{sys.executable}" -m projseg "$@"; }}\n{command}'
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", shell],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return [line.rstrip() for line in done.stdout.splitlines()]


def is_like(line, shown):
    """Whether a line is as shown; spaces fill up a table's columns, so their number is free."""
    line, shown = (re.sub(" +", " ", text) for text in (line, shown))
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def check(page, folder, with_slow=False):
    for command, shown in commands(page, with_slow):
        printed = run(command, folder)
        pairs = zip(printed, shown, strict=False)
        assert len(printed) == len(shown), (command, printed)
        assert all(is_like(*pair) for pair in pairs), (command, printed)


LONG = "command-line.md"  # its eighty commands take a process each


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name == LONG else [])
        for page in PAGES
    ],
)
def test_the_shell_examples_of_a_page_print_what_they_say(page, tmp_path, monkeypatch):
    """A page's examples in Python come first: they make the tables that are asked."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in PYTHON.findall(page.read_text()):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, page.name, "exec"), names)
    check(page, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_slow_shell_examples_print_what_they_say(page, tmp_path):
    if not any(slow for slow, _ in BLOCK.findall(page.read_text())):
        pytest.skip("no slow examples")
    check(page, tmp_path, with_slow=True)


def test_the_page_of_the_command_line_has_shell_examples():
    assert "command-line.md" in {page.name for page in PAGES}


@pytest.mark.parametrize(
    ("line", "shown", "alike"),
    [
        ("wrote 3 rows in 0.2 s", "wrote 3 rows in … s", True),
        ("wrote 4 rows in 0.2 s", "wrote 3 rows in … s", False),
        ("wrote 3 rows", "wrote 3 rows in … s", False),
        ("a.b", "a+b", False),
        ("│ 0.25 │    7 │", "│  …   │ 7    │", True),
        ("│ 0.25 │    8 │", "│  …   │ 7    │", False),
    ],
)
def test_a_mark_stands_for_anything_and_the_rest_for_itself(line, shown, alike):
    assert is_like(line, shown) == alike
