"""Lay the pages for the site, which Zensical builds: `python docs/make_site.py FOLDER`.

Zensical reads one folder. Pages are read where they stand, too, so their links lead to places of
the repository; here the pages of docs/ and of the top level lie beside each other, with what they
link.
"""

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What is not at its own place: the site's first page has the list of pages, as docs/ has.
_MOVED = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
}
_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
_FENCE = re.compile(r"^```(\w+) (?:spark|slow|alone)$", re.MULTILINE)


def pages() -> list[Path]:
    """Return the pages of the site."""
    top = [path for path in sorted(ROOT.glob("*.md")) if path.name != "README.md"]
    inner = [ROOT / "benchmarks/README.md", ROOT / "examples/README.md"]
    return [*top, *inner, *sorted((ROOT / "docs").glob("*.md"))]


def place_of(path: Path) -> str:
    """Return where a file of the repository lies in the site."""
    name = path.relative_to(ROOT).as_posix()
    return _MOVED.get(name, name.removeprefix("docs/"))


def text_for_site(page: Path) -> tuple[str, set[Path]]:
    """Return a page whose links lead within the site, and the files that it links."""
    linked = set()

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link[1]))
        linked.add(target)
        return os.path.relpath(place_of(target), Path(place_of(page)).parent)

    return _FENCE.sub(r"```\1", _LINK.sub(moved, page.read_text("utf-8"))), linked


def main(folder: Path) -> None:
    """Fill a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    known, files = set(pages()), set[Path]()
    for page in known:
        text, linked = text_for_site(page)
        files |= {path for path in linked if path.is_file() and path.suffix != ".md"}
        _write(folder / place_of(page), text)
    for file in files:
        _write(folder / place_of(file), file.read_text("utf-8"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
