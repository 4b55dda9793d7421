"""Pages under docs/: their examples print what they say, and they name what the code names."""

import contextlib
import io
import re
import subprocess
import tomllib
from pathlib import Path

import make_site
import pytest

from projseg.algebra.planning.why_not import ReasonCode

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PAGES = [
    path
    for path in sorted(DOCS.glob("*.md"))
    if "```python\n" in path.read_text() and path.name != "tutorial.md"  # test_tutorial.py
]


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


def test_every_result_that_is_kept_is_cited():
    command = ["git", "ls-files", "benchmarks/results"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    pages = [*ALL_PAGES, ROOT / "benchmarks" / "README.md"]
    cited = "".join(page.read_text() for page in pages)
    assert [file for file in listed.stdout.split() if Path(file).name not in cited] == []


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


def linked_pages(page):
    targets = re.findall(r"\]\(([\w/.-]+\.md)", page.read_text())
    return {(page.parent / target).resolve() for target in targets}


def test_the_index_links_every_page_and_the_readme_links_the_index():
    pages = {*make_site.pages(), DOCS / "index.md"}
    assert linked_pages(DOCS / "index.md") == pages - {DOCS / "index.md"}
    assert DOCS / "index.md" in linked_pages(ROOT / "README.md")


def test_every_extra_is_on_the_page_of_what_to_install():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (DOCS / "deployment.md").read_text()
    for name in project["optional-dependencies"].keys() - {"dev", "browser"}:
        assert f"`{name}`" in page


def test_the_site_has_every_page_once():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    named = re.findall(r"'([\w/.-]+\.md)'", str(nav))
    assert sorted(named) == sorted(map(make_site.place_of, make_site.pages()))


def test_links_of_the_site_lead_to_what_is_laid_there(tmp_path):
    make_site.main(tmp_path / "pages")
    for page in (tmp_path / "pages").rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:\s]+)[#)]", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    zensical = ROOT / ".venvs/site/bin/zensical"
    if not zensical.exists():
        pytest.skip("make site has not run")
    built = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (ROOT / "build/site/tutorial/index.html").exists()
