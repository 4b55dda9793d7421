"""docs/command-line.md: every command and option, as the shell has them, and an example of each."""

import re
import sys
from pathlib import Path

import pytest
from command_reference import commands

from projseg.cli import main

PAGE = (Path(__file__).parents[2] / "docs/command-line.md").read_text()
COMMANDS = commands()


def section(name):
    found = re.search(
        rf"^### projseg {re.escape(name)}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE
    )
    assert found, f"{name} has no section"
    return found[1]


def help_text(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(sys, "argv", ["projseg", *name.split(), "--help"])
    with pytest.raises(SystemExit):
        main()
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_section_with_an_example(name):
    assert f"$ projseg {name}" in section(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_are_those_that_help_lists(name, monkeypatch, capsys):
    listed = re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text(name, monkeypatch, capsys))
    shown = " ".join(one.shown for one in COMMANDS[name].parameters)
    assert set(re.findall(r"--[a-z][a-z-]+", shown)) == set(listed) - {"--help"}


def test_commands_are_those_that_help_lists(monkeypatch, capsys):
    listed = re.findall(r"^│ ([a-z][a-z-]+) ", help_text("", monkeypatch, capsys), re.MULTILINE)
    assert {name.split()[0] for name in COMMANDS} == set(listed)
