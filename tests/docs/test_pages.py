"""Pages under docs/: their examples print what they say, and they name what the code names."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from projseg.algebra.source_plan import ReasonCode

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "```python\n" in path.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_examples_of_a_page_print_what_they_say(page, tmp_path, monkeypatch):
    """The examples of a page are one session: names of one are known to the next."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, output in EXAMPLE.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == output


def test_projections_have_examples():
    assert DOCS / "projections.md" in PAGES


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_of_explain_is_explained(code):
    assert f"`{code}" in (DOCS / "projections.md").read_text()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+\.\w+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
