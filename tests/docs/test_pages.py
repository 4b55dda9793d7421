"""Pages under docs/: their examples print what they say, and they name what the code names."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from projseg.algebra.planning.why_not import ReasonCode

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
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


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    without_code = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_links_every_page():
    linked = set(re.findall(r"\]\(([\w/.-]+\.md)", (ROOT / "README.md").read_text()))
    assert {str(page.relative_to(ROOT)) for page in ALL_PAGES} - linked <= {"README.md"}
