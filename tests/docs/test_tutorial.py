"""The tutorial's blocks, of Python and of the shell, run in order in one folder."""

import contextlib
import io
import re

from test_shell_examples import ROOT, is_like, run, whole_command

BLOCK = re.compile(r"```(python|console)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def test_the_tutorial_runs_from_its_first_block_to_its_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, block, output in BLOCK.findall((ROOT / "docs/tutorial.md").read_text()):
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, "tutorial", "exec"), names)
            assert printed.getvalue() == output
            continue
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, shown = whole_command(text.splitlines())
            printed = run(command, tmp_path)
            assert len(printed) == len(shown), (command, printed)
            assert all(map(is_like, printed, shown)), (command, printed)
    assert "<h1>Edits</h1>" in (tmp_path / "dashboard.html").read_text()
